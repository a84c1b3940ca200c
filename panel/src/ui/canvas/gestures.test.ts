import type { Edge } from "@xyflow/react";
import { describe, expect, it } from "vitest";

import { NO_MARKS } from "../../client/preview";
import type { Workflow } from "../../client/types";
import { commentNodeId, Draughtsman } from "./flow";
import { canLink, linking, moveOf, placeIn, removing } from "./gestures";

const BOX = { commentBoxID: "a", comments: [], commentBoxPosition: { x: 5, y: 6 } };
const WORKFLOW: Workflow = {
  operators: ["a", "b", "c"].map((operatorID) => ({ operatorID, operatorType: "Limit" })),
  links: [
    {
      linkID: "ab",
      source: { operatorID: "a", portID: "o" },
      target: { operatorID: "b", portID: "i" },
    },
  ],
  commentBoxes: [BOX],
};
const POSITIONS = new Map([["a", { x: 1, y: 2 }]]);
const link = (source: string, target: string) => ({
  source,
  sourceHandle: "o",
  target,
  targetHandle: "i",
});

describe("gestures", () => {
  it("tells a note from an operator with the same id", () => {
    expect(placeIn(WORKFLOW, POSITIONS, "a")).toEqual({ x: 1, y: 2 });
    expect(placeIn(WORKFLOW, POSITIONS, commentNodeId(BOX))).toEqual({ x: 5, y: 6 });
    const moved = moveOf(WORKFLOW, commentNodeId(BOX), { x: 5, y: 6 }, { x: 9.4, y: 6 });
    expect(moved).toEqual([{ kind: "comment", id: "a", from: { x: 5, y: 6 }, to: { x: 9, y: 6 } }]);
  });

  it("makes no move of less than a pixel", () => {
    expect(moveOf(WORKFLOW, "a", { x: 1, y: 2 }, { x: 1.3, y: 2.2 })).toEqual([]);
  });

  it("draws no link twice, none to itself, and none without ports", () => {
    expect(canLink(WORKFLOW, link("a", "c"))).toBe(true);
    expect(canLink(WORKFLOW, link("a", "b"))).toBe(false);
    expect(canLink(WORKFLOW, link("a", "a"))).toBe(false);
    expect(linking({ ...link("a", "c"), sourceHandle: null })).toEqual([]);
  });

  it("removes with an operator its links, and a link by itself only where both ends stay", () => {
    const positions = new Map<string, { x: number; y: number }>();
    const nodes = new Draughtsman().drawNodes({
      workflow: WORKFLOW,
      positions,
      fresh: new Set<string>(),
      marks: NO_MARKS,
    });
    const edges: Edge[] = [{ id: "ab", source: "a", target: "b" }];
    const one = nodes.filter((node) => node.id === "a");
    expect(removing(one, edges)).toEqual([{ op: "removeOperator", operatorID: "a" }]);
    expect(removing([], edges)).toEqual([{ op: "removeLink", linkID: "ab" }]);
  });
});
