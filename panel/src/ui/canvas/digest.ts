// What an operator is set to, in a line: the part of its properties that tells it from its like.

import { isNumber, toNumber } from "../../client/json";
import type { Json, JsonObject, Operator } from "../../client/types";
import { words } from "../../client/words";

const FIRST = ["fileName", "limit", "keyword", "textInput", "code"];

/** Longer than a node shows; a text input may hold megabytes. */
const LONGEST = 200;

export function digest(operator: Operator): string | null {
  const text = whole(operator);
  return text !== null && text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

function whole(operator: Operator): string | null {
  const properties = operator.operatorProperties;
  if (!properties) return null;
  const predicates = properties["predicates"];
  if (Array.isArray(predicates)) {
    const text = predicates.map(predicate).filter(Boolean).join(" or ");
    if (text) return text;
  }
  const aggregations = properties["aggregations"];
  if (Array.isArray(aggregations)) {
    const text = aggregations.map(aggregation).filter(Boolean).join(", ");
    const keys = properties["groupByKeys"];
    const by = Array.isArray(keys) && keys.length ? ` by ${keys.map(scalar).join(", ")}` : "";
    if (text + by) return (text + by).trim();
  }
  for (const key of FIRST) {
    const text = scalar(properties[key]);
    if (text === null) continue;
    if (key === "fileName") return text.split("/").at(-1) ?? text;
    if (key === "code") return text.trim().split("\n", 1)[0] ?? null;
    return key === "limit" ? `${text} rows` : text;
  }
  const attributes = properties["attributes"];
  if (Array.isArray(attributes)) {
    const names = attributes.map((one) => scalar(one) ?? named(one)).filter(Boolean);
    if (names.length) return names.join(", ");
  }
  const scalars = Object.entries(properties).flatMap(([key, value]) => {
    const text = scalar(value);
    return text === null || text === "" || typeof value === "boolean" ? [] : [`${words(key)} ${text}`];
  });
  return scalars.slice(0, 2).join(", ") || null;
}

function predicate(value: Json): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "";
  return [value["attribute"], value["condition"], value["value"]]
    .map((part) => scalar(part) ?? "")
    .join(" ")
    .trim();
}

function aggregation(value: Json): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "";
  const of = scalar(value["attribute"]);
  return `${scalar(value["aggFunction"]) ?? ""}${of ? ` ${of}` : ""}`;
}

function named(value: Json): string | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const object: JsonObject = value;
  return scalar(object["originalAttribute"] ?? object["attribute"] ?? object["attributeName"]);
}

function scalar(value: Json | undefined): string | null {
  if (typeof value === "string") return value === "" ? null : value;
  if (isNumber(value)) return String(toNumber(value));
  return typeof value === "boolean" ? String(value) : null;
}
