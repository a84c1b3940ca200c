// A list of flat objects, such as a filter's predicates: a small card for each.

import type { Json, JsonObject, PropertySchema } from "../../client/types";
import { words } from "../../client/words";
import { inline } from "../conversation/Prose";
import { CloseIcon, PlusIcon } from "../icons";
import { fieldKind } from "./fieldKind";
import { PropertyField } from "./PropertyField";

export function RowsField({
  name,
  schema,
  members,
  rows,
  disabled,
  onChange,
}: {
  name: string;
  schema: PropertySchema;
  members: [name: string, schema: PropertySchema][];
  rows: JsonObject[];
  disabled: boolean;
  onChange: (rows: JsonObject[]) => void;
}) {
  const label = schema.title ?? words(name);
  const required = new Set(schema.items?.required ?? []);
  const set = (at: number, member: string, value: Json | undefined) => {
    const row = { ...rows[at] };
    if (value === undefined) delete row[member];
    else row[member] = value;
    onChange(rows.map((one, index) => (index === at ? row : one)));
  };
  return (
    <fieldset className="rows">
      <legend>{label}</legend>
      {schema.description && <p className="field-about">{inline(schema.description)}</p>}
      {rows.map((row, index) => (
        <div className="row" key={index}>
          <button
            type="button"
            className="button icon-only quiet small"
            aria-label={`Remove ${label} ${index + 1}`}
            disabled={disabled}
            onClick={() => onChange(rows.filter((_, at) => at !== index))}
          >
            <CloseIcon />
          </button>
          {members.map(([member, memberSchema]) => (
            <PropertyField
              key={member}
              name={member}
              // In a row there is room for names, not for explanations.
              schema={{ ...memberSchema, description: "" }}
              kind={fieldKind(member, memberSchema, row[member]) ?? "text"}
              value={row[member]}
              required={required.has(member)}
              disabled={disabled}
              onChange={(value) => set(index, member, value)}
            />
          ))}
        </div>
      ))}
      <button
        type="button"
        className="button small"
        disabled={disabled}
        onClick={() => onChange([...rows, firstRow(members, required)])}
      >
        <PlusIcon />
        Add
      </button>
    </fieldset>
  );
}

/** A row that the schema accepts: what is required, at its first or empty value. */
function firstRow(
  members: [name: string, schema: PropertySchema][],
  required: ReadonlySet<string>,
): JsonObject {
  const row: JsonObject = {};
  for (const [name, schema] of members) {
    if (schema.default !== undefined) row[name] = schema.default;
    else if (required.has(name)) row[name] = schema.enum?.[0] ?? "";
  }
  return row;
}
