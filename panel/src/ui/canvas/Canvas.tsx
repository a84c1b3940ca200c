// The workflow, drawn and edited by hand. Every gesture becomes an edit; the server has the last word.

import {
  Background,
  BackgroundVariant,
  MiniMap,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  type Connection,
  type Edge,
  type NodeChange,
} from "@xyflow/react";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";

import type { Move } from "../../client/ownEdits";
import { NO_MARKS, type Marks } from "../../client/preview";
import type { Edit, OperatorType, Point, Workflow } from "../../client/types";
import { counted } from "../../client/words";
import { CanvasTools, ViewTools } from "./CanvasTools";
import { CommentEditor } from "./CommentEditor";
import { CommentNode } from "./CommentNode";
import { EmptyCanvas } from "./EmptyCanvas";
import { commentNodeId, operatorTypeOf, type FlowNode } from "./flow";
import { boxOf, canLink, linking, moveOf, newNote, placeIn, removing } from "./gestures";
import { Inspector } from "./Inspector";
import { freePlace, NODE_HEIGHT, NODE_WIDTH, placeAll } from "./layout";
import { lineOf } from "./lines";
import { newOperator } from "./newOperator";
import { OperatorNode } from "./OperatorNode";
import { Outline } from "./Outline";
import { DRAGGED_TYPE, Palette } from "./Palette";
import { useCanvasKeys } from "./useCanvasKeys";
import { useFlowElements } from "./useFlowElements";
import { useFresh } from "./useFresh";
import { useOperatorTypes } from "./useOperatorTypes";
import { useSight } from "./useSight";

const NODE_TYPES = { operator: OperatorNode, comment: CommentNode };
/** Nodes from which on only those in sight are drawn. */
const MANY = 400;
/** Operators from which on a map helps to find one's way. */
const MAPPED = 12;

export interface CanvasProps {
  workflow: Workflow;
  ready: boolean;
  blocked: string | null;
  canUndo: boolean;
  canRedo: boolean;
  /** What a revert that is looked at would do; null while none is. */
  marks: Marks | null;
  /** The node to bring into sight; a new object asks anew. */
  shown: { id: string } | null;
  onEdit: (edits: Edit[]) => void;
  onMove: (moves: Move[]) => void;
  onUndo: () => void;
  onRedo: () => void;
  onOpenFile: (file: File) => void;
}

/** Text that streams into the conversation is no reason to draw the canvas again. */
export const Canvas = memo(function Canvas(props: CanvasProps) {
  return (
    <ReactFlowProvider>
      <Board {...props} />
    </ReactFlowProvider>
  );
});

type Panel = "palette" | "outline" | null;

