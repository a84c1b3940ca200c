// A key for a cookie, where the server asks for one. The key itself is kept nowhere in the page.

import { useEffect, useRef, useState } from "react";

import { signIn } from "../../client/caller";
import type { Problem } from "../../client/rest";
import { Logo } from "../common/Logo";
import { ThemeToggle } from "../common/ThemeToggle";

export function SignIn({ ended }: { ended: boolean }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = "Sign in · Turnback";
    field.current?.focus();
  }, []);

  const submit = async () => {
    if (busy || key.trim() === "") return;
    setBusy(true);
    setProblem(null);
    try {
      await signIn(key.trim());
    } catch (error) {
      const { code, message } = error as Problem;
      setProblem(
        code === "unauthenticated" ? "This key is not known, has expired or was revoked." : message,
      );
      setBusy(false);
      field.current?.select();
    }
  };

  return (
    <div className="sign-in-page">
      <header className="list-head">
        <span className="wordmark">
          <Logo />
          Turnback
        </span>
        <ThemeToggle />
      </header>
      <main className="sign-in">
        <h1>Sign in</h1>
        {ended && (
          <p className="note" role="status">
            Your sign-in has ended. What you have written is still here.
          </p>
        )}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <label htmlFor="key">API key</label>
          <input
            ref={field}
            id="key"
            type="password"
            autoComplete="current-password"
            spellCheck={false}
            placeholder="tb_…"
            value={key}
            aria-invalid={problem !== null}
            aria-describedby="key-note"
            onChange={(event) => setKey(event.currentTarget.value)}
          />
          <p className="hint" id="key-note">
            An owner of your project makes keys, with <code>turnback keys create</code>.
          </p>
          {problem !== null && (
            <p className="note warn" role="alert">
              {problem}
            </p>
          )}
          <button type="submit" className="button primary" disabled={busy || key.trim() === ""}>
            {busy ? "Signing in" : "Sign in"}
          </button>
        </form>
      </main>
    </div>
  );
}
