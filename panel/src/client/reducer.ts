// What a client knows of a session: a pure function from frames to state.
//
// Frames carry a dense, rising `eventSeq`; one that has been seen changes nothing, so a replay after
// a reconnect may overlap. Deltas are provisional: the finished step replaces them.

import { turnsBetween } from "./paths";
import { shareWorkflow } from "./share";
import {
  ROOT_STEP,
  type AgentState,
  type Approval,
  type Branch,
  type DeltaEvent,
  type EffectStanding,
  type EffectTold,
  type HeadCause,
  type PendingAction,
  type ServerFrame,
  type SnapshotEvent,
  type Standing,
  type Step,
  type Undo,
  type Workflow,
} from "./types";

/** A step that is still streaming. */
export interface Streaming {
  messageId: string;
  stepId: string;
  text: string;
  calls: { toolCallId: string; toolName: string; arguments: string }[];
}

/** A move of HEAD; `turns` is how many went out of sight or came back, null where it is not known. */
export interface Move {
  cause: HeadCause;
  by: string;
  eventSeq: number;
  turns: number | null;
}

export interface SessionState {
  /** A snapshot has come; until then everything below is empty. */
  ready: boolean;
  name: string;
  archived: boolean;
  deleted: boolean;
  agent: AgentState;
  steps: ReadonlyMap<string, Step>;
  headId: string;
  workflow: Workflow;
  /** The newest step whose workflow has not arrived; null when `workflow` is HEAD's. */
  workflowBehind: string | null;
  canRedo: boolean;
  redoDepth: number;
  /** The HEAD that Redo would go to; null where there is nothing to redo. */
  redoId: string | null;
  branches: readonly Branch[];
  /** Where older steps of the visible path go on; null when all are here. */
  olderCursor: string | null;
  /** What came before the known part of the visible path was removed for good. */
  purged: boolean;
  streaming: Streaming | null;
  /** Rises when somebody has changed who may do what. */
  sharing: number;
  /** The calls that wait for a person. */
  waitingFor: readonly Approval[];
  /** Undos that are under way or have left something, and those that this page has seen end. */
  undos: ReadonlyMap<string, Undo>;
  /** What a plan's look at the world has found, by plan. */
  checks: ReadonlyMap<string, Undo>;
  /** Where effects stand that is not as the visible path has it. */
  outOfStep: ReadonlyMap<string, Standing>;
  /** What was told of effects by itself: held back, sent, taken back, no longer in doubt. */
  told: ReadonlyMap<string, EffectTold>;
  /** What a fork was made for, until a turn of its own is complete. */
  pending: PendingAction | null;
  eventSeq: number;
  streamEpoch: string | null;
  /** The newest move of HEAD, for a line that says who did what. */
  lastMove: Move | null;
}

/** Plans whose checks are kept. */
const PLANS_KEPT = 4;
const NONE: readonly Approval[] = [];

export const INITIAL: SessionState = {
  ready: false,
  name: "",
  archived: false,
  deleted: false,
  agent: "AVAILABLE",
  steps: new Map(),
  headId: ROOT_STEP,
  workflow: {},
  workflowBehind: null,
  canRedo: false,
  redoDepth: 0,
  redoId: null,
  branches: [],
  olderCursor: null,
  purged: false,
  streaming: null,
  sharing: 0,
  waitingFor: NONE,
  undos: new Map(),
  checks: new Map(),
  outOfStep: new Map(),
  told: new Map(),
  pending: null,
  eventSeq: 0,
  streamEpoch: null,
  lastMove: null,
};

/** What comes from REST rather than from the socket. */
export type LocalAction =
  | { type: "steps"; steps: Step[]; cursor: string | null }
  | { type: "purged" }
  | { type: "otherSteps"; steps: Step[] }
  | { type: "branches"; branches: Branch[] }
  | { type: "workflow"; stepId: string; workflow: Workflow };

