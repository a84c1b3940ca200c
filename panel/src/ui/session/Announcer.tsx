// What a person who does not see the page is told: that the agent works and what came of it, where
// HEAD went, what can be done next. Text that streams is not read out word by word.

import { useEffect, useRef, useState } from "react";

import type { Turn } from "../../client/paths";
import type { SessionState } from "../../client/reducer";
import { headline } from "../../client/undoWords";
import { counted, firstWords } from "../../client/words";

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
    if (lastMove && lastMove.eventSeq !== last.move) setSaid(ofMove(state, turns));
    else if (now.waits !== last.waits && state.waitingFor.length > 0) setSaid(ofWaiting(state));
    else if (now.undos !== last.undos) setSaid(ofUndo(state));
    else if (agent === last.agent) return;
    else if (agent === "GENERATING") setSaid("The agent is working.");
    else if (agent === "STOPPING") setSaid("The agent is stopping.");
    else if (agent === "UNAVAILABLE") setSaid("The server cannot reach its database.");
    else setSaid(ofEnd(turns.at(-1)));
  }, [state, turns]);
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
    undos: [...undos.values()].map(({ undoId, phase }) => `${undoId} ${phase}`).join(" "),
  };
}

function ofWaiting({ waitingFor }: SessionState): string {
  const names = waitingFor.map((approval) => approval.toolName).join(", ");
  return `The agent waits for your decision about ${names}.`;
}

function ofUndo({ undos }: SessionState): string {
  const undo = [...undos.values()].at(-1);
  if (!undo) return "";
  return undo.phase === "run" ? "Effects outside are being reverted." : `${headline(undo)}.`;
}

function ofMove({ lastMove, canRedo }: SessionState, turns: readonly Turn[]): string {
  const last = turns.at(-1);
  switch (lastMove?.cause) {
    case "revert": {
      const what = lastMove.turns === null ? "Reverted" : `Reverted ${counted(lastMove.turns, "turn")}`;
      return canRedo ? `${what}. Redo is available.` : `${what}.`;
    }
    case "redo": {
      const what =
        lastMove.turns === null ? "Redone" : `Redone: ${counted(lastMove.turns, "turn")} came back`;
      return canRedo ? `${what}. There is more to redo.` : `${what}.`;
    }
    case "checkout":
      return `On another line: ${counted(turns.length, "turn")}, the last is “${
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
