// Who uses the page, for what is drawn.

import { createContext, useContext } from "react";

import type { Caller } from "../../client/caller";

/** Before there are keys: whoever reaches the server owns everything in it. */
export const LOCAL: Caller = {
  principal: "local",
  project: "local",
  role: "owner",
  key_id: null,
  decides: false,
};

export const CallerContext = createContext<Caller>(LOCAL);

export function useCaller(): Caller {
  return useContext(CallerContext);
}

/** Somebody else's name, for what they did; null where it was this caller, or nobody can be told apart. */
export function otherThan({ principal }: Caller, by: string): string | null {
  return by === principal ? null : by;
}

/** Why this page cannot decide what a person has to; null where it can. */
export function decisionObstacle({ decides }: Caller): string | null {
  return decides
    ? null
    : "This is for a person to decide: open the page by the address that `turnback address` prints";
}

/** Why this caller cannot make a session; null where it can. */
export function createObstacle({ role }: Caller): string | null {
  if (role === "viewer") return "As a viewer you may read and fork sessions, not make new ones";
  return role === null ? "As a guest you see the sessions that you were granted, and make none" : null;
}

/** Whether this caller may write in a fork that it makes, which is its own: forking alone gives no right to. */
export function writesInForks({ role }: Caller): boolean {
  return role === "editor" || role === "owner";
}