export function reduce(state: SessionState, frame: ServerFrame | LocalAction): SessionState {
  switch (frame.type) {
    case "WsServerSnapshotEvent":
      return fromSnapshot(state, frame);
    case "WsServerStepEvent":
      return seen(state, frame.eventSeq) ? state : withStep(advance(state, frame.eventSeq), frame.step);
    case "WsServerStatusEvent": {
      // UNAVAILABLE and its end are the server's view of the moment: not stored, not numbered.
      const eventSeq = frame.eventSeq ?? null;
      if (eventSeq !== null && seen(state, eventSeq)) return state;
      const next = eventSeq === null ? state : advance(state, eventSeq);
      const streaming = frame.state === "AVAILABLE" ? null : state.streaming;
      return { ...next, agent: frame.state, streaming, waitingFor: frame.waitingFor };
    }
    case "WsServerApprovalEvent":
      return seen(state, frame.eventSeq)
        ? state
        : withApproval(advance(state, frame.eventSeq), frame.approval);
    case "WsServerUndoEvent": {
      const eventSeq = frame.eventSeq ?? null;
      if (eventSeq !== null && seen(state, eventSeq)) return state;
      return withUndo(eventSeq === null ? state : advance(state, eventSeq), frame);
    }
    case "WsServerEffectEvent":
      if (seen(state, frame.eventSeq)) return state;
      return {
        ...advance(state, frame.eventSeq),
        told: new Map(state.told).set(frame.effect.effectId, frame.effect),
      };
    case "WsServerHeadChangeEvent": {
      if (seen(state, frame.eventSeq)) return state;
      return {
        ...advance(state, frame.eventSeq),
        headId: frame.headId,
        workflow: shareWorkflow(state.workflow, frame.workflowContent ?? {}),
        workflowBehind: null,
        canRedo: frame.canRedo,
        redoDepth: frame.redoDepth,
        redoId: frame.redoId,
        streaming: null,
        outOfStep: standings(frame.effectsOutOfStep),
        lastMove: {
          cause: frame.cause,
          by: frame.by,
          eventSeq: frame.eventSeq,
          turns:
            frame.cause === "redo"
              ? turnsBetween(state.steps, frame.headId, state.headId)
              : turnsBetween(state.steps, state.headId, frame.headId),
        },
      };
    }
    case "WsServerSessionEvent": {
      if (seen(state, frame.eventSeq)) return state;
      const next = advance(state, frame.eventSeq);
      if (frame.change === "name") return { ...next, name: frame.name ?? state.name };
      if (frame.change === "archived") return { ...next, archived: frame.archived ?? true };
      if (frame.change === "visibility" || frame.change === "grants") {
        return { ...next, sharing: state.sharing + 1 };
      }
      if (frame.change === "pendingAction") return withPending(next, frame.pending, frame.turnKey);
      return frame.change === "deleted" ? { ...next, deleted: true } : next;
    }
    case "WsServerDeltaEvent":
      return withDelta(state, frame);
    case "WsServerErrorEvent":
    case "WsServerAckEvent":
      return state;
    case "steps":
      return { ...state, steps: merged(state, frame.steps), olderCursor: frame.cursor };
    case "purged":
      return { ...state, olderCursor: null, purged: true };
    case "otherSteps":
      return { ...state, steps: merged(state, frame.steps) };
    case "branches":
      // The same lines again are no reason to draw every turn.
      return JSON.stringify(frame.branches) === JSON.stringify(state.branches)
        ? state
        : { ...state, branches: frame.branches };
    case "workflow":
      if (state.workflowBehind !== frame.stepId) return state;
      return { ...state, workflow: shareWorkflow(state.workflow, frame.workflow), workflowBehind: null };
    default:
      // A frame of a later server: not for this client.
      return state;
  }
}

function withPending(
  state: SessionState,
  now: "pending" | "claimed" | "done" | null | undefined,
  turnKey: string | null | undefined,
): SessionState {
  if (state.pending === null || now == null) return state;
  if (now === "done") return { ...state, pending: null };
  return { ...state, pending: { ...state.pending, state: now, turnKey: turnKey ?? state.pending.turnKey } };
}

function standings(told: EffectStanding[]): ReadonlyMap<string, Standing> {
  return new Map(told.map(({ effectId, standing }) => [effectId, standing]));
}

/** One that waits stands among those that do; one that is decided is gone from them. */
function withApproval(state: SessionState, approval: Approval): SessionState {
  const others = state.waitingFor.filter((one) => one.toolCallId !== approval.toolCallId);
  return {
    ...state,
    waitingFor: approval.status === "waiting" ? [...others, approval] : others,
  };
}

/** Each event has the whole of it; the newest counts. */
function withUndo(state: SessionState, undo: Undo): SessionState {
  const id = undo.undoId ?? undo.planId;
  const held = undo.undoId === null ? state.checks : state.undos;
  if ((held.get(id)?.undoRevision ?? -1) >= undo.undoRevision) return state;
  const next = new Map(held).set(id, undo);
  if (undo.undoId !== null) return { ...state, undos: next };
  return { ...state, checks: new Map([...next].slice(-PLANS_KEPT)) };
}

