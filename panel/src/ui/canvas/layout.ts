// Places for operators that the workflow gives none. They are shown there and never written: an
// operator has a position of its own only once someone moves it.

import { Graph, layout } from "@dagrejs/dagre";

import { toNumber } from "../../client/json";
import type { Point, Workflow } from "../../client/types";

export const NODE_WIDTH = 228;
export const NODE_HEIGHT = 76;
const GAP = 28;

/**
 * The position of every operator: its own, else the one it had in `shown` (so that nothing jumps while
 * the page is open), else one from the graph's layers, beside what has a place already.
 */
export function placeAll(
  workflow: Workflow,
  shown: ReadonlyMap<string, Point>,
): Map<string, Point> {
  const placed = new Map<string, Point>();
  const missing: string[] = [];
  for (const { operatorID } of workflow.operators ?? []) {
    const own = workflow.operatorPositions?.[operatorID];
    if (own) placed.set(operatorID, { x: toNumber(own.x), y: toNumber(own.y) });
    else missing.push(operatorID);
  }
  const kept = missing.filter((id) => shown.has(id));
  for (const id of kept) placed.set(id, shown.get(id) as Point);
  const unplaced = missing.filter((id) => !placed.has(id));
  if (unplaced.length === 0) return placed;

  const layered = layers(workflow);
  const shift = offset(placed, layered);
  for (const id of unplaced) {
    const at = layered.get(id) ?? { x: 0, y: 0 };
    const point = { x: at.x + shift.x, y: at.y + shift.y };
    while ([...placed.values()].some((other) => overlaps(point, other))) {
      point.y += NODE_HEIGHT + GAP;
    }
    placed.set(id, point);
  }
  return placed;
}

function layers(workflow: Workflow): Map<string, Point> {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 44, ranksep: 96 });
  graph.setDefaultEdgeLabel(() => ({}));
  const ids = new Set((workflow.operators ?? []).map((operator) => operator.operatorID));
  for (const id of ids) graph.setNode(id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const { source, target } of workflow.links ?? []) {
    if (ids.has(source.operatorID) && ids.has(target.operatorID)) {
      graph.setEdge(source.operatorID, target.operatorID);
    }
  }
  layout(graph);
  const result = new Map<string, Point>();
  for (const id of ids) {
    const { x, y } = graph.node(id) as Point;
    result.set(id, { x: Math.round(x - NODE_WIDTH / 2), y: Math.round(y - NODE_HEIGHT / 2) });
  }
  return result;
}

/** From the layers' coordinates to those of what is placed: the middle of their differences. */
function offset(placed: ReadonlyMap<string, Point>, layered: ReadonlyMap<string, Point>): Point {
  const differences = [...placed].flatMap(([id, at]) => {
    const from = layered.get(id);
    return from ? [{ x: at.x - from.x, y: at.y - from.y }] : [];
  });
  const middle = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
  return { x: middle(differences.map((d) => d.x)), y: middle(differences.map((d) => d.y)) };
}

function overlaps(a: Point, b: Point): boolean {
  return Math.abs(a.x - b.x) < NODE_WIDTH && Math.abs(a.y - b.y) < NODE_HEIGHT;
}

/** A free place at or below `near`. */
export function freePlace(taken: Iterable<Point>, near: Point): Point {
  const point = { x: Math.round(near.x), y: Math.round(near.y) };
  const others = [...taken];
  while (others.some((other) => overlaps(point, other))) point.y += NODE_HEIGHT + GAP;
  return point;
}
