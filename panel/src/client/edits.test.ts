import { describe, expect, it } from "vitest";

import { applyEdits, invert } from "./edits";
import type { Edit, Workflow } from "./types";

const link = (linkID: string, from: string, to: string) => ({
  linkID,
  source: { operatorID: from, portID: "output-0" },
  target: { operatorID: to, portID: "input-0" },
});

const BEFORE: Workflow = {
  operators: [
    { operatorID: "op1", operatorType: "CSVFileScan", operatorProperties: { fileName: "a.csv" } },
    { operatorID: "op2", operatorType: "Filter" },
  ],
  operatorPositions: { op1: { x: 0, y: 0 }, op2: { x: 300, y: 0 } },
  links: [link("l1", "op1", "op2")],
  commentBoxes: [{ commentBoxID: "c1", comments: [], commentBoxPosition: { x: 1, y: 2 } }],
  formBinding: { version: 3 },
};

const EDITS: Edit[][] = [
  [{ op: "moveOperator", operatorID: "op1", position: { x: 5, y: 6 } }],
  [{ op: "changeOperator", operatorID: "op1", set: { operatorProperties: {}, isDisabled: true } }],
  [{ op: "addOperator", operator: { operatorID: "op3", operatorType: "Sort" } }],
  [{ op: "addLink", link: link("l2", "op2", "op1") }],
  [{ op: "moveComment", commentBoxID: "c1", position: { x: 9, y: 9 } }],
  [{ op: "removeComment", commentBoxID: "c1" }],
  [{ op: "replaceWorkflow", workflow: { operators: [] } }],
];

describe("invert", () => {
  it.each(EDITS.map((edits) => [edits[0]?.op, edits] as const))("takes %s back", (_, edits) => {
    const after = applyEdits(BEFORE, edits);
    expect(after).not.toEqual(BEFORE);
    expect(applyEdits(after, invert(BEFORE, edits) ?? [])).toEqual(BEFORE);
  });

  it("brings removed operators back with their links and places", () => {
    const edits: Edit[] = [
      { op: "removeOperator", operatorID: "op2" },
      { op: "removeOperator", operatorID: "op1" },
    ];
    const after = applyEdits(BEFORE, edits);
    expect(after.links).toEqual([]);
    expect(applyEdits(after, invert(BEFORE, edits) ?? [])).toEqual(BEFORE);
  });
});
