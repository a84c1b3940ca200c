// What is streaming just now; the finished step takes its place. And what waits for a person.

import type { Streaming } from "../../client/reducer";
import type { Approval } from "../../client/types";
import { ApprovalCard, type Decide } from "../undo/ApprovalCard";
import { Prose } from "./Prose";
import { StreamingCard } from "./StreamingCard";

export function Running({
  streaming,
  word,
  waitingFor,
  decideBlocked,
  onDecide,
}: {
  streaming: Streaming | null;
  word: string;
  waitingFor: readonly Approval[];
  decideBlocked: string | null;
  onDecide: Decide;
}) {
  const asked = new Set(waitingFor.map((approval) => approval.toolCallId));
  const calls = streaming?.calls.filter((call) => !asked.has(call.toolCallId)) ?? [];
  const text = streaming?.text ?? "";
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
