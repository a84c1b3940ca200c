import { describe, expect, it } from "vitest";

import { NO_MARKS } from "../../client/preview";
import { shareWorkflow } from "../../client/share";
import type { Workflow } from "../../client/types";
import { Draughtsman } from "./flow";
import { placeAll } from "./layout";

/** 200 operators in a row and 199 links, made anew each time as a frame does. */
function workflow(change: (index: number) => number = () => 0): Workflow {
  const ids = Array.from({ length: 200 }, (_, index) => `op${index}`);
  return {
    operators: ids.map((operatorID, index) => ({
      operatorID,
      operatorType: "Limit",
      operatorProperties: { limit: change(index) },
    })),
    operatorPositions: Object.fromEntries(ids.map((id, index) => [id, { x: index * 300, y: 0 }])),
    links: ids.slice(1).map((id, index) => ({
      linkID: `l${index}`,
      source: { operatorID: `op${index}`, portID: "out" },
      target: { operatorID: id, portID: "in" },
    })),
  };
}

function drawing(of: Workflow) {
  const positions = placeAll(of, new Map());
  return { workflow: of, positions, fresh: new Set<string>(), marks: NO_MARKS };
}

describe("drawing", () => {
  it("draws two operators of two hundred when two have changed, and no link", () => {
    const draughtsman = new Draughtsman();
    const first = workflow();
    const nodes = draughtsman.drawNodes(drawing(first));
    const edges = draughtsman.drawEdges(drawing(first));
    const next = shareWorkflow(first, workflow((index) => (index === 7 || index === 90 ? 1 : 0)));
    const again = draughtsman.drawNodes(drawing(next));
    const changed = again.filter((node, index) => node !== nodes[index]).map((node) => node.id);
    expect(changed).toEqual(["op7", "op90"]);
    expect(draughtsman.drawEdges(drawing(next)).every((edge, at) => edge === edges[at])).toBe(true);
  });

  it("draws what a look at a revert marks, and then again without the mark", () => {
    const draughtsman = new Draughtsman();
    const one = workflow();
    const before = draughtsman.drawNodes(drawing(one));
    const marks = { ...NO_MARKS, operators: new Map([["op3", "goes"] as const]) };
    const marked = draughtsman.drawNodes({ ...drawing(one), marks });
    expect(marked.filter((node, at) => node !== before[at]).map((node) => node.id)).toEqual(["op3"]);
    expect(marked[3]?.ariaLabel).toContain("goes away");
    expect(draughtsman.drawNodes(drawing(one))[3]?.data.mark).toBeNull();
  });
});
