// Two versions of a workflow mostly hold the same. A newer one takes over what has not changed as the
// very same objects, so that what is drawn of them need not be drawn again.

import type { Workflow } from "./types";

/** The text of an object, made once: equal texts are equal content, in the same order. */
const texts = new WeakMap<object, string>();

function textOf(value: object): string {
  const known = texts.get(value);
  if (known !== undefined) return known;
  const text = JSON.stringify(value);
  texts.set(value, text);
  return text;
}

function shareList<Item extends object>(
  before: Item[] | undefined,
  next: Item[] | undefined,
  idOf: (item: Item) => unknown,
): Item[] | undefined {
  if (!before || !next) return next;
  const known = new Map(before.map((item) => [idOf(item), item]));
  let same = before.length === next.length;
  const shared = next.map((item, index) => {
    const old = known.get(idOf(item));
    const kept = old !== undefined && textOf(old) === textOf(item) ? old : item;
    same &&= kept === before[index];
    return kept;
  });
  return same ? before : shared;
}

/** `next`, with the operators, links and comment boxes that equal those of `before` taken from there. */
export function shareWorkflow(before: Workflow, next: Workflow): Workflow {
  if (before === next) return next;
  const operators = shareList(before.operators, next.operators, (one) => one.operatorID);
  const links = shareList(before.links, next.links, (one) => one.linkID);
  const boxes = shareList(before.commentBoxes, next.commentBoxes, (one) => one.commentBoxID);
  // Assigned over what is there, so that the document's own members keep their order.
  return {
    ...next,
    ...(operators ? { operators } : {}),
    ...(links ? { links } : {}),
    ...(boxes ? { commentBoxes: boxes } : {}),
  };
}
