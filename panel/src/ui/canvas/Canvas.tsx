// The workflow, drawn and edited by hand. Every gesture becomes an edit; the server has the last word.

import {
  applyEdgeChanges,
  applyNodeChanges,
  Background,
  BackgroundVariant,
  MiniMap,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  type Connection,
  type Edge,
  type EdgeChange,
  type NodeChange,
} from "@xyflow/react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { newRequestId } from "../../client/connection";
import type { Move } from "../../client/session";
import type { Edit, OperatorType, Point, Workflow } from "../../client/types";
import { isTextField } from "../session/useShortcuts";
import { CanvasTools } from "./CanvasTools";
import { CommentEditor } from "./CommentEditor";
import { CommentNode } from "./CommentNode";
import { EmptyCanvas } from "./EmptyCanvas";
import { commentNodeId, operatorTypeOf, toEdges, toNodes, type FlowNode } from "./flow";
import { Inspector } from "./Inspector";
import { freePlace, NODE_HEIGHT, NODE_WIDTH, placeAll } from "./layout";
import { lineOf } from "./lines";
import { newOperator } from "./newOperator";
import { OperatorNode } from "./OperatorNode";
import { DRAGGED_TYPE, Palette } from "./Palette";
import { useFresh } from "./useFresh";
import { useOperatorTypes } from "./useOperatorTypes";

const NODE_TYPES = { operator: OperatorNode, comment: CommentNode };
/** Milliseconds until new nodes have a size. */
const MEASURED_AFTER = 60;
/** Nodes from which on only those in sight are drawn. */
const MANY = 400;
const FIT = { padding: 0.18, maxZoom: 1 };

interface Props {
  workflow: Workflow;
  ready: boolean;
  blocked: string | null;
  canUndo: boolean;
  canRedo: boolean;
  onEdit: (edits: Edit[]) => void;
  onMove: (moves: Move[]) => void;
  onUndo: () => void;
  onRedo: () => void;
  onOpenFile: (file: File) => void;
}

export function Canvas(props: Props) {
  return (
    <ReactFlowProvider>
      <Board {...props} />
    </ReactFlowProvider>
  );
}

