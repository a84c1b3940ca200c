// The message that a fork was made to send again. The server keeps it until a turn of the fork's own is
// complete; one page at a time is at it, by a claim. Here it is put into the composer, never over what
// the person has written, and put back when its turn came to a bad end.

import { useCallback, useEffect, useRef, useState } from "react";

import { newRequestId } from "../../client/connection";
import { claimDraft, releaseDraft } from "../../client/forks";
import { Problem } from "../../client/rest";
import type { SessionState } from "../../client/reducer";
import type { PendingAction } from "../../client/types";
import type { Draft } from "../conversation/useDraft";

/**
 * How long a page that was left has to come back before another one takes its place, in milliseconds: it
 * cannot tell a reload from the end.
 */
const RETURN = 10_000;

export interface Pending {
  action: PendingAction;
  /** `asking`: whose it is is not known yet; `elsewhere`: another page is at it; `left`: no longer. */
  place: "asking" | "here" | "elsewhere" | "left";
  /** What the composer holds came from it. */
  inComposer: boolean;
  /** Puts it into the composer, after what is there. */
  add: () => void;
}

/** `turnKey` is what a message has to be sent with; undefined where it is one of the person's own. */
export function usePending(
  id: string,
  state: SessionState,
  mayRun: boolean,
  draft: Draft,
): { pending: Pending | null; turnKey: string | undefined } {
  const { pending: action } = state;
  const [place, setPlace] = useState<Pending["place"]>("asking");
  const [taken, setTaken] = useState(() => get(`turnback.pending.${id}`));
  const claimId = useClaimId(id);
  const free = state.ready && mayRun && state.agent === "AVAILABLE" && !state.archived;
  const turnKey = action?.turnKey ?? null;
  const [tries, setTries] = useState(0);
  const mine = useRef(false);

  // Be at it, for as long as the page is open; where another page is, ask again when it has left.
  useEffect(() => {
    if (turnKey === null || !free) {
      setPlace("asking");
      return;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wanted = true;
    const again = (delay: number) => {
      timer = setTimeout(() => setTries((count) => count + 1), Math.max(250, delay));
    };
    claimDraft(id, claimId).then(
      (until) => {
        if (!wanted) return;
        mine.current = true;
        setPlace("here");
        if (until !== null) again((until - Date.now()) / 2);
      },
      (problem: Problem) => {
        if (!wanted) return;
        if (problem.code !== "pending_action_claimed") {
          if (problem.status === 0 || problem.status >= 500) again(5_000);
          return;
        }
        mine.current = false;
        setPlace("elsewhere");
        const { retryAfterMs } = problem.data;
        again(typeof retryAfterMs === "number" ? retryAfterMs : 5_000);
      },
    );
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [id, claimId, turnKey, free, tries]);

  // The other page has left it, or has come back.
  useEffect(() => {
    if (place === "left" && action?.state === "claimed") setPlace("elsewhere");
    if (place === "elsewhere" && action?.state === "pending") setPlace("left");
    if (place !== "left") return;
    const timer = setTimeout(() => setTries((count) => count + 1), RETURN);
    return () => clearTimeout(timer);
  }, [action?.state, place]);

  const take = useCallback(
    (key: string | null) => {
      put(`turnback.pending.${id}`, key);
      setTaken(key);
    },
    [id],
  );
  // Into the composer, where nothing is; after a bad end again.
  useEffect(() => {
    if (action === null || place !== "here" || !free || taken === action.turnKey) return;
    if (draft.now().trim() !== "") return;
    draft.set(action.draft);
    take(action.turnKey);
  }, [action, place, free, taken, draft.now, draft.set, take]);
  // What has been sent is no longer in the composer.
  useEffect(() => {
    if (state.agent === "GENERATING" || (state.ready && action === null)) take(null);
  }, [state.agent, state.ready, action, take]);

  useEffect(() => {
    const leave = () => {
      if (mine.current) void releaseDraft(id, claimId).catch(() => undefined);
      mine.current = false;
    };
    const back = (event: PageTransitionEvent) => {
      if (event.persisted) setTries((count) => count + 1);
    };
    addEventListener("pagehide", leave);
    addEventListener("pageshow", back);
    return () => {
      removeEventListener("pagehide", leave);
      removeEventListener("pageshow", back);
      leave();
    };
  }, [id, claimId]);

  const add = useCallback(() => {
    if (action === null) return;
    const now = draft.now();
    draft.set(now.trim() === "" ? action.draft : `${now.trimEnd()}\n${action.draft}`);
    take(action.turnKey);
  }, [action, draft.now, draft.set, take]);

  if (action === null || !mayRun) return { pending: null, turnKey: undefined };
  const inComposer = place === "here" && taken === action.turnKey && draft.text.trim() !== "";
  return {
    pending: { action, place, inComposer, add },
    turnKey: inComposer ? action.turnKey : undefined,
  };
}

/** Of this tab: it outlives a reload, and a copy of the tab has another. */
function useClaimId(id: string): string {
  const key = `turnback.claim.${id}`;
  const [claimId] = useState(() => {
    const before = get(key);
    put(key, null);
    return before ?? newRequestId();
  });
  useEffect(() => {
    const leave = () => put(key, claimId);
    const back = () => put(key, null);
    addEventListener("pagehide", leave);
    addEventListener("pageshow", back);
    return () => {
      removeEventListener("pagehide", leave);
      removeEventListener("pageshow", back);
    };
  }, [key, claimId]);
  return claimId;
}

function get(key: string): string | null {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

function put(key: string, value: string | null): void {
  try {
    if (value === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, value);
  } catch {
    // Forbidden or full: it is then known as long as the page is open.
  }
}
