// What the conversation shows before its first message.

import type { Operator } from "../../client/types";
import { operatorName } from "../canvas/flow";

/** Requests that fit the workflow, for the person's first one. */
function examples(operators: readonly Operator[]): string[] {
  const source = operators.find((operator) => (operator.inputPorts ?? []).length === 0);
  if (source) {
    return [
      "Show the canvas",
      `Add a filter on amount > 100 after "${operatorName(source)}"`,
      "Keep the first 10 rows",
    ];
  }
  return ["Build a sales report", "Load sales.csv", "Load orders.csv then sort by amount"];
}

export function EmptyConversation({
  operators,
  onExample,
}: {
  operators: readonly Operator[];
  onExample: (text: string) => void;
}) {
  return (
    <div className="empty-conversation">
      <h2>What should the workflow do?</h2>
      <p>
        Ask for a change and watch it happen on the canvas, step by step. You can turn back to before
        any message, and forward again.
      </p>
      <ul>
        {examples(operators).map((text) => (
          <li key={text}>
            <button type="button" className="example" onClick={() => onExample(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
