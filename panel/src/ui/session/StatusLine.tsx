// What is going on, in one line to be seen. What is to be heard is the announcer's.

import type { View } from "../../client/session";
import type { Approval } from "../../client/types";
import { counted } from "../../client/words";

function sentence({ state, connection }: View, steps: number): string {
  if (!state.ready) return "Loading";
  if (connection.phase !== "open") return "Not connected";
  if (state.archived) return "Archived, read-only";
  switch (state.agent) {
    case "GENERATING":
      if (state.waitingFor.length > 0) return waiting(state.waitingFor);
      return steps === 0 ? "Working" : `Working, ${steps} ${steps === 1 ? "step" : "steps"} done`;
    case "STOPPING":
      return "Stopping";
    case "UNAVAILABLE":
      return "The database cannot be reached";
    case "AVAILABLE":
      break;
  }
  switch (state.lastMove?.cause) {
    case "revert":
      return state.lastMove.turns ? `Reverted ${counted(state.lastMove.turns, "turn")}` : "Reverted";
    case "redo":
      return "Redone";
    case "checkout":
      return "On another line";
    default:
      return "Ready";
  }
}

function waiting(calls: readonly Approval[]): string {
  const [first] = calls;
  return calls.length === 1 && first
    ? `Waits for a decision about ${first.toolName}`
    : `Waits for decisions about ${counted(calls.length, "call")}`;
}

export function StatusLine({ view, steps }: { view: View; steps: number }) {
  const { state, connection } = view;
  return (
    <div
      className="status-line"
      data-agent={connection.phase === "open" ? state.agent : "UNAVAILABLE"}
    >
      <span className="lamp" aria-hidden="true" />
      <span className="status-words">{sentence(view, steps)}</span>
    </div>
  );
}
