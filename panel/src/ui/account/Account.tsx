// Everything behind the sign-in: who is in, or what keeps them out.

import { useEffect, useSyncExternalStore, type ReactNode } from "react";

import { arrive, ask, callerState, subscribe } from "../../client/caller";
import { Logo } from "../common/Logo";
import { useToasts } from "../common/Toasts";
import { CallerContext } from "./useCaller";
import { SignIn } from "./SignIn";

export function Account({ children }: { children: ReactNode }) {
  const state = useSyncExternalStore(subscribe, callerState);
  const { fail } = useToasts();
  useEffect(() => {
    const come = () => void arrive().catch(fail);
    void arrive().then(ask, fail);
    addEventListener("hashchange", come); // the printed address, in a tab that is open here
    return () => removeEventListener("hashchange", come);
  }, [fail]);
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
        // Another person's page begins anew, and so do the sockets of one that has now come as one.
        <CallerContext key={`${state.caller.principal} ${state.arrivals}`} value={state.caller}>
          {children}
        </CallerContext>
      );
  }
}
