// One finished step of the agent: what it said, what it called, and how the turn ended with it.

import { memo } from "react";

import type { EndReason, Step } from "../../client/types";
import { Prose } from "./Prose";
import { ToolCard } from "./ToolCard";

/** How a turn ended other than by being complete, and what can be done about it. */
const ENDINGS: Readonly<Record<Exclude<EndReason, "complete">, [name: string, advice: string]>> = {
  stopped: ["Stopped", "You stopped it here. What was done so far stays: ask to go on, or revert."],
  failed: ["Failed", "What was done before stays. Send the message again, or revert the turn."],
  limit: ["Limit reached", "The turn came to its limit. Ask the agent to go on, or revert."],
  interrupted: [
    "Interrupted",
    "The server went down in the middle. What was done so far stays: ask to go on, or revert.",
  ],
};

export const AgentStep = memo(function AgentStep({ step }: { step: Step }) {
  const calls = step.toolCalls ?? [];
  const results = new Map(step.toolResults?.map((result) => [result.toolCallId, result]));
  const ending = step.endReason && step.endReason !== "complete" ? ENDINGS[step.endReason] : null;
  return (
    <div className="agent-step" data-ending={step.endReason ?? undefined}>
      {ending !== null && <span className="ending">{ending[0]}</span>}
      {step.content.trim() !== "" && <Prose text={step.content} />}
      {calls.map((call) => (
        <ToolCard
          key={call.toolCallId}
          id={call.toolCallId}
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
      {ending !== null && <p className="ending-advice">{ending[1]}</p>}
    </div>
  );
});
