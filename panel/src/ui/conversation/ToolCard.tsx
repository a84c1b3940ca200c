// One call of a tool: what it did in a line, its arguments and its result on demand, with their size.

import { useState } from "react";

import { own } from "../../client/loose";
import type { ToolResult } from "../../client/types";
import { firstWords, inBytes } from "../../client/words";
import { lineOf } from "../canvas/lines";
import { ClassBadge } from "../undo/ClassBadge";
import { OwnerBadge, OwnerNote } from "../undo/OwnerBadge";
import { StandingBadge } from "../undo/StandingBadge";
import { useOutsideOf, useTool } from "../undo/useOutside";
import { AlertIcon, CheckIcon, DownIcon } from "../icons";

const VERBS: Readonly<Record<string, string>> = {
  addOperator: "Add",
  modifyOperator: "Change",
  deleteOperator: "Delete",
  getWorkflow: "Read the workflow",
};

/** Characters shown of a longer output until it is asked for. */
const SHOWN = 4_000;
/** Characters of an output from which on its size is worth a word. */
const SIZED = 1_000;
/** Characters of a summary or an error in the card's own line. */
const SUMMARY = 300;

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

export function ToolCard({
  id: callId,
  name,
  input,
  result,
}: {
  /** Of the call. */
  id: string;
  name: string;
  input: Record<string, unknown>;
  /** Null while the call runs. */
  result: ToolResult | null;
}) {
  const [open, setOpen] = useState(false);
  const type = text(input["operatorType"]);
  const id = text(input["operatorId"]);
  const tool = useTool(name);
  const { effect, standing, heldUntil, item, owner } = useOutsideOf(callId);
  const remains = item?.residue?.status === "open";
  /** Whether how it stands is all that there is to say of it. */
  const alone = !remains && owner === null;
  const state = result === null ? "running" : result.isError ? "error" : "ok";
  const summary = result?.isError ? result.output : text(input["summary"]);
  return (
    <details
      className="tool"
      data-state={state}
      data-line={type ? lineOf(type) : undefined}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <span className="tool-dot" aria-hidden="true" />
        <span className="tool-title">
          {tool?.tool ?? own(VERBS, name) ?? name}
          {type && <strong> {type}</strong>}
          {id && <> <code>{id}</code></>}
        </span>
        <span className="tool-state">
          {standing === null && result === null && tool && <ClassBadge of={tool.class} />}
          {standing !== null && alone && <StandingBadge standing={standing} heldUntil={heldUntil} />}
          {result && result.output.length >= SIZED && <small>{inBytes(result.output.length)}</small>}
          {state === "ok" && <CheckIcon />}
          {state === "error" && <AlertIcon />}
          {state === "running" && <span className="spinner" aria-hidden="true" />}
          <span className="sr-only">
            {state === "ok" ? "done" : state === "error" ? "failed" : "running"}
          </span>
        </span>
        <DownIcon />
        {!alone && (
          <span className="tool-badges">
            {standing !== null && <StandingBadge standing={standing} heldUntil={heldUntil} />}
            {remains && <span className="left-badge">something remains</span>}
            {owner !== null && <OwnerBadge owner={owner} />}
          </span>
        )}
        {summary !== null && (
          <span className="tool-summary" dir="auto">
            {firstWords(summary, SUMMARY)}
          </span>
        )}
      </summary>
      {open && (
        <div className="tool-body">
          {effect && (
            <p className="tool-effect">
              <ClassBadge of={effect.class} />
              {effect.what !== "" && <bdi>{effect.what}</bdi>}
              {effect.people.length > 0 && <bdi>{effect.people.join(", ")}</bdi>}
            </p>
          )}
          {owner !== null && <OwnerNote owner={owner} />}
          <h3>
            Arguments of <code>{name}</code>
          </h3>
          <Output label="Arguments" text={JSON.stringify(input, null, 2)} />
          {result && (
            <>
              <h3>Result</h3>
              <Output label="Result" text={result.output} />
            </>
          )}
        </div>
      )}
    </details>
  );
}

function Output({ label, text }: { label: string; text: string }) {
  const [whole, setWhole] = useState(false);
  const cut = text.length > SHOWN && !whole;
  return (
    <>
      <pre tabIndex={0} role="group" aria-label={label} dir="auto">
        {cut ? `${text.slice(0, SHOWN)}…` : text}
      </pre>
      {cut && (
        <button type="button" className="link" onClick={() => setWhole(true)}>
          Show all, {inBytes(text.length)}
        </button>
      )}
    </>
  );
}
