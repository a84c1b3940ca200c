import { describe, expect, it } from "vitest";

import { listedChanges, marksOf, mergedWorkflow } from "./preview";
import type { Operator, RestDiff, Workflow } from "./types";

function operator(operatorID: string, properties: Operator["operatorProperties"] = {}): Operator {
  return { operatorID, operatorType: "Limit", operatorProperties: properties };
}

const LINK = {
  linkID: "a",
  source: { operatorID: "a", portID: "o" },
  target: { operatorID: "c", portID: "i" },
};

/** From `NOW`, where `c` is new and `b` is gone, to `THEN`. */
const NOW: Workflow = {
  operators: [operator("a", { limit: 9 }), operator("c")],
  operatorPositions: { a: { x: 1, y: 1 }, c: { x: 2, y: 2 } },
  links: [LINK],
};
const THEN: Workflow = {
  operators: [operator("a", { limit: 5 }), operator("b")],
  operatorPositions: { a: { x: 0, y: 0 }, b: { x: 3, y: 3 } },
  links: [],
};
const DIFF: RestDiff = {
  operators: {
    added: { b: operator("b") },
    removed: { c: operator("c") },
    changed: {
      a: [{ path: ["operatorProperties", "rowLimit"], kind: "changed", before: 9, after: 5 }],
    },
  },
  moved: ["a"],
  links: { added: {}, removed: { a: LINK }, changed: {} },
  comments: { added: {}, removed: {}, changed: {} },
  settings: [{ path: ["batch"], kind: "added", before: null, after: 1 }],
  members: [],
};

describe("a revert that is looked at", () => {
  it("draws what goes and what comes back in one workflow, each in its own place", () => {
    const merged = mergedWorkflow(NOW, THEN, DIFF);
    expect(merged.operators?.map((one) => one.operatorID)).toEqual(["a", "c", "b"]);
    expect(merged.operatorPositions).toEqual({ ...NOW.operatorPositions, b: { x: 3, y: 3 } });
  });

  it("marks operators and links apart, also where they share an id", () => {
    const marks = marksOf(DIFF);
    expect([...marks.operators]).toEqual([["c", "goes"], ["b", "returns"], ["a", "changes"]]);
    expect([...marks.links]).toEqual([["a", "goes"]]);
  });

  it("says values as a person would read them", () => {
    const before = [{ attribute: "amount", condition: ">", value: "100" }];
    const changed = {
      a: [
        { path: ["operatorProperties", "predicates"], kind: "changed", before, after: [] },
        { path: ["operatorProperties", "keys"], kind: "added", before: null, after: ["x", "y"] },
      ],
    } satisfies RestDiff["operators"]["changed"];
    const diff = { ...DIFF, operators: { added: {}, removed: {}, changed }, moved: [] };
    expect(listedChanges(diff, (id) => id)[0]?.properties).toEqual([
      { name: "predicates", before: "amount > 100", after: "empty" },
      { name: "keys", before: "not set", after: "x, y" },
    ]);
  });

  it("lists every change once, with both values of what changes", () => {
    const changes = listedChanges(DIFF, (id) => id.toUpperCase());
    expect(changes.map(({ kind, mark, name }) => `${kind} ${name} ${mark}`)).toEqual([
      "operator C goes",
      "operator B returns",
      "operator A changes",
      "link A to C goes",
      "setting batch returns",
    ]);
    expect(changes[2]?.properties).toEqual([
      { name: "row limit", before: "9", after: "5" },
      { name: "place", before: "here", after: "where it was before" },
    ]);
  });
});
