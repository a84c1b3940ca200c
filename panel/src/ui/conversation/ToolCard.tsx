// One call of a tool: what it did in a line, its arguments and its result on demand.

import { own } from "../../client/loose";
import type { ToolResult } from "../../client/types";
import { lineOf } from "../canvas/lines";
import { AlertIcon, CheckIcon, DownIcon } from "../icons";

const VERBS: Readonly<Record<string, string>> = {
  addOperator: "Add",
  modifyOperator: "Change",
  deleteOperator: "Delete",
  getWorkflow: "Read the workflow",
};

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

export function ToolCard({
  name,
  input,
  result,
}: {
  name: string;
  input: Record<string, unknown>;
  /** Null while the call runs. */
  result: ToolResult | null;
}) {
  const type = text(input["operatorType"]);
  const id = text(input["operatorId"]);
  const summary = text(input["summary"]);
  const state = result === null ? "running" : result.isError ? "error" : "ok";
  return (
    <details className="tool" data-state={state} data-line={type ? lineOf(type) : undefined}>
      <summary>
        <span className="tool-dot" aria-hidden="true" />
        <span className="tool-title">
          {own(VERBS, name) ?? name}
          {type && <strong> {type}</strong>}
          {id && <> <code>{id}</code></>}
        </span>
        <span className="tool-state">
          {state === "ok" && <CheckIcon />}
          {state === "error" && <AlertIcon />}
          {state === "running" && <span className="spinner" aria-hidden="true" />}
          <span className="sr-only">
            {state === "ok" ? "done" : state === "error" ? "failed" : "running"}
          </span>
        </span>
        <DownIcon />
        {(summary ?? result?.isError) && (
          <span className="tool-summary">{result?.isError ? result.output : summary}</span>
        )}
      </summary>
      <div className="tool-body">
        <h3>
          Arguments of <code>{name}</code>
        </h3>
        <pre tabIndex={0}>{JSON.stringify(input, null, 2)}</pre>
        {result && (
          <>
            <h3>Result</h3>
            <pre tabIndex={0}>{result.output}</pre>
          </>
        )}
      </div>
    </details>
  );
}
