import { describe, expect, it } from "vitest";

import { everyTurn, lastStepOf, rowsOf, treeOf } from "./history";
import { ROOT_STEP, type Step } from "./types";

/** `a1<a0`: step 1 of turn a, after a0; index 0 is the person's. */
function tree(...named: string[]): ReadonlyMap<string, Step> {
  return new Map(
    named.map((one) => {
      const [id = "", parentId = ""] = one.split("<");
      const step = {
        id,
        parentId: parentId === "" ? ROOT_STEP : parentId,
        messageId: id.slice(0, -1),
        stepId: Number(id.at(-1)),
        role: id.endsWith("0") ? "user" : "agent",
        content: id,
        effects: [],
      };
      return [id, step as unknown as Step];
    }),
  );
}

const keys = (rows: ReturnType<typeof rowsOf>) => rows.map(({ key }) => key);
const passing = ({ rail }: ReturnType<typeof rowsOf>[number]) =>
  rail.through.map(({ lane, onPath }) => `${lane} ${onPath ? "shown" : "other"}`);
const all = (trunk: ReturnType<typeof treeOf>) => new Set(everyTurn(trunk).map((turn) => turn.key));

describe("the tree of a session", () => {
  const parted = tree("a0<", "a1<a0", "b0<a1", "b1<b0", "c0<a1", "c1<c0", "c2<c1");

  it("leads to HEAD, and other lines hang from where they part", () => {
    const trunk = treeOf(parted, "c2", null);
    expect(trunk.map((turn) => turn.key)).toEqual([ROOT_STEP, "a0", "c0"]);
    expect(trunk[1]?.lines.map((line) => line.map((turn) => turn.key))).toEqual([["b0"]]);
    expect(trunk.map((turn) => turn.hasHead)).toEqual([false, false, true]);
    expect(everyTurn(trunk).filter((turn) => !turn.onPath).map((turn) => turn.key)).toEqual(["b0"]);
  });

  it("ends its line at HEAD: what was reverted is a line of its own, and Redo's end is in it", () => {
    const trunk = treeOf(parted, "a1", "b1");
    expect(trunk.map((turn) => turn.key)).toEqual([ROOT_STEP, "a0"]);
    expect(trunk[1]?.lines.map((line) => line.map((turn) => turn.hasRedo))).toEqual([[true], [false]]);
  });

  it("has the rest of a turn that was reverted in its middle on another line", () => {
    const trunk = treeOf(tree("a0<", "a1<a0", "a2<a1", "a3<a2"), "a1", "a3");
    const [rest] = trunk[1]?.lines ?? [];
    expect(trunk[1]?.steps.map(({ id }) => id)).toEqual(["a1"]);
    expect(rest?.map((turn) => [turn.key, turn.prompt, lastStepOf(turn)])).toEqual([["a2", null, "a3"]]);
  });

  it("begins at the beginning, where HEAD may stand", () => {
    const trunk = treeOf(tree("a0<", "a1<a0"), ROOT_STEP, "a1");
    expect(trunk.map((turn) => [turn.key, turn.hasHead])).toEqual([[ROOT_STEP, true]]);
    expect(trunk[0]?.lines).toHaveLength(1);
  });

  it("begins with what is earlier as long as that is not loaded", () => {
    const trunk = treeOf(tree("b0<a1", "b1<b0"), "b1", null);
    expect(trunk.map((turn) => turn.key)).toEqual(["earlier", "b0"]);
  });
});

describe("the rows of the tree", () => {
  const parted = tree("a0<", "a1<a0", "b0<a1", "b1<b0", "c0<a1", "c1<c0", "c2<c1");
  const trunk = treeOf(parted, "c2", null);

  it("are turns alone until they are opened", () => {
    expect(keys(rowsOf(trunk, new Set(), null))).toEqual([ROOT_STEP, "a0", "c0"]);
    expect(rowsOf(trunk, new Set(), null).map((row) => row.expanded)).toEqual([null, false, false]);
  });

  it("have the steps of a turn below it, then the lines that leave it", () => {
    const rows = rowsOf(trunk, all(trunk), null);
    expect(keys(rows)).toEqual([ROOT_STEP, "a0", "a0 a1", "b0", "b0 b1", "c0", "c0 c1", "c0 c2"]);
    expect(rows.map((row) => row.level)).toEqual([1, 1, 2, 2, 3, 1, 2, 2]);
    expect(rows.map((row) => `${row.place}/${row.of}`)).toEqual([
      "1/3", "2/3", "1/2", "2/2", "1/1", "3/3", "1/2", "2/2",
    ]);
  });

  it("draw a lane for each line, and let those pass that go on below", () => {
    const rows = rowsOf(trunk, all(trunk), null);
    expect(rows.map(({ rail }) => rail.lane)).toEqual([0, 0, 0, 1, 1, 0, 0, 0]);
    expect(rows.map(passing)).toEqual([[], [], [], ["0 shown"], ["0 shown"], [], [], []]);
    expect(rows.map(({ rail }) => rail.from)).toEqual([
      "here", "above", "above", "left", "above", "above", "above", "above",
    ]);
    expect(rows.map(({ rail }) => rail.goesOn)).toEqual([
      true, true, true, true, false, true, true, false,
    ]);
  });

  it("let the lane of a line pass no further than the last that leaves it", () => {
    const ended = treeOf(parted, "a1", null);
    const rows = rowsOf(ended, all(ended), null);
    expect(keys(rows)).toEqual([ROOT_STEP, "a0", "a0 a1", "b0", "b0 b1", "c0", "c0 c1", "c0 c2"]);
    expect(rows.map(passing)).toEqual([[], [], [], ["0 other"], ["0 other"], [], [], []]);
  });

  it("have the open step of the turn at work last among its steps", () => {
    const rows = rowsOf(trunk, new Set(["c0"]), "c");
    expect(keys(rows)).toEqual([ROOT_STEP, "a0", "c0", "c0 c1", "c0 c2", "c0 open"]);
  });
});
