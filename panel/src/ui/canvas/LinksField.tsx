// What feeds an operator and what it feeds: links by choice from a list, for whoever cannot draw them.

import { useId } from "react";

import { newRequestId } from "../../client/connection";
import { asText } from "../../client/loose";
import type { Edit, Link, Operator, Port, Workflow } from "../../client/types";
import { CloseIcon } from "../icons";
import { operatorName } from "./flow";

export function LinksField({
  operator,
  workflow,
  disabled,
  onEdit,
}: {
  operator: Operator;
  workflow: Workflow;
  disabled: boolean;
  onEdit: (edits: Edit[]) => void;
}) {
  const { operatorID } = operator;
  const links = workflow.links ?? [];
  const operators = workflow.operators ?? [];
  const named = (id: string) => {
    const one = operators.find((known) => known.operatorID === id);
    return one ? operatorName(one) : id;
  };
  const inputs = operator.inputPorts ?? [];
  const fed = [
    ...new Set(
      links.filter((l) => l.source.operatorID === operatorID).map((l) => named(l.target.operatorID)),
    ),
  ];
  if (inputs.length === 0 && fed.length === 0) return null;
  return (
    <fieldset className="rows links-field">
      <legend>Links</legend>
      {inputs.map((port, index) => (
        <InputPort
          key={port.portID}
          label={inputs.length === 1 ? "Input" : `Input ${asText(port.displayName) || index + 1}`}
          port={port}
          into={operator}
          links={links.filter(
            ({ target }) => target.operatorID === operatorID && target.portID === port.portID,
          )}
          operators={operators}
          named={named}
          disabled={disabled}
          onEdit={onEdit}
        />
      ))}
      {fed.length > 0 && <p className="field-about">Feeds {fed.join(", ")}</p>}
    </fieldset>
  );
}

function InputPort({
  label,
  port,
  into,
  links,
  operators,
  named,
  disabled,
  onEdit,
}: {
  label: string;
  port: Port;
  into: Operator;
  links: readonly Link[];
  operators: readonly Operator[];
  named: (id: string) => string;
  disabled: boolean;
  onEdit: (edits: Edit[]) => void;
}) {
  const id = useId();
  const linked = new Set(links.map((link) => `${link.source.operatorID} ${link.source.portID}`));
  const choices = operators
    .filter((one) => one.operatorID !== into.operatorID)
    .flatMap((one) =>
      (one.outputPorts ?? []).map((from) => ({
        operatorID: one.operatorID,
        portID: from.portID,
        words: `${operatorName(one)} (${one.operatorID})`,
      })),
    )
    .filter((choice) => !linked.has(`${choice.operatorID} ${choice.portID}`));
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {links.map((link) => (
        <span className="linked" key={link.linkID}>
          {named(link.source.operatorID)}
          <button
            type="button"
            className="button icon-only quiet small"
            aria-label={`Remove the link from ${named(link.source.operatorID)}`}
            disabled={disabled}
            onClick={() => onEdit([{ op: "removeLink", linkID: link.linkID }])}
          >
            <CloseIcon />
          </button>
        </span>
      ))}
      <select
        id={id}
        value=""
        disabled={disabled || choices.length === 0}
        onChange={(event) => {
          const choice = choices[Number(event.currentTarget.value)];
          if (!choice) return;
          onEdit([
            {
              op: "addLink",
              link: {
                linkID: `link-${newRequestId()}`,
                source: { operatorID: choice.operatorID, portID: choice.portID },
                target: { operatorID: into.operatorID, portID: port.portID },
              },
            },
          ]);
        }}
      >
        <option value="">{choices.length === 0 ? "Nothing to link" : "Link from…"}</option>
        {choices.map((choice, index) => (
          <option key={`${choice.operatorID} ${choice.portID}`} value={index}>
            {choice.words}
          </option>
        ))}
      </select>
    </div>
  );
}
