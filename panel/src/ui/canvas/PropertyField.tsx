// One simple value among an operator's properties, in the field that its kind asks for.

import { useEffect, useId, useState } from "react";

import { isNumber, toNumber } from "../../client/json";
import type { Json, PropertySchema } from "../../client/types";
import { words } from "../../client/words";
import { inline } from "../conversation/Prose";
import type { Kind } from "./fieldKind";

export function PropertyField({
  name,
  schema,
  kind,
  value,
  required,
  disabled,
  onChange,
}: {
  name: string;
  schema: PropertySchema;
  kind: Kind;
  value: Json | undefined;
  required: boolean;
  disabled: boolean;
  /** `undefined` takes the property away. */
  onChange: (value: Json | undefined) => void;
}) {
  const id = useId();
  const shown = toText(kind, value);
  const [text, setText] = useState(shown);
  useEffect(() => setText(shown), [shown]);

  const label = schema.title || words(name);
  const commit = (next: string) => {
    if (next === shown) return;
    const parsed = fromText(kind, next, required);
    if (parsed === INVALID) setText(shown);
    else onChange(parsed);
  };
  const common = {
    id,
    disabled,
    "aria-describedby": schema.description ? `${id}-about` : undefined,
  };

  if (kind === "boolean") {
    return (
      <div className="field check">
        <input
          {...common}
          type="checkbox"
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
        <label htmlFor={id}>{label}</label>
        <About id={id} schema={schema} />
      </div>
    );
  }
  const typing = {
    ...common,
    value: text,
    spellCheck: false,
    onBlur: () => commit(text),
  };
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {required && <span className="required">required</span>}
      </label>
      {kind === "choice" ? (
        <select {...common} value={text} onChange={(event) => commit(event.currentTarget.value)}>
          {!(schema.enum ?? []).includes(text) && <option value={text}>{text || "Choose"}</option>}
          {(schema.enum ?? []).map((choice) => (
            <option key={String(choice)} value={String(choice)}>
              {String(choice)}
            </option>
          ))}
        </select>
      ) : kind === "long" || kind === "names" ? (
        <textarea
          {...typing}
          className={kind === "long" ? "code" : undefined}
          rows={kind === "long" ? 7 : Math.min(8, Math.max(2, text.split("\n").length))}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      ) : (
        <input
          {...typing}
          inputMode={kind === "text" ? "text" : "decimal"}
          onChange={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") commit(text);
          }}
        />
      )}
      {kind === "names" && <p className="field-about">One on each line.</p>}
      <About id={id} schema={schema} />
    </div>
  );
}

function About({ id, schema }: { id: string; schema: PropertySchema }) {
  return schema.description ? (
    <p className="field-about" id={`${id}-about`}>
      {inline(schema.description)}
    </p>
  ) : null;
}

function toText(kind: Kind, value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (kind === "names") return (value as string[]).join("\n");
  return isNumber(value) ? String(toNumber(value)) : String(value);
}

const INVALID = Symbol("invalid");

function fromText(kind: Kind, text: string, required: boolean): Json | undefined | typeof INVALID {
  if (kind === "names") return text.split("\n").map((one) => one.trim()).filter(Boolean);
  if (kind === "number" || kind === "integer") {
    if (text.trim() === "") return required ? INVALID : undefined;
    const number = Number(text);
    if (!Number.isFinite(number) || (kind === "integer" && !Number.isInteger(number))) return INVALID;
    return number;
  }
  return text;
}
