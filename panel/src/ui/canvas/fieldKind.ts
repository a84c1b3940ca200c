// How a property is edited, told from its schema and its value.

import { isNumber } from "../../client/json";
import type { Json, JsonObject, PropertySchema } from "../../client/types";

export type Kind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "names";

/** The field for a simple value; null when there is none for it. */
export function fieldKind(
  name: string,
  schema: PropertySchema,
  value: Json | undefined,
): Kind | null {
  if (schema.enum?.every((one) => typeof one === "string")) return "choice";
  switch (typeFor(schema, value)) {
    case "boolean":
      return isAbsent(value) || typeof value === "boolean" ? "boolean" : null;
    case "integer":
      return isAbsent(value) || isNumber(value) ? "integer" : null;
    case "number":
      return isAbsent(value) || isNumber(value) ? "number" : null;
    case "string":
      if (!isAbsent(value) && typeof value !== "string") return null;
      return /^(code|textInput)$/.test(name) || (value ?? "").includes("\n") ? "long" : "text";
    case "array": {
      const items = typesOf(schema.items);
      return items.includes("string") && isAll(value, (one) => typeof one === "string")
        ? "names"
        : null;
    }
    default:
      return null;
  }
}

/** The members of each row, when the property is a list of flat objects. */
export function rowSchemas(
  schema: PropertySchema,
  value: Json | undefined,
): [name: string, schema: PropertySchema][] | null {
  const members = Object.entries(schema.items?.properties ?? {});
  if (typeFor(schema, value) !== "array" || members.length === 0) return null;
  if (!typesOf(schema.items).includes("object")) return null;
  const flat = (row: Json): boolean =>
    isObject(row) &&
    members.every(([name, member]) => fieldKind(name, member, row[name]) !== null);
  return isAll(value, flat) ? members : null;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isAbsent(value: Json | undefined): value is null | undefined {
  return value === undefined || value === null;
}

function isAll(value: Json | undefined, test: (one: Json) => boolean): boolean {
  return isAbsent(value) || (Array.isArray(value) && value.every(test));
}

function typesOf(schema: PropertySchema | undefined): string[] {
  return [schema?.type ?? []].flat();
}

/** Of several types the one that the value has, else the first. */
function typeFor(schema: PropertySchema, value: Json | undefined): string | undefined {
  const types = typesOf(schema).filter((type) => type !== "null");
  if (isNumber(value) && types.includes("number")) return "number";
  if (typeof value === "boolean" && types.includes("boolean")) return "boolean";
  return types[0];
}