function merged(state: SessionState, steps: Step[]): ReadonlyMap<string, Step> {
  return new Map([...steps.map((step) => [step.id, step] as const), ...state.steps]);
}

function seen(state: SessionState, eventSeq: number): boolean {
  return eventSeq <= state.eventSeq;
}

function advance(state: SessionState, eventSeq: number): SessionState {
  return { ...state, eventSeq };
}

function fromSnapshot(state: SessionState, frame: SnapshotEvent): SessionState {
  const sameLine = state.ready && state.streamEpoch === frame.streamEpoch;
  // What a fork was begun with is inherited, and stays inherited.
  const keeps = sameLine || !state.ready;
  return {
    ready: true,
    name: frame.name,
    archived: frame.archived,
    deleted: false,
    agent: frame.state,
    // Off the visible path, steps known before stay useful (they label redo and branches).
    steps: new Map([...(keeps ? state.steps : []), ...frame.steps.map((s) => [s.id, s] as const)]),
    headId: frame.headId,
    workflow: shareWorkflow(state.workflow, frame.workflowContent ?? {}),
    workflowBehind: null,
    canRedo: frame.canRedo,
    redoDepth: frame.redoDepth,
    redoId: frame.redoId,
    branches: sameLine ? state.branches : [],
    olderCursor: frame.stepsCursor,
    purged: false,
    streaming: frame.partial ? { ...frame.partial, calls: [] } : null,
    // While nobody was listening, it may have changed.
    sharing: state.ready ? state.sharing + 1 : state.sharing,
    waitingFor: frame.waitingFor,
    undos: new Map(frame.undos.flatMap((undo) => (undo.undoId ? [[undo.undoId, undo]] : []))),
    checks: new Map(),
    outOfStep: standings(frame.effectsOutOfStep),
    told: new Map((frame.held ?? []).map((effect) => [effect.effectId, effect])),
    pending: frame.pendingAction,
    eventSeq: frame.eventSeq,
    streamEpoch: frame.streamEpoch,
    lastMove: null,
  };
}

/** A new step's parent is HEAD and HEAD moves to it; the same (messageId, stepId) replaces itself. */
function withStep(state: SessionState, step: Step): SessionState {
  const steps = new Map(state.steps);
  const earlier = state.steps.has(step.id)
    ? undefined
    : [...state.steps.values()].findLast(
        (known) => known.messageId === step.messageId && known.stepId === step.stepId,
      );
  if (earlier) steps.delete(earlier.id);
  steps.set(step.id, step);
  const next: SessionState = { ...state, steps, headId: step.id };
  // What was streaming is now this step, or belongs to a turn that has ended.
  if (state.streaming && (state.streaming.messageId !== step.messageId || step.role === "agent")) {
    next.streaming = null;
  }
  if (step.role === "user") {
    next.canRedo = false;
    next.redoDepth = 0;
    next.redoId = null;
    next.lastMove = null;
  }
  if (step.role === "agent" && step.afterHash !== step.beforeHash) {
    next.workflowBehind = step.id;
  } else if (state.workflowBehind !== null) {
    // Same content, but it now belongs to a newer step.
    next.workflowBehind = step.id;
  }
  return next;
}

function withDelta(state: SessionState, delta: DeltaEvent): SessionState {
  // A delta of a step that is finished came late.
  if (delta.after < state.eventSeq && state.steps.has(delta.stepId)) return state;
  const current: Streaming =
    state.streaming?.stepId === delta.stepId
      ? state.streaming
      : { messageId: delta.messageId, stepId: delta.stepId, text: "", calls: [] };
  const streaming = { ...current };
  if (delta.text != null) streaming.text = splice(current.text, delta.offset, delta.text);
  if (delta.toolCall) {
    const call = delta.toolCall;
    const known = current.calls.some((c) => c.toolCallId === call.toolCallId);
    streaming.calls = known
      ? current.calls.map((c) =>
          c.toolCallId === call.toolCallId
            ? {
                ...c,
                toolName: call.toolName || c.toolName,
                arguments: splice(c.arguments, delta.offset, call.arguments),
              }
            : c,
        )
      : [...current.calls, call];
  }
  return { ...state, streaming };
}

/** Puts a piece at its offset; after a gap (joined in mid-stream) it simply follows. */
function splice(text: string, offset: number, piece: string): string {
  return text.slice(0, offset) + piece;
}
