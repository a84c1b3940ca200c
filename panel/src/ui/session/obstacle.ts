// Why the page cannot change anything just now, in words for the button that it disables.

import type { View } from "../../client/session";
import type { Right } from "../../client/types";

export type Rights = ReadonlySet<Right> | null;

export const READ_ONLY = "You may read this session, not change it";

export function obstacle({ state, connection, moving }: View, rights: Rights): string | null {
  if (!state.ready || rights === null) return "The session is still loading";
  if (connection.phase !== "open") return "The connection is lost";
  if (!rights.has("run")) return READ_ONLY;
  if (state.archived) return "This session is archived and read-only";
  switch (state.agent) {
    case "GENERATING":
      if (state.waitingFor.length > 0) return "The agent waits for a decision";
      return "The agent is working";
    case "STOPPING":
      return "The agent is stopping";
    case "UNAVAILABLE":
      return "The server cannot reach its database";
    case "AVAILABLE":
      if ([...state.undos.values()].some((undo) => undo.phase === "run")) {
        return "Effects outside are being taken back";
      }
      return moving ? "A change is on its way" : null;
  }
}

/** Why no fork can be made just now: one may be made of a session that is archived, or at work. */
export function forkObstacle(
  { state, connection }: View,
  rights: Rights,
  busy: boolean,
): string | null {
  if (busy) return "A fork is being made";
  if (!state.ready || rights === null) return "The session is still loading";
  if (connection.phase !== "open") return "The connection is lost";
  if (!rights.has("fork")) return "You may read this session, not fork it";
  return state.agent === "UNAVAILABLE" ? "The server cannot reach its database" : null;
}