function Board(props: CanvasProps) {
  const { workflow, ready, blocked, onEdit, onMove, onUndo, onRedo, onOpenFile } = props;
  const marks = props.marks ?? NO_MARKS;
  const looking = props.marks !== null;
  const locked = blocked !== null;
  const flow = useReactFlow<FlowNode>();
  const frame = useRef<HTMLElement>(null);
  const placed = useRef(new Map<string, Point>());
  const fresh = useFresh(workflow, ready);
  const { types, problem } = useOperatorTypes();
  const [panel, setPanel] = useState<Panel>(null);
  /** The node whose panel was opened by the keyboard: focus goes in, and back when it closes. */
  const [entered, setEntered] = useState<string | null>(null);

  const positions = useMemo(() => {
    placed.current = placeAll(workflow, placed.current);
    return placed.current;
  }, [workflow]);
  const drawing = useMemo(
    () => ({ workflow, positions, fresh, marks }),
    [workflow, positions, fresh, marks],
  );
  const { nodes, edges, changeNodes, changeEdges, select, walkTo } = useFlowElements(drawing);
  const marked = useMemo(
    () => (props.marks === null ? null : markedNodes(props.marks)),
    [props.marks],
  );
  const sight = useSight(frame, nodes, positions, fresh, marked);
  const empty = (workflow.operators ?? []).length + (workflow.commentBoxes ?? []).length === 0;

  const placeOf = useCallback(
    (nodeId: string) => placeIn(workflow, positions, nodeId),
    [workflow, positions],
  );

  const focusNode = useCallback(
    (id: string) => {
      walkTo(id);
      const at = placeOf(id);
      if (at) sight.show(at);
      // A node out of sight may not be drawn before the view has moved.
      requestAnimationFrame(() =>
        frame.current
          ?.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(id)}"]`)
          ?.focus({ preventScroll: true }),
      );
    },
    [walkTo, placeOf, sight.show],
  );

  const { shown } = props;
  useEffect(() => {
    const at = shown ? placeOf(shown.id) : null;
    if (!shown || !at) return;
    select(shown.id);
    sight.show(at);
  }, [shown]);

  // What a list of changes has walked to is not what the person chose.
  useEffect(() => {
    if (!looking) select(null);
  }, [looking, select]);

  const moved = useCallback(
    (id: string, to: Point) => moveOf(workflow, id, placeOf(id), to),
    [workflow, placeOf],
  );

  const onNodesChange = useCallback(
    (changes: NodeChange<FlowNode>[]) => {
      changeNodes(changes);
      const moves = changes.flatMap((change) =>
        change.type === "position" && change.dragging === false && change.position
          ? moved(change.id, change.position)
          : [],
      );
      if (moves.length > 0) onMove(moves);
    },
    [changeNodes, moved, onMove],
  );

  const fits = useCallback(
    (connection: Connection | Edge) => canLink(workflow, connection),
    [workflow],
  );

  // A node that was just added exists only after the next draw.
  const toEnter = useRef<string | null>(null);
  useEffect(() => {
    const id = toEnter.current;
    if (id === null || !nodes.some((node) => node.id === id)) return;
    toEnter.current = null;
    select(id);
    setEntered(id);
  }, [nodes, select]);

  const add = (type: OperatorType, at: Point) => {
    const operator = newOperator(type, workflow);
    toEnter.current = operator.operatorID;
    onEdit([{ op: "addOperator", operator, position: freePlace(positions.values(), at) }]);
    setPanel(null);
  };

  const addNote = () => {
    const comment = newNote(freePlace(positions.values(), sight.middle()));
    toEnter.current = commentNodeId(comment);
    onEdit([{ op: "addComment", comment }]);
  };

  const chosen = nodes.filter((node) => node.selected);
  const chosenEdges = edges.filter((edge) => edge.selected);
  const remove = (focused: string | null) => {
    const several = chosen.length + chosenEdges.length > 0;
    const going = several ? chosen : nodes.filter((node) => node.id === focused);
    const edits = removing(going, chosenEdges);
    if (edits.length === 0) return;
    onEdit(edits);
    // The keyboard goes on from a neighbour of what has gone.
    const gone = new Set(going.map((node) => node.id));
    const next = focused === null ? undefined : nodes.find((node) => !gone.has(node.id));
    if (next) focusNode(next.id);
  };

  const close = () => {
    select(null);
    if (entered !== null) focusNode(entered);
    setEntered(null);
  };
  const enter = (id: string) => {
    walkTo(id);
    select(id);
    setEntered(id);
  };

  useCanvasKeys(frame, {
    locked,
    places: () => new Map(nodes.map((node) => [node.id, node.position])),
    walk: focusNode,
    open: enter,
    nudge: (id, by) => {
      const at = placeOf(id);
      if (at) onMove(moved(id, { x: at.x + by.x, y: at.y + by.y }));
    },
    remove,
    undo: onUndo,
    redo: onRedo,
    escape: () => {
      if (chosen.length + chosenEdges.length === 0) return false;
      close();
      return true;
    },
  });

  const only = chosen.length === 1 && chosenEdges.length === 0 ? chosen[0] : undefined;
  const operator =
    only?.type === "operator"
      ? workflow.operators?.find((one) => one.operatorID === only.id)
      : undefined;
  const box = only ? boxOf(workflow, only.id) : undefined;

  return (
    <section
      className="canvas"
      id="canvas"
      aria-label="Workflow canvas"
      aria-describedby="canvas-summary"
      tabIndex={-1}
      ref={frame}
      data-locked={locked || undefined}
      data-looking={looking || undefined}
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
      <p className="sr-only" id="canvas-summary">
        {summary(workflow)} Arrow keys walk from operator to operator, Enter opens one. The outline
        lists them all with their links.
      </p>
      <CanvasTools
        blocked={blocked}
        panel={panel}
        canUndo={props.canUndo}
        canRedo={props.canRedo}
        onPalette={() => setPanel(panel === "palette" ? null : "palette")}
        onOutline={() => setPanel(panel === "outline" ? null : "outline")}
        onNote={addNote}
        onUndo={onUndo}
        onRedo={onRedo}
        onOpenFile={onOpenFile}
      />
      {panel === "palette" && (
        <Palette
          types={types}
          problem={problem}
          onAdd={(type) => add(type, sight.middle())}
          onClose={() => setPanel(null)}
        />
      )}
      {panel === "outline" && (
        <Outline
          workflow={workflow}
          marks={marks}
          blocked={blocked}
          onOpen={(id) => {
            setPanel(null);
            enter(id);
            const at = placeOf(id);
            if (at) sight.show(at);
          }}
          onEdit={onEdit}
          onClose={() => setPanel(null)}
        />
      )}
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        onNodesChange={onNodesChange}
        onEdgesChange={changeEdges}
        onConnect={(connection) => {
          const edits = linking(connection);
          if (edits.length > 0) onEdit(edits);
        }}
        isValidConnection={fits}
        nodesDraggable={!locked}
        nodesConnectable={!locked}
        edgesFocusable={false}
        disableKeyboardA11y
        selectNodesOnDrag={false}
        deleteKeyCode={null}
        onlyRenderVisibleElements={nodes.length > MANY}
        minZoom={0.15}
        maxZoom={2}
        connectionRadius={28}
        connectionLineStyle={CONNECTION_LINE}
      >
        <Background variant={BackgroundVariant.Dots} gap={24} size={1.4} />
        {nodes.length > MAPPED && (
          <MiniMap
            pannable
            zoomable
            ariaLabel="Map of the workflow"
            nodeClassName={mapClass}
            nodeBorderRadius={20}
          />
        )}
      </ReactFlow>
      {ready && empty && (
        <EmptyCanvas blocked={blocked} onAdd={() => setPanel("palette")} onOpenFile={onOpenFile} />
      )}
      <ViewTools
        onZoom={(by) => void (by > 0 ? flow.zoomIn() : flow.zoomOut())}
        onFit={sight.fit}
      />
      {operator && panel === null && !looking && (
        <Inspector
          key={operator.operatorID}
          operator={operator}
          workflow={workflow}
          type={types?.find((one) => one.type === operator.operatorType) ?? null}
          blocked={blocked}
          entered={entered === operator.operatorID}
          onEdit={onEdit}
          onClose={close}
        />
      )}
      {box && panel === null && !looking && (
        <CommentEditor
          key={box.commentBoxID}
          box={box}
          blocked={blocked}
          onEdit={onEdit}
          onClose={close}
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
            onClick={() => remove(null)}
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

const CONNECTION_LINE = { strokeWidth: 3 };

function markedNodes({ operators, comments }: Marks): string[] {
  const boxes = [...comments.keys()].map((commentBoxID) => commentNodeId({ commentBoxID }));
  return [...operators.keys(), ...boxes];
}

function mapClass(node: FlowNode): string {
  return node.type === "operator" ? `line-${lineOf(operatorTypeOf(node.data.operator))}` : "";
}

function summary(workflow: Workflow): string {
  const operators = (workflow.operators ?? []).length;
  const links = (workflow.links ?? []).length;
  if (operators === 0) return "The canvas holds no operator.";
  return `${counted(operators, "operator")}, ${counted(links, "link")}.`;
}
