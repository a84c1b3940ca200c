// The workflow as a list: every operator with its links, for whoever cannot use the drawing.

import { useEffect, useRef, type KeyboardEvent } from "react";

import type { Marks } from "../../client/preview";
import type { Edit, Link, Operator, Workflow } from "../../client/types";
import { counted } from "../../client/words";
import { CloseButton } from "../common/CloseButton";
import { moveFocus } from "../common/moveFocus";
import { useReturnFocus } from "../common/useReturnFocus";
import { TrashIcon } from "../icons";
import { digest } from "./digest";
import { MARK_WORDS, operatorName, operatorTypeOf } from "./flow";
import { Glyph } from "./Glyph";
import { lineOf } from "./lines";

export function Outline({
  workflow,
  marks,
  blocked,
  onOpen,
  onEdit,
  onClose,
}: {
  workflow: Workflow;
  marks: Marks;
  blocked: string | null;
  /** Selects an operator and opens its settings. */
  onOpen: (operatorID: string) => void;
  onEdit: (edits: Edit[]) => void;
  onClose: () => void;
}) {
  const panel = useRef<HTMLDivElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useReturnFocus();
  useEffect(() => heading.current?.focus(), []);

  const operators = workflow.operators ?? [];
  const links = workflow.links ?? [];
  const names = new Map(operators.map((one) => [one.operatorID, operatorName(one)]));
  const leaving = new Map<string, Link[]>();
  for (const link of links) {
    const { operatorID } = link.source;
    leaving.set(operatorID, [...(leaving.get(operatorID) ?? []), link]);
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") onClose();
    else if (!moveFocus(event, panel.current, ".outline-operator")) return;
    event.preventDefault();
    event.stopPropagation();
  };

  const one = (operator: Operator) => {
    const { operatorID } = operator;
    const mark = marks.operators.get(operatorID);
    const detail = digest(operator);
    return (
      <li key={operatorID}>
        <button
          type="button"
          className="outline-operator"
          data-line={lineOf(operatorTypeOf(operator))}
          onClick={() => onOpen(operatorID)}
        >
          <span className="disc small">
            <Glyph type={operatorTypeOf(operator)} />
          </span>
          <span dir="auto">
            {operatorName(operator)}
            <small>
              {operatorTypeOf(operator)} <code>{operatorID}</code>
              {detail !== null && ` ${detail}`}
              {mark && `, ${MARK_WORDS[mark]}`}
            </small>
          </span>
        </button>
        <ul className="outline-links">
          {(leaving.get(operatorID) ?? []).map((link) => (
            <li key={link.linkID}>
              <span>to {names.get(link.target.operatorID) ?? link.target.operatorID}</span>
              <RemoveLink
                link={link}
                names={names}
                blocked={blocked}
                onEdit={(edits) => {
                  // The button goes with the link.
                  heading.current?.focus();
                  onEdit(edits);
                }}
              />
            </li>
          ))}
        </ul>
      </li>
    );
  };

  return (
    <div
      className="outline palette floating"
      role="dialog"
      aria-label="Outline of the workflow"
      ref={panel}
      onKeyDown={onKeyDown}
    >
      <div className="palette-head">
        <h2 tabIndex={-1} ref={heading}>
          {counted(operators.length, "operator")}, {counted(links.length, "link")}
        </h2>
        <CloseButton onClose={onClose} />
      </div>
      <div className="palette-list">
        {operators.length === 0 && <p className="palette-note">The canvas holds no operator.</p>}
        <ul className="outline-list">{operators.map(one)}</ul>
      </div>
    </div>
  );
}

function RemoveLink({
  link,
  names,
  blocked,
  onEdit,
}: {
  link: Link;
  names: ReadonlyMap<string, string>;
  blocked: string | null;
  onEdit: (edits: Edit[]) => void;
}) {
  const from = names.get(link.source.operatorID) ?? link.source.operatorID;
  const to = names.get(link.target.operatorID) ?? link.target.operatorID;
  const label = `Remove the link from ${from} to ${to}`;
  return (
    <button
      type="button"
      className="button icon-only quiet small"
      aria-label={label}
      title={blocked ?? label}
      disabled={blocked !== null}
      onClick={() => onEdit([{ op: "removeLink", linkID: link.linkID }])}
    >
      <TrashIcon />
    </button>
  );
}
