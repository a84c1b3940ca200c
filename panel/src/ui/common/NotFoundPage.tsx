// A page for an address that shows nothing: what is the matter, and the way back.

import { navigate } from "../router";
import { Logo } from "./Logo";

export function NotFoundPage({ sentence }: { sentence: string }) {
  return (
    <main className="lost">
      <Logo />
      <h1>End of the line</h1>
      <p>{sentence}</p>
      <button type="button" className="button primary" onClick={() => navigate("/")}>
        All sessions
      </button>
    </main>
  );
}
