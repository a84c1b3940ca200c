// What is going on, in one line to be seen. What is to be heard is the announcer's.

import type { View } from "../../client/session";
import type { Approval } from "../../client/types";
import type { Caller } from "../../client/caller";
import { counted } from "../../client/words";
import { otherThan, useCaller } from "../account/useCaller";

function sentence({ state, connection }: View, steps: number, caller: Caller): string {
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
  const { lastMove } = state;
  const by = lastMove && otherThan(caller, lastMove.by);
  const who = by ? ` by ${by}` : "";
  switch (lastMove?.cause) {
    case "revert":
      return `Reverted${lastMove.turns ? ` ${counted(lastMove.turns, "turn")}` : ""}${who}`;
    case "redo":
      return `Redone${who}`;
    case "checkout":
      return `On another line${who && `, taken there${who}`}`;
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
  const caller = useCaller();
  return (
    <div
      className="status-line"
      data-agent={connection.phase === "open" ? state.agent : "UNAVAILABLE"}
    >
      <span className="lamp" aria-hidden="true" />
      <span className="status-words">{sentence(view, steps, caller)}</span>
    </div>
  );
}
