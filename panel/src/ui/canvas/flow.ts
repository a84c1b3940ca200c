// A workflow as the drawing library's nodes and edges.

import type { Edge, Node } from "@xyflow/react";

import { asText, commentsOf } from "../../client/loose";
import type { CommentBox, Operator, Point, Port, Workflow } from "../../client/types";
import { coordinate, NODE_HEIGHT, NODE_WIDTH } from "./layout";
import { lineOf } from "./lines";

export type OperatorFlowNode = Node<
  { operator: Operator; inputs: Port[]; outputs: Port[]; fresh: boolean },
  "operator"
>;
export type CommentFlowNode = Node<{ box: CommentBox; locked: boolean }, "comment">;
export type FlowNode = OperatorFlowNode | CommentFlowNode;

const COMMENT = "comment:";

/** Operators and comment boxes may share an id; nodes may not. */
export function commentNodeId(box: CommentBox): string {
  return COMMENT + box.commentBoxID;
}

export function operatorName(operator: Operator): string {
  return asText(operator.customDisplayName).trim() || operatorTypeOf(operator);
}

export function operatorTypeOf(operator: Operator): string {
  return asText(operator.operatorType) || "Operator";
}

export function toNodes(
  workflow: Workflow,
  positions: ReadonlyMap<string, Point>,
  fresh: ReadonlySet<string>,
  locked: boolean,
): FlowNode[] {
  const ports = linkedPorts(workflow);
  const operators = (workflow.operators ?? []).map((operator): FlowNode => {
    const used = ports.get(operator.operatorID);
    return {
      id: operator.operatorID,
      type: "operator",
      // Until it has been drawn and measured.
      initialWidth: NODE_WIDTH,
      initialHeight: NODE_HEIGHT,
      position: positions.get(operator.operatorID) ?? { x: 0, y: 0 },
      ariaLabel: `${operatorName(operator)}, ${operatorTypeOf(operator)}, ${operator.operatorID}`,
      data: {
        operator,
        inputs: withPorts(operator.inputPorts, used?.inputs),
        outputs: withPorts(operator.outputPorts, used?.outputs),
        fresh: fresh.has(operator.operatorID),
      },
    };
  });
  const comments = (workflow.commentBoxes ?? []).map((box): FlowNode => ({
    id: commentNodeId(box),
    type: "comment",
    ariaLabel: `Note: ${asText(commentsOf(box)[0]?.content)}`,
    position: {
      x: coordinate(box.commentBoxPosition?.x),
      y: coordinate(box.commentBoxPosition?.y),
    },
    data: { box, locked },
  }));
  return [...operators, ...comments];
}

export function toEdges(workflow: Workflow): Edge[] {
  const types = new Map(workflow.operators?.map((o) => [o.operatorID, operatorTypeOf(o)]));
  return (workflow.links ?? []).map((link) => ({
    id: link.linkID,
    type: "smoothstep",
    source: link.source.operatorID,
    sourceHandle: link.source.portID,
    target: link.target.operatorID,
    targetHandle: link.target.portID,
    className: `line-${lineOf(types.get(link.source.operatorID) ?? "")}`,
    ariaLabel: `Link from ${link.source.operatorID} to ${link.target.operatorID}`,
    pathOptions: { borderRadius: 22, offset: 24 },
  }));
}

interface Ports {
  inputs: Set<string>;
  outputs: Set<string>;
}

function linkedPorts(workflow: Workflow): Map<string, Ports> {
  const result = new Map<string, Ports>();
  const of = (id: string): Ports => {
    const ports = result.get(id) ?? { inputs: new Set(), outputs: new Set() };
    result.set(id, ports);
    return ports;
  };
  for (const { source, target } of workflow.links ?? []) {
    of(source.operatorID).outputs.add(source.portID);
    of(target.operatorID).inputs.add(target.portID);
  }
  return result;
}

/** The ports that an operator names, and those that only its links do. */
function withPorts(named: Port[] | undefined, linked: Set<string> | undefined): Port[] {
  const ports = [...(named ?? [])];
  for (const portID of linked ?? []) {
    if (!ports.some((port) => port.portID === portID)) ports.push({ portID });
  }
  return ports;
}
