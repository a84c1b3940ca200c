// A revert as it is looked at before it is done: one drawing of what is and what would be, and the
// changes as a list to walk through.

import { isNumber } from "./json";
import { asText, own } from "./loose";
import type {
  CommentBox,
  Link,
  Operator,
  RestChange,
  RestChanges,
  RestDiff,
  Workflow,
} from "./types";
import { words } from "./words";

/** What the revert would do to something: take it away, bring it back, change it. */
export type Mark = "goes" | "returns" | "changes";

/** By id; operators, links and comment boxes may share ids. */
export interface Marks {
  operators: ReadonlyMap<string, Mark>;
  links: ReadonlyMap<string, Mark>;
  comments: ReadonlyMap<string, Mark>;
}

export const NO_MARKS: Marks = { operators: new Map(), links: new Map(), comments: new Map() };

/** A property that would change, with short forms of both values. */
export interface PropertyChange {
  name: string;
  before: string;
  after: string;
}

/** One thing that would change. */
export interface ListedChange {
  key: string;
  mark: Mark;
  kind: "operator" | "link" | "note" | "setting";
  name: string;
  /** Where on the canvas it is seen: an operator or a comment box. */
  at: { operatorID: string } | { commentBoxID: string } | null;
  properties: PropertyChange[];
}

/** Both workflows in one: what is there now, and what would come back. */
export function mergedWorkflow(now: Workflow, then: Workflow, diff: RestDiff): Workflow {
  const back = Object.keys(diff.operators.added);
  const places = { ...now.operatorPositions };
  for (const id of back) {
    const place = own(then.operatorPositions ?? {}, id);
    if (place) places[id] = place;
  }
  return {
    ...now,
    operators: [...(now.operators ?? []), ...Object.values(diff.operators.added)],
    operatorPositions: places,
    links: [...(now.links ?? []), ...Object.values(diff.links.added)],
    commentBoxes: [...(now.commentBoxes ?? []), ...Object.values(diff.comments.added)],
  };
}

export function marksOf(diff: RestDiff): Marks {
  const operators = marked(diff.operators);
  for (const id of diff.moved) if (!operators.has(id)) operators.set(id, "changes");
  return { operators, links: marked(diff.links), comments: marked(diff.comments) };
}

function marked(changes: RestChanges<unknown>): Map<string, Mark> {
  return new Map<string, Mark>([
    ...Object.keys(changes.removed).map((id) => [id, "goes"] as const),
    ...Object.keys(changes.added).map((id) => [id, "returns"] as const),
    ...Object.keys(changes.changed).map((id) => [id, "changes"] as const),
  ]);
}

/** The changes, operators first; `nameOf` says what an operator of either workflow is called. */
export function listedChanges(
  diff: RestDiff,
  nameOf: (operatorID: string) => string,
): ListedChange[] {
  const moved = new Set(diff.moved);
  const result: ListedChange[] = [];
  each<Operator>(diff.operators, (operatorID, mark, changes) => {
    const properties = changes.map(property);
    if (moved.delete(operatorID)) properties.push(MOVED);
    result.push({
      key: `operator ${operatorID}`,
      mark,
      kind: "operator",
      name: nameOf(operatorID),
      at: { operatorID },
      properties,
    });
  });
  for (const operatorID of moved) {
    result.push({
      key: `operator ${operatorID}`,
      mark: "changes",
      kind: "operator",
      name: nameOf(operatorID),
      at: { operatorID },
      properties: [MOVED],
    });
  }
  each<Link>(diff.links, (linkID, mark, changes, link) => {
    result.push({
      key: `link ${linkID}`,
      mark,
      kind: "link",
      name: link
        ? `${nameOf(link.source.operatorID)} to ${nameOf(link.target.operatorID)}`
        : linkID,
      at: link ? { operatorID: link.target.operatorID } : null,
      properties: changes.map(property),
    });
  });
  each<CommentBox>(diff.comments, (commentBoxID, mark, _changes, box) => {
    const first = Array.isArray(box?.comments) ? asText(box.comments[0]?.content) : "";
    result.push({
      key: `note ${commentBoxID}`,
      mark,
      kind: "note",
      name: first || "A note",
      at: { commentBoxID },
      properties: [],
    });
  });
  for (const change of [...diff.settings, ...diff.members]) {
    result.push({
      key: `setting ${change.path.join(".")}`,
      mark: change.kind === "added" ? "returns" : change.kind === "removed" ? "goes" : "changes",
      kind: "setting",
      name: label(change),
      at: null,
      properties: change.kind === "changed" ? [property(change)] : [],
    });
  }
  return result;
}

const MOVED: PropertyChange = { name: "place", before: "here", after: "where it was before" };

function each<Item>(
  changes: RestChanges<Item>,
  visit: (id: string, mark: Mark, changes: RestChange[], item: Item | null) => void,
): void {
  for (const [id, item] of Object.entries(changes.removed)) visit(id, "goes", [], item);
  for (const [id, item] of Object.entries(changes.added)) visit(id, "returns", [], item);
  for (const [id, found] of Object.entries(changes.changed)) visit(id, "changes", found, null);
}

function label(change: RestChange): string {
  const path = change.path[0] === "operatorProperties" ? change.path.slice(1) : change.path;
  return path.map(words).join(", ") || "properties";
}

function property(change: RestChange): PropertyChange {
  if (change.kind === "reordered") {
    return { name: label(change), before: "one order", after: "another order" };
  }
  return {
    name: label(change),
    before: change.kind === "added" ? "not set" : short(change.before),
    after: change.kind === "removed" ? "not set" : short(change.after),
  };
}

/** Characters of a value in the list. */
const SHOWN = 120;

function short(value: unknown): string {
  const text = plain(value) || "empty";
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}

/** A value without the signs of JSON, as far as it stays readable: `amount > 100, region = north`. */
function plain(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(plain).join(", ");
  if (typeof value === "object" && value !== null && !isNumber(value)) {
    const parts = Object.values(value);
    if (parts.every((part) => typeof part !== "object" || part === null || isNumber(part))) {
      return parts.map(plain).filter(Boolean).join(" ");
    }
  }
  return JSON.stringify(value) ?? "";
}
