// Everything behind the sign-in: who is in, or what keeps them out.

import { useEffect, useSyncExternalStore, type ReactNode } from "react";

import { ask, callerState, subscribe } from "../../client/caller";
import { Logo } from "../common/Logo";
import { CallerContext } from "./useCaller";
import { SignIn } from "./SignIn";

export function Account({ children }: { children: ReactNode }) {
  const state = useSyncExternalStore(subscribe, callerState);
  useEffect(() => void ask(), []);
  switch (state.phase) {
    case "asking":
      return null;
    case "out":
      return <SignIn ended={state.ended} />;
    case "failed":
      return (
        <main className="lost">
          <Logo />
          <h1>Not there yet</h1>
          <p>{state.problem.message}</p>
          <button type="button" className="button primary" onClick={() => void ask()}>
            Try again
          </button>
        </main>
      );
    case "known":
      return (
        // Another person's page begins anew.
        <CallerContext key={state.caller.principal} value={state.caller}>
          {children}
        </CallerContext>
      );
  }
}
