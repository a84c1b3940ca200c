// What is streaming just now; the finished step takes its place. And what waits for a person.

import { useContext } from "react";

import type { Streaming } from "../../client/reducer";
import type { Approval } from "../../client/types";
import { ApprovalCard, type Decide } from "../undo/ApprovalCard";
import { StandingBadge } from "../undo/StandingBadge";
import { inOpenStep, OutsideContext } from "../undo/useOutside";
import { Prose } from "./Prose";
import { StreamingCard } from "./StreamingCard";

export function Running({
  turnId,
  steps,
  streaming,
  word,
  waitingFor,
  decideBlocked,
  onDecide,
}: {
  /** Null where the turn at work is not known yet. */
  turnId: string | null;
  /** Those that are finished. */
  steps: ReadonlyMap<string, unknown>;
  streaming: Streaming | null;
  word: string;
  waitingFor: readonly Approval[];
  decideBlocked: string | null;
  onDecide: Decide;
}) {
  const asked = new Set(waitingFor.map((approval) => approval.toolCallId));
  const calls = streaming?.calls.filter((call) => !asked.has(call.toolCallId)) ?? [];
  const text = streaming?.text ?? "";
  const outside = useContext(OutsideContext);
  const drawn = new Set(calls.map((call) => call.toolCallId));
  // After a reload the calls of the step that is open are known from the log alone.
  const done = inOpenStep(turnId, steps, outside).filter(
    (effect) => !drawn.has(effect.tool_call_id) && !asked.has(effect.tool_call_id),
  );
  return (
    <div className="running">
      <span className="station" aria-hidden="true" />
      {text !== "" && <Prose text={text} />}
      {calls.map((call) => (
        <StreamingCard
          key={call.toolCallId}
          id={call.toolCallId}
          name={call.toolName}
          partial={call.arguments}
        />
      ))}
      {waitingFor.length > 0 && done.length > 0 && (
        <ul className="open-step" aria-label="Done in this step so far">
          {done.map((effect) => (
            <li key={effect.effect_id}>
              <code>{effect.tool}</code> {effect.what !== "" && <bdi>{effect.what}</bdi>}{" "}
              {effect.standing !== null && <StandingBadge standing={effect.standing} />}
            </li>
          ))}
        </ul>
      )}
      {waitingFor.map((approval) => (
        <ApprovalCard
          key={approval.toolCallId}
          approval={approval}
          blocked={decideBlocked}
          onDecide={onDecide}
        />
      ))}
      {text === "" && calls.length === 0 && waitingFor.length === 0 && (
        <p className="thinking">{word}</p>
      )}
    </div>
  );
}