function Board(props: Props) {
  const { workflow, ready, blocked, onEdit, onMove, onUndo, onRedo, onOpenFile } = props;
  const locked = blocked !== null;
  const flow = useReactFlow<FlowNode>();
  const frame = useRef<HTMLElement>(null);
  const shown = useRef(new Map<string, Point>());
  const fresh = useFresh(workflow, ready);
  const { types, problem } = useOperatorTypes();
  const [palette, setPalette] = useState(false);

  const positions = useMemo(() => {
    shown.current = placeAll(workflow, shown.current);
    return shown.current;
  }, [workflow]);
  const drawn = useMemo(
    () => toNodes(workflow, positions, fresh, locked),
    [workflow, positions, fresh, locked],
  );
  const [nodes, setNodes] = useState<FlowNode[]>([]);
  const [edges, setEdges] = useState<Edge[]>([]);

  // What the library has measured, and what the person holds or has selected, outlives a change.
  useEffect(() => {
    setNodes((before) => {
      const known = new Map(before.map((node) => [node.id, node]));
      return drawn.map((node): FlowNode => {
        const old = known.get(node.id);
        if (!old) return node;
        return {
          ...node,
          selected: old.selected ?? false,
          ...(old.measured ? { measured: old.measured } : {}),
          ...(old.dragging ? { dragging: true, position: old.position } : {}),
        } as FlowNode;
      });
    });
  }, [drawn]);
  useEffect(() => {
    setEdges((before) => {
      const selected = new Set(before.filter((edge) => edge.selected).map((edge) => edge.id));
      return toEdges(workflow).map((edge) => ({ ...edge, selected: selected.has(edge.id) }));
    });
  }, [workflow]);

  // The first workflow is shown whole; later, only what would be out of sight moves the view.
  const fitted = useRef(false);
  const empty = drawn.length === 0;
  useEffect(() => {
    if (empty) fitted.current = false;
    else if (!fitted.current && nodes.length > 0) {
      fitted.current = true;
      void flow.fitView(FIT);
    }
  }, [empty, nodes.length, flow]);
  useEffect(() => {
    const bounds = frame.current?.getBoundingClientRect();
    if (fresh.size === 0 || !bounds || bounds.width === 0) return;
    const from = flow.screenToFlowPosition({ x: bounds.left, y: bounds.top });
    const to = flow.screenToFlowPosition({ x: bounds.right, y: bounds.bottom });
    const hidden = [...fresh].some((id) => {
      const at = positions.get(id);
      return (
        at !== undefined &&
        (at.x < from.x || at.y < from.y || at.x + NODE_WIDTH > to.x || at.y + NODE_HEIGHT > to.y)
      );
    });
    if (!hidden) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    // What has just come is measured only after the next paint.
    const timer = setTimeout(
      () => void flow.fitView({ ...FIT, duration: still ? 0 : 350 }),
      MEASURED_AFTER,
    );
    return () => clearTimeout(timer);
  }, [fresh, positions, flow]);

  const onNodesChange = useCallback(
    (changes: NodeChange<FlowNode>[]) => {
      setNodes((now) => applyNodeChanges(changes, now));
      const moves = changes.flatMap((change): Move[] => {
        // The end of a drag, or a step by an arrow key.
        if (change.type !== "position" || change.dragging !== false || !change.position) return [];
        const to = { x: Math.round(change.position.x), y: Math.round(change.position.y) };
        const box = workflow.commentBoxes?.find((one) => commentNodeId(one) === change.id);
        const from = box?.commentBoxPosition ?? positions.get(change.id);
        const id = box?.commentBoxID ?? change.id;
        if (!from || (from.x === to.x && from.y === to.y)) return [];
        return [{ kind: box ? "comment" : "operator", id, from, to }];
      });
      if (moves.length > 0) onMove(moves);
    },
    [workflow, positions, onMove],
  );

  const onEdgesChange = useCallback(
    (changes: EdgeChange[]) => setEdges((now) => applyEdgeChanges(changes, now)),
    [],
  );

  const fits = useCallback(
    (connection: Connection | Edge) =>
      connection.source !== connection.target &&
      !(workflow.links ?? []).some(
        (link) =>
          link.source.operatorID === connection.source &&
          link.source.portID === connection.sourceHandle &&
          link.target.operatorID === connection.target &&
          link.target.portID === connection.targetHandle,
      ),
    [workflow.links],
  );

  const connect = ({ source, sourceHandle, target, targetHandle }: Connection) => {
    if (sourceHandle === null || targetHandle === null) return;
    const link = {
      linkID: `link-${newRequestId()}`,
      source: { operatorID: source, portID: sourceHandle },
      target: { operatorID: target, portID: targetHandle },
    };
    onEdit([{ op: "addLink", link }]);
  };

  const middle = (): Point => {
    const bounds = frame.current?.getBoundingClientRect() ?? new DOMRect();
    return flow.screenToFlowPosition({
      x: bounds.left + bounds.width / 2 - NODE_WIDTH / 2,
      y: bounds.top + bounds.height / 2 - NODE_HEIGHT / 2,
    });
  };

  const select = (id: string) => {
    setNodes((now) => now.map((node) => ({ ...node, selected: node.id === id })));
    setEdges((now) => now.map((edge) => ({ ...edge, selected: false })));
  };
  // A node that was just added exists only after the next draw.
  const toSelect = useRef<string | null>(null);
  useEffect(() => {
    const id = toSelect.current;
    if (id === null || !drawn.some((node) => node.id === id)) return;
    toSelect.current = null;
    select(id);
  }, [drawn]);

  const add = (type: OperatorType, at: Point) => {
    const operator = newOperator(type, workflow);
    toSelect.current = operator.operatorID;
    onEdit([{ op: "addOperator", operator, position: freePlace(positions.values(), at) }]);
    setPalette(false);
  };

  const addNote = () => {
    const comment = {
      commentBoxID: `comment-${newRequestId()}`,
      comments: [{ content: "", creationTime: new Date().toISOString() }],
      commentBoxPosition: freePlace(positions.values(), middle()),
    };
    toSelect.current = commentNodeId(comment);
    onEdit([{ op: "addComment", comment }]);
  };

  const chosen = nodes.filter((node) => node.selected);
  const chosenEdges = edges.filter((edge) => edge.selected);
  const remove = () => {
    const operators = new Set(
      chosen.filter((node) => node.type === "operator").map((node) => node.id),
    );
    const edits: Edit[] = [
      ...chosenEdges
        .filter((edge) => !operators.has(edge.source) && !operators.has(edge.target))
        .map((edge): Edit => ({ op: "removeLink", linkID: edge.id })),
      ...chosen.map((node): Edit =>
        node.type === "comment"
          ? { op: "removeComment", commentBoxID: node.data.box.commentBoxID }
          : { op: "removeOperator", operatorID: node.id },
      ),
    ];
    if (edits.length > 0) onEdit(edits);
  };

  // These keys are the canvas's own wherever no text is written and no message has the focus.
  const keys = useRef<(event: KeyboardEvent) => void>(() => undefined);
  keys.current = (event) => {
    const target = event.target as HTMLElement;
    if (event.defaultPrevented || isTextField(target)) return;
    if (target !== document.body && !frame.current?.contains(target)) return;
    const command = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (command && key === "z" && event.shiftKey) onRedo();
    else if (command && key === "z") onUndo();
    else if (command && key === "y") onRedo();
    else if ((key === "delete" || key === "backspace") && !command) remove();
    else return;
    event.preventDefault();
  };
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (!locked) keys.current(event);
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, [locked]);

  const only = chosen.length === 1 && chosenEdges.length === 0 ? chosen[0] : undefined;
  const operator =
    only?.type === "operator"
      ? workflow.operators?.find((one) => one.operatorID === only.id)
      : undefined;
  const box =
    only?.type === "comment"
      ? workflow.commentBoxes?.find((one) => commentNodeId(one) === only.id)
      : undefined;
  const deselect = () => {
    setNodes((now) => now.map((node) => ({ ...node, selected: false })));
  };

  return (
    <section
      className="canvas"
      aria-label="Workflow canvas"
      ref={frame}
      data-locked={locked || undefined}
      onDragOver={(event) => {
        const { types: kinds } = event.dataTransfer;
        if (locked || !(kinds.includes(DRAGGED_TYPE) || kinds.includes("Files"))) return;
        event.preventDefault();
        event.dataTransfer.dropEffect = "copy";
      }}
      onDrop={(event) => {
        event.preventDefault();
        const type = types?.find((one) => one.type === event.dataTransfer.getData(DRAGGED_TYPE));
        const at = flow.screenToFlowPosition({ x: event.clientX, y: event.clientY });
        if (type) add(type, { x: at.x - NODE_WIDTH / 2, y: at.y - NODE_HEIGHT / 2 });
        else if (event.dataTransfer.files[0]) onOpenFile(event.dataTransfer.files[0]);
      }}
    >
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        onNodesChange={onNodesChange}
        onEdgesChange={onEdgesChange}
        onConnect={connect}
        isValidConnection={fits}
        nodesDraggable={!locked}
        nodesConnectable={!locked}
        selectNodesOnDrag={false}
        deleteKeyCode={null}
        onlyRenderVisibleElements={nodes.length > MANY}
        minZoom={0.15}
        maxZoom={2}
        connectionRadius={28}
        connectionLineStyle={{ strokeWidth: 3 }}
      >
        <Background variant={BackgroundVariant.Dots} gap={24} size={1.4} />
        {drawn.length > 0 && (
          <MiniMap
            pannable
            zoomable
            ariaLabel="Map of the workflow"
            nodeClassName={(node: FlowNode) =>
              node.type === "operator" ? `line-${lineOf(operatorTypeOf(node.data.operator))}` : ""
            }
            nodeBorderRadius={20}
          />
        )}
      </ReactFlow>
      {ready && empty && (
        <EmptyCanvas blocked={blocked} onAdd={() => setPalette(true)} onOpenFile={onOpenFile} />
      )}
      <CanvasTools
        blocked={blocked}
        palette={palette}
        canUndo={props.canUndo}
        canRedo={props.canRedo}
        onPalette={() => setPalette(!palette)}
        onNote={addNote}
        onUndo={onUndo}
        onRedo={onRedo}
        onOpenFile={onOpenFile}
        onZoom={(by) => void (by > 0 ? flow.zoomIn() : flow.zoomOut())}
        onFit={() => void flow.fitView({ ...FIT, duration: 200 })}
      />
      {palette && (
        <Palette
          types={types}
          problem={problem}
          onAdd={(type) => add(type, middle())}
          onClose={() => setPalette(false)}
        />
      )}
      {operator && !palette && (
        <Inspector
          key={operator.operatorID}
          operator={operator}
          type={types?.find((one) => one.type === operator.operatorType) ?? null}
          blocked={blocked}
          onEdit={onEdit}
          onClose={deselect}
        />
      )}
      {box && !palette && (
        <CommentEditor
          key={box.commentBoxID}
          box={box}
          blocked={blocked}
          onEdit={onEdit}
          onClose={deselect}
        />
      )}
      {chosen.length + chosenEdges.length > 0 && !operator && !box && (
        <div className="selection floating" role="toolbar" aria-label="Selection">
          <span>{chosen.length + chosenEdges.length} selected</span>
          <button
            type="button"
            className="button small danger"
            disabled={locked}
            title={blocked ?? "Remove what is selected (Delete)"}
            onClick={remove}
          >
            Remove
          </button>
        </div>
      )}
      {ready && blocked !== null && blocked.startsWith("The agent") && (
        <p className="canvas-lock">{blocked}. You can edit again when it is done.</p>
      )}
    </section>
  );
}
