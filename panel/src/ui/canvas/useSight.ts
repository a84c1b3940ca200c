// What of the workflow is in sight: all of it at first; later, only what would be out of sight moves
// the view.

import { useReactFlow, type Viewport } from "@xyflow/react";
import { useCallback, useEffect, useRef, type RefObject } from "react";

import type { Point } from "../../client/types";
import type { FlowNode } from "./flow";
import { NODE_HEIGHT, NODE_WIDTH } from "./layout";

export const FIT = { padding: 0.1, maxZoom: 1 };
/** Milliseconds until new nodes have a size. */
const MEASURED_AFTER = 60;

export interface Sight {
  /** Brings one place to the middle unless it is in sight. */
  show: (at: Point) => void;
  fit: () => void;
  /** The place in the middle of what is seen, for a node's upper left corner. */
  middle: () => Point;
}

export function useSight(
  frame: RefObject<HTMLElement | null>,
  nodes: readonly FlowNode[],
  positions: ReadonlyMap<string, Point>,
  fresh: ReadonlySet<string>,
  /** What a revert that is looked at would change; null while none is. */
  marked: readonly string[] | null,
): Sight {
  const flow = useReactFlow<FlowNode>();

  const isSeen = useCallback(
    (at: Point): boolean => {
      const bounds = frame.current?.getBoundingClientRect();
      if (!bounds || bounds.width === 0) return true;
      const from = flow.screenToFlowPosition({ x: bounds.left, y: bounds.top });
      const to = flow.screenToFlowPosition({ x: bounds.right, y: bounds.bottom });
      return (
        at.x >= from.x && at.y >= from.y && at.x + NODE_WIDTH <= to.x && at.y + NODE_HEIGHT <= to.y
      );
    },
    [flow, frame],
  );

  const fitted = useRef(false);
  const count = nodes.length;
  useEffect(() => {
    if (count === 0) fitted.current = false;
    else if (!fitted.current) {
      fitted.current = true;
      void flow.fitView(FIT);
    }
  }, [count, flow]);

  useEffect(() => {
    const hidden = [...fresh].some((id) => {
      const at = positions.get(id);
      return at !== undefined && !isSeen(at);
    });
    if (!hidden) return;
    // What has just come is measured only after the next paint.
    const timer = setTimeout(
      () => void flow.fitView({ ...FIT, duration: duration(350) }),
      MEASURED_AFTER,
    );
    return () => clearTimeout(timer);
  }, [fresh, positions, flow, isSeen]);

  // A look at a revert shows what would change, and gives the view back afterwards.
  const before = useRef<Viewport | null>(null);
  useEffect(() => {
    if (marked === null) {
      if (before.current) void flow.setViewport(before.current);
      before.current = null;
      return;
    }
    // Once: a person who then moves the view has moved it.
    if (before.current) return;
    before.current = flow.getViewport();
    const options = { ...FIT, padding: 0.3, duration: duration(250) };
    const nodes = marked.map((id) => ({ id }));
    setTimeout(
      () => before.current && void flow.fitView(nodes.length === 0 ? options : { ...options, nodes }),
      MEASURED_AFTER,
    );
  }, [marked, flow]);

  const show = useCallback(
    (at: Point) => {
      if (isSeen(at)) return;
      void flow.setCenter(at.x + NODE_WIDTH / 2, at.y + NODE_HEIGHT / 2, {
        zoom: Math.max(flow.getZoom(), 0.6),
        duration: duration(200),
      });
    },
    [flow, isSeen],
  );
  const fit = useCallback(
    () => void flow.fitView({ ...FIT, duration: duration(200) }),
    [flow],
  );
  const middle = useCallback((): Point => {
    const bounds = frame.current?.getBoundingClientRect() ?? new DOMRect();
    return flow.screenToFlowPosition({
      x: bounds.left + bounds.width / 2 - NODE_WIDTH / 2,
      y: bounds.top + bounds.height / 2 - NODE_HEIGHT / 2,
    });
  }, [flow, frame]);
  return { show, fit, middle };
}

/** No motion for a person who wants none. */
function duration(milliseconds: number): number {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : milliseconds;
}
