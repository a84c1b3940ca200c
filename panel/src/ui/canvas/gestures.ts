// What a person's gestures on the canvas come to: moves and edits, made of what the workflow holds.

import type { Connection, Edge } from "@xyflow/react";

import { newRequestId } from "../../client/connection";
import type { Move } from "../../client/ownEdits";
import type { CommentBox, Edit, Point, Workflow } from "../../client/types";
import { commentNodeId, type FlowNode } from "./flow";
import { coordinate } from "./layout";

/** The comment box that a node shows; undefined for an operator's. */
export function boxOf(workflow: Workflow, nodeId: string): CommentBox | undefined {
  return workflow.commentBoxes?.find((one) => commentNodeId(one) === nodeId);
}

/** Where a node is shown; `positions` are the operators'. */
export function placeIn(
  workflow: Workflow,
  positions: ReadonlyMap<string, Point>,
  nodeId: string,
): Point | null {
  const box = boxOf(workflow, nodeId);
  if (!box) return positions.get(nodeId) ?? null;
  const at = box.commentBoxPosition;
  return { x: coordinate(at?.x), y: coordinate(at?.y) };
}

/** The move of a node to whole pixels; none where it stands there already. */
export function moveOf(workflow: Workflow, nodeId: string, from: Point | null, at: Point): Move[] {
  const to = { x: Math.round(at.x), y: Math.round(at.y) };
  if (!from || (from.x === to.x && from.y === to.y)) return [];
  const box = boxOf(workflow, nodeId);
  return [
    box
      ? { kind: "comment", id: box.commentBoxID, from, to }
      : { kind: "operator", id: nodeId, from, to },
  ];
}

/** Whether a link may be drawn so: from one operator to another, and not twice. */
export function canLink(workflow: Workflow, connection: Connection | Edge): boolean {
  return (
    connection.source !== connection.target &&
    !(workflow.links ?? []).some(
      (link) =>
        link.source.operatorID === connection.source &&
        link.source.portID === connection.sourceHandle &&
        link.target.operatorID === connection.target &&
        link.target.portID === connection.targetHandle,
    )
  );
}

export function linking({ source, sourceHandle, target, targetHandle }: Connection): Edit[] {
  if (sourceHandle === null || targetHandle === null) return [];
  const link = {
    linkID: `link-${newRequestId()}`,
    source: { operatorID: source, portID: sourceHandle },
    target: { operatorID: target, portID: targetHandle },
  };
  return [{ op: "addLink", link }];
}

/** An empty note. */
export function newNote(at: Point): CommentBox {
  return {
    commentBoxID: `comment-${newRequestId()}`,
    comments: [{ content: "", creationTime: new Date().toISOString() }],
    commentBoxPosition: at,
  };
}

/** Nodes and links gone; a link whose operator goes needs no edit of its own. */
export function removing(nodes: readonly FlowNode[], edges: readonly Edge[]): Edit[] {
  const operators = new Set(
    nodes.filter((node) => node.type === "operator").map((node) => node.id),
  );
  return [
    ...edges
      .filter((edge) => !operators.has(edge.source) && !operators.has(edge.target))
      .map((edge): Edit => ({ op: "removeLink", linkID: edge.id })),
    ...nodes.map((node): Edit =>
      node.type === "comment"
        ? { op: "removeComment", commentBoxID: node.data.box.commentBoxID }
        : { op: "removeOperator", operatorID: node.id },
    ),
  ];
}
