import { describe, expect, it } from "vitest";

import { forksOf, neighbourLine, timeOf, turnsBetween, turnsOf } from "./paths";
import type { Branch, Step } from "./types";

function step(id: string, parentId: string, messageId: string, role: Step["role"]): Step {
  return { id, parentId, messageId, role, stepId: role === "user" ? 0 : 1, content: id } as Step;
}

const PATH = [
  step("p1", "step-initial", "t1", "user"),
  step("a1", "p1", "t1", "agent"),
  step("p2", "a1", "t2", "user"),
  step("a2", "p2", "t2", "agent"),
];
const STEPS = new Map(PATH.map((one) => [one.id, one]));

function branch(stepId: string, parentId: string): Branch {
  return { stepId, parentId, tip: `${stepId}-tip`, content: stepId, turns: 2 };
}

describe("paths", () => {
  it("counts the turns between two steps, and says so where the way is not known", () => {
    expect(turnsBetween(STEPS, "a2", "step-initial")).toBe(2);
    expect(turnsBetween(STEPS, "a2", "p2")).toBe(1);
    expect(turnsBetween(STEPS, "a2", "a2")).toBe(0);
    expect(turnsBetween(STEPS, "a2", "elsewhere")).toBeNull();
  });

  it("keeps a turn as the same object until something of it changes", () => {
    const before = turnsOf(PATH.slice(0, 3));
    const after = turnsOf(PATH, before);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).not.toBe(before[1]);
  });

  it("finds the lines that part, at the first turn too, in the order of their birth", () => {
    const forks = forksOf([
      branch("p9", "step-initial"),
      branch("p1", "step-initial"),
      branch("p2", "a1"),
    ]);
    expect([...forks.keys()]).toEqual(["step-initial"]);
    expect(forks.get("step-initial")?.lines.map((line) => line.stepId)).toEqual(["p1", "p9"]);
    expect(neighbourLine(PATH, forks, 1)).toBe("p9-tip");
    expect(neighbourLine(PATH, forks, -1)).toBeNull();
  });

  it("reads from an id when it was made", () => {
    expect(timeOf("01a22c92-9297-7046-bcf0-5109495d13e3")).toBe(0x01a22c929297);
  });
});
