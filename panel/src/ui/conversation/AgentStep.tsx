// One finished step of the agent: what it said, what it called, and how the turn ended with it.

import type { EndReason, Step } from "../../client/types";
import { Prose } from "./Prose";
import { ToolCard } from "./ToolCard";

const ENDINGS: Readonly<Record<Exclude<EndReason, "complete">, string>> = {
  stopped: "Stopped",
  failed: "Failed",
  limit: "Limit reached",
  interrupted: "Interrupted",
};

export function AgentStep({ step }: { step: Step }) {
  const calls = step.toolCalls ?? [];
  const results = new Map(step.toolResults?.map((result) => [result.toolCallId, result]));
  const ending = step.endReason && step.endReason !== "complete" ? ENDINGS[step.endReason] : null;
  return (
    <div className="agent-step" data-ending={step.endReason ?? undefined}>
      {ending !== null && <span className="ending">{ending}</span>}
      {step.content.trim() !== "" && <Prose text={step.content} />}
      {calls.map((call) => (
        <ToolCard
          key={call.toolCallId}
          name={call.toolName}
          input={call.input}
          result={
            results.get(call.toolCallId) ?? {
              toolCallId: call.toolCallId,
              output: "No result",
              isError: true,
            }
          }
        />
      ))}
    </div>
  );
}
