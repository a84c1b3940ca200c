// From one operator to the next by an arrow key.

import type { Point } from "../../client/types";

export type Direction = "left" | "right" | "up" | "down";

const AXES: Readonly<Record<Direction, [along: "x" | "y", sign: 1 | -1]>> = {
  left: ["x", -1],
  right: ["x", 1],
  up: ["y", -1],
  down: ["y", 1],
};

/** How much a step aside counts against a step ahead. */
const ASIDE = 2;

/** The nearest place ahead; null where there is none. */
export function nextInDirection(
  places: Iterable<readonly [id: string, at: Point]>,
  from: Point,
  direction: Direction,
): string | null {
  const [along, sign] = AXES[direction];
  const across = along === "x" ? "y" : "x";
  let best: string | null = null;
  let least = Infinity;
  for (const [id, at] of places) {
    const ahead = (at[along] - from[along]) * sign;
    if (ahead <= 0) continue;
    const cost = ahead + ASIDE * Math.abs(at[across] - from[across]);
    if (cost < least) {
      least = cost;
      best = id;
    }
  }
  return best;
}

/** Places as they are read: from the left, and from the top where two stand above each other. */
export function readingOrder(places: Iterable<readonly [id: string, at: Point]>): string[] {
  return [...places]
    .toSorted(([, a], [, b]) => a.x - b.x || a.y - b.y)
    .map(([id]) => id);
}
