import { describe, expect, it } from "vitest";

import { nextInDirection, readingOrder } from "./walk";

const PLACES = new Map([
  ["a", { x: 0, y: 0 }],
  ["b", { x: 300, y: 10 }],
  ["c", { x: 310, y: 200 }],
  ["d", { x: 600, y: 0 }],
]);

describe("walking by arrow keys", () => {
  it("goes to the nearest ahead, and rather straight on than aside", () => {
    expect(nextInDirection(PLACES, { x: 0, y: 0 }, "right")).toBe("b");
    expect(nextInDirection(PLACES, { x: 310, y: 200 }, "up")).toBe("b");
    expect(nextInDirection(PLACES, { x: 600, y: 0 }, "left")).toBe("b");
  });

  it("stays where nothing is ahead", () => {
    expect(nextInDirection(PLACES, { x: 600, y: 0 }, "right")).toBeNull();
  });

  it("begins at the left, and at the top of a column", () => {
    expect(readingOrder(PLACES)).toEqual(["a", "b", "c", "d"]);
  });
});
