// The nodes and edges that the drawing library holds: what the workflow says, and what only the page
// knows of it (what is selected, what is being dragged, where the keyboard is).

import {
  applyEdgeChanges,
  applyNodeChanges,
  type Edge,
  type EdgeChange,
  type NodeChange,
} from "@xyflow/react";
import { useCallback, useEffect, useRef, useState } from "react";

import {
  Draughtsman,
  NOT_A_TAB_STOP,
  TAB_STOP,
  type Drawing,
  type FlowNode,
} from "./flow";

export interface FlowElements {
  nodes: FlowNode[];
  edges: Edge[];
  changeNodes: (changes: NodeChange<FlowNode>[]) => void;
  changeEdges: (changes: EdgeChange[]) => void;
  /** Selects this node and nothing else, or nothing at all. */
  select: (id: string | null) => void;
  /** Makes this node the canvas's one stop in the tab order. */
  walkTo: (id: string) => void;
}

export function useFlowElements(drawing: Drawing): FlowElements {
  const [draughtsman] = useState(() => new Draughtsman());
  const [nodes, setNodes] = useState<FlowNode[]>([]);
  const [edges, setEdges] = useState<Edge[]>([]);
  const lastNodes = useRef(new Map<string, FlowNode>());
  const lastEdges = useRef(new Map<string, Edge>());
  const [stop, setStop] = useState<string | null>(null);

  // What the library has measured, and what the person holds or has selected, outlives a change.
  useEffect(() => {
    const drawn = draughtsman.drawNodes(drawing);
    const last = lastNodes.current;
    lastNodes.current = new Map(drawn.map((node) => [node.id, node]));
    setNodes((before) => {
      const known = new Map(before.map((node) => [node.id, node]));
      return drawn.map((node): FlowNode => {
        const old = known.get(node.id);
        if (!old) return node;
        if (last.get(node.id) === node) return old;
        return {
          ...node,
          selected: old.selected ?? false,
          ...(old.domAttributes ? { domAttributes: old.domAttributes } : {}),
          ...(old.measured ? { measured: old.measured } : {}),
          ...(old.dragging ? { dragging: true, position: old.position } : {}),
        } as FlowNode;
      });
    });
  }, [drawing, draughtsman]);

  useEffect(() => {
    const drawn = draughtsman.drawEdges(drawing);
    const last = lastEdges.current;
    lastEdges.current = new Map(drawn.map((edge) => [edge.id, edge]));
    setEdges((before) => {
      const known = new Map(before.map((edge) => [edge.id, edge]));
      return drawn.map((edge) => {
        const old = known.get(edge.id);
        if (old && last.get(edge.id) === edge) return old;
        return old?.selected ? { ...edge, selected: true } : edge;
      });
    });
  }, [drawing, draughtsman]);

  // Whatever goes, one node stays reachable by Tab.
  const reachable = stop !== null && nodes.some((node) => node.id === stop);
  const first = nodes[0]?.id ?? null;
  useEffect(() => {
    const wanted = reachable ? stop : first;
    setNodes((now) => {
      const wrong = (node: FlowNode) =>
        (node.domAttributes === TAB_STOP) !== (node.id === wanted);
      if (!now.some(wrong)) return now;
      return now.map((node) =>
        wrong(node)
          ? ({
              ...node,
              domAttributes: node.id === wanted ? TAB_STOP : NOT_A_TAB_STOP,
            } as FlowNode)
          : node,
      );
    });
  }, [reachable, stop, first]);

  const changeNodes = useCallback(
    (changes: NodeChange<FlowNode>[]) => setNodes((now) => applyNodeChanges(changes, now)),
    [],
  );
  const changeEdges = useCallback(
    (changes: EdgeChange[]) => setEdges((now) => applyEdgeChanges(changes, now)),
    [],
  );
  const select = useCallback((id: string | null) => {
    setNodes((now) =>
      now.map((node) =>
        (node.selected ?? false) === (node.id === id)
          ? node
          : ({ ...node, selected: node.id === id } as FlowNode),
      ),
    );
    setEdges((now) => now.map((edge) => (edge.selected ? { ...edge, selected: false } : edge)));
  }, []);
  return { nodes, edges, changeNodes, changeEdges, select, walkTo: setStop };
}
