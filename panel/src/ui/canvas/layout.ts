// Places for operators that the workflow gives none. They are shown there and never written: an
// operator has a position of its own only once someone moves it.

import { Graph, layout } from "@dagrejs/dagre";

import { toNumber } from "../../client/json";
import { own } from "../../client/loose";
import type { Point, Workflow } from "../../client/types";

export const NODE_WIDTH = 228;
export const NODE_HEIGHT = 76;
const GAP = 28;
/** More than this the library does not lay out in a time that a person waits. */
const MOST_LAYERED = 1_000;
/** As far out as a person can put something; beyond it the drawing breaks. */
const FARTHEST = 1e9;

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
    const place = own(workflow.operatorPositions ?? {}, operatorID);
    if (place) placed.set(operatorID, { x: coordinate(place.x), y: coordinate(place.y) });
    else missing.push(operatorID);
  }
  const kept = missing.filter((id) => shown.has(id));
  for (const id of kept) placed.set(id, shown.get(id) as Point);
  const unplaced = missing.filter((id) => !placed.has(id));
  if (unplaced.length === 0) return placed;

  const count = workflow.operators?.length ?? 0;
  const layered = count > MOST_LAYERED ? columns(workflow) : layers(workflow);
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
  // The library keeps nodes as members of objects, so a document's own ids are kept out of it.
  const names = new Map(
    (workflow.operators ?? []).map(({ operatorID }, index) => [operatorID, `n${index}`]),
  );
  for (const name of names.values()) {
    graph.setNode(name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  }
  for (const { source, target } of workflow.links ?? []) {
    const [from, to] = [names.get(source.operatorID), names.get(target.operatorID)];
    if (from !== undefined && to !== undefined) graph.setEdge(from, to);
  }
  layout(graph);
  const result = new Map<string, Point>();
  for (const [id, name] of names) {
    const { x, y } = graph.node(name) as Point;
    result.set(id, { x: Math.round(x - NODE_WIDTH / 2), y: Math.round(y - NODE_HEIGHT / 2) });
  }
  return result;
}

/** Each operator a column right of the last of its sources; a cycle's are where it was entered. */
function columns(workflow: Workflow): Map<string, Point> {
  const targets = new Map<string, string[]>();
  const sources = new Map((workflow.operators ?? []).map((one) => [one.operatorID, 0]));
  for (const { source, target } of workflow.links ?? []) {
    const waiting = sources.get(target.operatorID);
    if (!sources.has(source.operatorID) || waiting === undefined) continue;
    sources.set(target.operatorID, waiting + 1);
    const known = targets.get(source.operatorID);
    if (known) known.push(target.operatorID);
    else targets.set(source.operatorID, [target.operatorID]);
  }
  const column = new Map<string, number>();
  const ready = [...sources].filter(([, waiting]) => waiting === 0).map(([id]) => id);
  for (const id of ready) {
    for (const target of targets.get(id) ?? []) {
      column.set(target, Math.max(column.get(target) ?? 0, (column.get(id) ?? 0) + 1));
      const waiting = (sources.get(target) ?? 0) - 1;
      sources.set(target, waiting);
      if (waiting === 0) ready.push(target);
    }
  }
  const rows = new Map<number, number>();
  const result = new Map<string, Point>();
  for (const id of sources.keys()) {
    const x = column.get(id) ?? 0;
    const y = rows.get(x) ?? 0;
    rows.set(x, y + 1);
    result.set(id, { x: x * (NODE_WIDTH + 96), y: y * (NODE_HEIGHT + 44) });
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

/** A document's coordinate as one that can be drawn. */
export function coordinate(value: unknown): number {
  return Math.max(-FARTHEST, Math.min(FARTHEST, toNumber(value)));
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
