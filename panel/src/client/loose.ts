// What a document holds where the page expects text or a list. The service checks of a workflow only
// what it needs itself and keeps the rest as it came, so a name may be a number and a list none.

import { isNumber, toNumber } from "./json";
import type { Comment, CommentBox } from "./types";

/** The value as text to show; empty where it is none. */
export function asText(value: unknown): string {
  if (typeof value === "string") return value;
  return isNumber(value) ? String(toNumber(value)) : "";
}

/** The comments in a box as they came: one may be no object. */
export function commentsOf(box: CommentBox): readonly (Partial<Comment> | null)[] {
  return Array.isArray(box.comments) ? box.comments : [];
}

/** The value of an own member: a name from a document may be one that every object inherits. */
export function own<Value>(record: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
