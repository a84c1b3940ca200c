// Forking, as a person does it: at one turn, to one side of it; then the fork opens in this place.

import { useCallback, useRef, useState } from "react";

import { newRequestId } from "../../client/connection";
import { forkSession, type ForkRequest } from "../../client/forks";
import type { Session } from "../../client/session";
import { plant, seedOf } from "../../client/seed";
import { navigate, sessionPath } from "../router";

export interface Forking {
  fork: (request: ForkRequest) => void;
  /** One is being made. */
  busy: boolean;
}

export function useFork(session: Session, fail: (error: unknown) => void): Forking {
  const [busy, setBusy] = useState(false);
  const running = useRef(false);
  // A try whose answer was lost may have made one: the next with this key finds it.
  const keys = useRef(new Map<string, string>());

  const fork = useCallback(
    (request: ForkRequest) => {
      // A second click joins the first.
      if (running.current) return;
      running.current = true;
      setBusy(true);
      const asked = JSON.stringify(request);
      const key = keys.current.get(asked) ?? newRequestId();
      keys.current.set(asked, key);
      forkSession(session.id, request, key)
        .then(({ session: made, lineage }) => {
          keys.current.delete(asked);
          const { steps } = session.getView().state;
          plant(made.id, seedOf(steps, lineage.cutoff_id, made.name));
          navigate(sessionPath(made.id));
        }, fail)
        .finally(() => {
          running.current = false;
          setBusy(false);
        });
    },
    [session, fail],
  );
  return { fork, busy };
}
