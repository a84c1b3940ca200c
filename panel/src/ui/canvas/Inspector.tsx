// What the selected operator is set to. Each field sends one edit when it is left.

import { useEffect, useRef, type ReactNode } from "react";

import { asText } from "../../client/loose";
import type { Edit, Json, JsonObject, Operator, OperatorType, Workflow } from "../../client/types";
import { CloseButton } from "../common/CloseButton";
import { TrashIcon } from "../icons";
import { fieldKind, isObject, rowSchemas } from "./fieldKind";
import { operatorTypeOf } from "./flow";
import { Glyph } from "./Glyph";
import { JsonField } from "./JsonField";
import { lineOf } from "./lines";
import { LinksField } from "./LinksField";
import { PropertyField } from "./PropertyField";
import { RowsField } from "./RowsField";

export function Inspector({
  operator,
  workflow,
  type,
  blocked,
  entered,
  onEdit,
  onClose,
}: {
  operator: Operator;
  workflow: Workflow;
  /** Null for a type that the server does not know: its properties are edited as JSON. */
  type: OperatorType | null;
  blocked: string | null;
  /** Opened by the keyboard, which goes on inside. */
  entered: boolean;
  onEdit: (edits: Edit[]) => void;
  onClose: () => void;
}) {
  const { operatorID } = operator;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (entered) heading.current?.focus();
  }, [entered]);
  const properties = operator.operatorProperties ?? {};
  const disabled = blocked !== null;
  const schemas = Object.entries(type?.properties.properties ?? {});
  const required = new Set(type?.properties.required ?? []);

  const set = (members: Partial<Operator>) =>
    onEdit([{ op: "changeOperator", operatorID, set: members }]);
  const setProperty = (name: string, value: Json | undefined) => {
    const next: JsonObject = { ...properties };
    if (value === undefined) delete next[name];
    else next[name] = value;
    set({ operatorProperties: next });
  };

  const simple: ReactNode[] = [];
  let rest = 0;
  for (const [name, schema] of schemas) {
    const value = properties[name];
    const kind = fieldKind(name, schema, value);
    const members = kind === null ? rowSchemas(schema, value) : null;
    if (members !== null) {
      simple.push(
        <RowsField
          key={name}
          name={name}
          schema={schema}
          members={members}
          rows={(Array.isArray(value) ? value : []).filter(isObject)}
          disabled={disabled}
          onChange={(rows) => setProperty(name, rows)}
        />,
      );
      continue;
    }
    if (kind === null) {
      rest += 1;
      continue;
    }
    simple.push(
      <PropertyField
        key={name}
        name={name}
        schema={schema}
        kind={kind}
        value={value}
        required={required.has(name)}
        disabled={disabled}
        onChange={(next) => setProperty(name, next)}
      />,
    );
  }
  rest += Object.keys(properties).filter((name) => !schemas.some(([one]) => one === name)).length;

  return (
    <aside
      className="inspector floating"
      aria-label={`Operator ${operatorID}`}
      onKeyDown={(event) => {
        // A field that has Escape for itself has taken it by now.
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        onClose();
      }}
    >
      <div className="inspector-head" data-line={lineOf(operatorTypeOf(operator))}>
        <span className="disc">
          <Glyph type={operatorTypeOf(operator)} />
        </span>
        <div>
          <h2 ref={heading} tabIndex={-1}>{type?.label ?? operatorTypeOf(operator)}</h2>
          <code title={operatorID}>{operatorID}</code>
        </div>
        <CloseButton onClose={onClose} />
      </div>
      <div className="inspector-body">
        {disabled && <p className="note">{blocked}. Its settings can be read, not changed.</p>}
        <PropertyField
          name="name"
          schema={{ type: "string", title: "Name" }}
          kind="text"
          value={asText(operator.customDisplayName)}
          required={false}
          disabled={disabled}
          onChange={(value) => set({ customDisplayName: String(value ?? "") })}
        />
        {simple}
        <LinksField
          operator={operator}
          workflow={workflow}
          disabled={disabled}
          onEdit={onEdit}
        />
        <PropertyField
          name="isDisabled"
          schema={{ type: "boolean", title: "Switched off" }}
          kind="boolean"
          value={operator.isDisabled === true}
          required={false}
          disabled={disabled}
          onChange={(value) => set({ isDisabled: value === true })}
        />
        <details className="inspector-json" open={simple.length === 0 || undefined}>
          <summary>All properties as JSON{rest > 0 && simple.length > 0 ? `, ${rest} only here` : ""}</summary>
          <JsonField
            label="Properties"
            value={properties}
            disabled={disabled}
            onApply={(value) => set({ operatorProperties: value })}
          />
        </details>
        <button
          type="button"
          className="button danger quiet"
          disabled={disabled}
          title={blocked ?? "Remove this operator and its links"}
          onClick={() => {
            onClose();
            onEdit([{ op: "removeOperator", operatorID }]);
          }}
        >
          <TrashIcon />
          Remove operator
        </button>
      </div>
    </aside>
  );
}
