// Why the page cannot change anything just now, in words for the button that it disables.

import type { View } from "../../client/session";

export function obstacle({ state, connection, moving }: View): string | null {
  if (!state.ready) return "The session is still loading";
  if (connection.phase !== "open") return "The connection is lost";
  if (state.archived) return "This session is archived and read-only";
  switch (state.agent) {
    case "GENERATING":
      return "The agent is working";
    case "STOPPING":
      return "The agent is stopping";
    case "UNAVAILABLE":
      return "The server cannot reach its database";
    case "AVAILABLE":
      return moving ? "A change is on its way" : null;
  }
}

/** Why no fork can be made just now: one may be made of a session that is archived, or at work. */
export function forkObstacle({ state, connection }: View, busy: boolean): string | null {
  if (busy) return "A fork is being made";
  if (!state.ready) return "The session is still loading";
  if (connection.phase !== "open") return "The connection is lost";
  return state.agent === "UNAVAILABLE" ? "The server cannot reach its database" : null;
}
