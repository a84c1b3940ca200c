// What a person who does not see the page is told: that the agent works and what came of it, where
// HEAD went, what can be done next. Text that streams is not read out word by word.

import { useEffect, useRef, useState } from "react";

import type { Turn } from "../../client/paths";
import type { SessionState } from "../../client/reducer";
import type { Undo } from "../../client/types";
import { done, headline } from "../../client/undoWords";
import { counted, firstWords } from "../../client/words";
import { otherThan, useCaller } from "../account/useCaller";

/** Characters read out of an answer; the conversation has the rest. */
const READ_OUT = 240;

export function Announcer({
  state,
  turns,
  opening,
}: {
  state: SessionState;
  turns: readonly Turn[];
  /** What is said when the page has opened. */
  opening: string;
}) {
  const [said, setSaid] = useState("");
  const caller = useCaller();
  useEffect(() => setSaid(opening), [opening]);
  const before = useRef(noted(state));
  const ready = useRef(false);
  useEffect(() => {
    const { agent, lastMove } = state;
    const last = before.current;
    const now = (before.current = noted(state));
    // What was there when the page opened is not news.
    if (!ready.current) {
      ready.current = state.ready;
      return;
    }
    if (lastMove && lastMove.eventSeq !== last.move) setSaid(ofMove(state, turns, otherThan(caller, lastMove.by)));
    else if (now.waits !== last.waits && state.waitingFor.length > 0) setSaid(ofWaiting(state));
    else if (now.undone !== last.undone) setSaid(ofUndo(state, last.undos));
    else if (agent === last.agent) return;
    else if (agent === "GENERATING") setSaid("The agent is working.");
    else if (agent === "STOPPING") setSaid("The agent is stopping.");
    else if (agent === "UNAVAILABLE") setSaid("The server cannot reach its database.");
    else setSaid(ofEnd(turns.at(-1)));
  }, [state, turns, caller]);
  return (
    <p className="sr-only" role="status" data-announcer="">
      {said}
    </p>
  );
}

/** What is news when it is another one. */
function noted({ agent, lastMove, waitingFor, undos }: SessionState) {
  return {
    agent,
    move: lastMove?.eventSeq ?? null,
    waits: waitingFor.map((approval) => approval.argsHash).join(" "),
    undos: new Map([...undos].map(([id, undo]) => [id, newsOf(undo)])),
    undone: [...undos].map(([id, undo]) => `${id} ${newsOf(undo)}`).join(" "),
  };
}

/** How far an undo has come, in quarters: what is heard of it is no count-down. */
function newsOf(undo: Undo): string {
  const quarters = Math.floor((4 * done(undo)) / Math.max(1, undo.items.length));
  return undo.phase === "run" ? `run ${quarters}` : undo.phase;
}

function ofWaiting({ waitingFor }: SessionState): string {
  const names = waitingFor.map((approval) => approval.toolName).join(", ");
  return `The agent waits for your decision about ${names}.`;
}

/** Of the undo that is not as it was. */
function ofUndo({ undos }: SessionState, before: ReadonlyMap<string, string>): string {
  const undo = [...undos.values()].find((one) => newsOf(one) !== before.get(one.undoId ?? ""));
  if (!undo) return "";
  if (undo.phase !== "run") return `${headline(undo)}.`;
  return done(undo) === 0
    ? "Effects outside are being taken back."
    : `${done(undo)} of ${counted(undo.items.length, "effect")} done.`;
}

/** `by` is somebody else who made it. */
function ofMove(
  { lastMove, canRedo }: SessionState,
  turns: readonly Turn[],
  by: string | null,
): string {
  const who = by === null ? "" : ` by ${by}`;
  const last = turns.at(-1);
  switch (lastMove?.cause) {
    case "revert": {
      const what = lastMove.turns === null ? "Reverted" : `Reverted ${counted(lastMove.turns, "turn")}`;
      return canRedo ? `${what}${who}. Redo is available.` : `${what}${who}.`;
    }
    case "redo": {
      const what =
        lastMove.turns === null ? "Redone" : `Redone: ${counted(lastMove.turns, "turn")} came back`;
      return canRedo ? `${what}${who}. There is more to redo.` : `${what}${who}.`;
    }
    case "checkout":
      return `On another line${who && `, taken there${who}`}: ${counted(turns.length, "turn")}, the last is “${
        last?.prompt ? firstWords(last.prompt.content) : "not loaded"
      }”.`;
    case "edit":
      return last?.prompt ? `${firstWords(last.prompt.content, READ_OUT)}.` : "The canvas was edited.";
    case undefined:
      return "";
  }
}

function ofEnd(turn: Turn | undefined): string {
  const step = turn?.steps.at(-1);
  const text = firstWords(step?.content ?? "", READ_OUT);
  switch (step?.endReason) {
    case "complete":
      return `The agent has finished. ${text}`;
    case "stopped":
      return "The agent was stopped. What it had done stays.";
    case "failed":
      return `The turn failed. ${text}`;
    case "limit":
      return `The turn ended at a limit. ${text}`;
    case "interrupted":
      return "The turn was interrupted. What it had done stays.";
    case null:
    case undefined:
      return "The agent is ready.";
  }
}
