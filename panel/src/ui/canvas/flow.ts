// A workflow as the drawing library's nodes and edges. What has not changed stays the same object, so
// that a step that changes two of two hundred operators draws two.

import { Position, type Edge, type Node, type NodeHandle } from "@xyflow/react";

import { asText, commentsOf } from "../../client/loose";
import type { Mark, Marks } from "../../client/preview";
import type { CommentBox, Link, Operator, Point, Port, Workflow } from "../../client/types";
import { coordinate, NODE_HEIGHT, NODE_WIDTH } from "./layout";
import { lineOf } from "./lines";

export const MARK_WORDS: Readonly<Record<Mark, string>> = {
  goes: "goes away",
  returns: "comes back",
  changes: "changes",
};

export type OperatorFlowNode = Node<
  { operator: Operator; inputs: Port[]; outputs: Port[]; fresh: boolean; mark: Mark | null },
  "operator"
>;
export type CommentFlowNode = Node<{ box: CommentBox; mark: Mark | null }, "comment">;
export type FlowNode = OperatorFlowNode | CommentFlowNode;

/** Nodes are one stop in the page's tab order, and arrow keys walk them. */
export const NOT_A_TAB_STOP = { tabIndex: -1 } as const;
export const TAB_STOP = { tabIndex: 0 } as const;

const COMMENT = "comment:";
/** The ring of a port, in pixels. */
const PORT_SIZE = 13;

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

export interface Drawing {
  workflow: Workflow;
  positions: ReadonlyMap<string, Point>;
  fresh: ReadonlySet<string>;
  marks: Marks;
}

/** Makes nodes and edges, and gives those of the time before again where nothing has changed. */
export class Draughtsman {
  private nodes = new Map<string, { of: object; made: string; node: FlowNode }>();
  private edges = new Map<string, { of: Link; made: string; edge: Edge }>();

  drawNodes({ workflow, positions, fresh, marks }: Drawing): FlowNode[] {
    const ports = linkedPorts(workflow);
    const next: typeof this.nodes = new Map();
    const draw = (id: string, of: object, made: string, make: () => FlowNode) => {
      const known = this.nodes.get(id);
      const entry =
        known?.of === of && known.made === made ? known : { of, made, node: make() };
      next.set(id, entry);
    };
    for (const operator of workflow.operators ?? []) {
      const id = operator.operatorID;
      const used = ports.get(id);
      const at = positions.get(id) ?? { x: 0, y: 0 };
      const mark = marks.operators.get(id) ?? null;
      const isFresh = fresh.has(id);
      const made = JSON.stringify([at.x, at.y, isFresh, mark, used?.inputs, used?.outputs]);
      draw(id, operator, made, () => {
        const inputs = withPorts(operator.inputPorts, used?.inputs);
        const outputs = withPorts(operator.outputPorts, used?.outputs);
        return {
          id,
          type: "operator",
          // Known beforehand, so that what is out of sight need not be drawn to be measured.
          initialWidth: NODE_WIDTH,
          initialHeight: NODE_HEIGHT,
          handles: [...handlesOf(inputs, "target"), ...handlesOf(outputs, "source")],
          position: at,
          ariaLabel: spoken(operator, mark),
          domAttributes: NOT_A_TAB_STOP,
          data: { operator, inputs, outputs, fresh: isFresh, mark },
        };
      });
    }
    for (const box of workflow.commentBoxes ?? []) {
      const id = commentNodeId(box);
      const mark = marks.comments.get(box.commentBoxID) ?? null;
      draw(id, box, String(mark), () => ({
        id,
        type: "comment",
        ariaLabel: `Note: ${asText(commentsOf(box)[0]?.content)}`,
        domAttributes: NOT_A_TAB_STOP,
        position: {
          x: coordinate(box.commentBoxPosition?.x),
          y: coordinate(box.commentBoxPosition?.y),
        },
        data: { box, mark },
      }));
    }
    this.nodes = next;
    return [...next.values()].map(({ node }) => node);
  }

  drawEdges({ workflow, marks }: Drawing): Edge[] {
    const types = new Map(workflow.operators?.map((o) => [o.operatorID, operatorTypeOf(o)]));
    const next: typeof this.edges = new Map();
    for (const link of workflow.links ?? []) {
      const line = lineOf(types.get(link.source.operatorID) ?? "");
      const mark = marks.links.get(link.linkID) ?? null;
      const made = `${line} ${mark}`;
      const known = this.edges.get(link.linkID);
      next.set(
        link.linkID,
        known?.of === link && known.made === made
          ? known
          : { of: link, made, edge: toEdge(link, line, mark) },
      );
    }
    this.edges = next;
    return [...next.values()].map(({ edge }) => edge);
  }
}

function spoken(operator: Operator, mark: Mark | null): string {
  const words = [operatorName(operator), operatorTypeOf(operator), operator.operatorID];
  if (mark !== null) words.push(MARK_WORDS[mark]);
  return words.join(", ");
}

function toEdge(link: Link, line: string, mark: Mark | null): Edge {
  return {
    id: link.linkID,
    type: "smoothstep",
    source: link.source.operatorID,
    sourceHandle: link.source.portID,
    target: link.target.operatorID,
    targetHandle: link.target.portID,
    className: mark === null ? `line-${line}` : `line-${line} mark-${mark}`,
    ariaLabel: `Link from ${link.source.operatorID} to ${link.target.operatorID}`,
    pathOptions: { borderRadius: 22, offset: 24 },
  } as Edge;
}

/** Where the rings of ports are, as `nodes.css` has them. */
function handlesOf(ports: readonly Port[], type: "source" | "target"): NodeHandle[] {
  const x = (type === "source" ? NODE_WIDTH : 0) - PORT_SIZE / 2;
  return ports.map((port, index) => ({
    id: port.portID,
    type,
    position: type === "source" ? Position.Right : Position.Left,
    x,
    y: (NODE_HEIGHT * (index + 1)) / (ports.length + 1) - PORT_SIZE / 2,
    width: PORT_SIZE,
    height: PORT_SIZE,
  }));
}

interface Ports {
  inputs: string[];
  outputs: string[];
}

function linkedPorts(workflow: Workflow): Map<string, Ports> {
  const result = new Map<string, Ports>();
  const of = (id: string): Ports => {
    const ports = result.get(id) ?? { inputs: [], outputs: [] };
    result.set(id, ports);
    return ports;
  };
  const add = (ports: string[], port: string) => {
    if (!ports.includes(port)) ports.push(port);
  };
  for (const { source, target } of workflow.links ?? []) {
    add(of(source.operatorID).outputs, source.portID);
    add(of(target.operatorID).inputs, target.portID);
  }
  return result;
}

/** The ports that an operator names, and those that only its links do. */
function withPorts(named: Port[] | undefined, linked: string[] | undefined): Port[] {
  const ports = [...(named ?? [])];
  for (const portID of linked ?? []) {
    if (!ports.some((port) => port.portID === portID)) ports.push({ portID });
  }
  return ports;
}
