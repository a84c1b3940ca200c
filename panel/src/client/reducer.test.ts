import { describe, expect, it } from "vitest";

import { redoable, turnsOf, visiblePath } from "./paths";
import { INITIAL, reduce, type SessionState } from "./reducer";
import { seedOf } from "./seed";
import type { ServerFrame, SnapshotEvent, Step, Workflow } from "./types";

const EMPTY: Workflow = { operators: [] };

function workflow(...ids: string[]): Workflow {
  return { operators: ids.map((operatorID) => ({ operatorID, operatorType: "Filter" })) };
}

/** A frame with only those members that matter here. */
function frame(members: { type: ServerFrame["type"]; [member: string]: unknown }): ServerFrame {
  return members as unknown as ServerFrame;
}

function snapshot(extra: Partial<SnapshotEvent> = {}): ServerFrame {
  return frame({
    type: "WsServerSnapshotEvent",
    state: "AVAILABLE",
    steps: [],
    headId: "step-initial",
    workflowContent: EMPTY,
    canRedo: false,
    redoDepth: 0,
    redoId: null,
    archived: false,
    eventSeq: 0,
    streamEpoch: "e1",
    stepsCursor: null,
    partial: null,
    waitingFor: [],
    undos: [],
    effectsOutOfStep: [],
    name: "s",
    ...extra,
  });
}

function step(id: string, parentId: string, extra: Partial<Step> = {}): Step {
  return {
    id,
    parentId,
    messageId: "t1",
    stepId: 0,
    timestamp: 0,
    role: "user",
    content: id,
    isBegin: true,
    isEnd: true,
    kind: "prompt",
    beforeHash: "a",
    afterHash: "a",
    branchId: "b1",
    endReason: null,
    effects: [],
    by: "local",
    ...extra,
  };
}

const agent = { role: "agent", stepId: 1 } as const;

function play(frames: ServerFrame[], from: SessionState = INITIAL): SessionState {
  return frames.reduce<SessionState>(reduce, from);
}

const TURN: ServerFrame[] = [
  frame({ type: "WsServerStatusEvent", state: "GENERATING", eventSeq: 1 }),
  { type: "WsServerStepEvent", step: step("p1", "step-initial"), eventSeq: 2 },
  { type: "WsServerStepEvent", step: step("a1", "p1", { ...agent, afterHash: "b" }), eventSeq: 3 },
  frame({ type: "WsServerStatusEvent", state: "AVAILABLE", eventSeq: 4 }),
];

const REVERT = frame({
  type: "WsServerHeadChangeEvent",
  headId: "step-initial",
  workflowContent: EMPTY,
  canRedo: true,
  redoDepth: 1,
  redoId: "a1",
  cause: "revert",
  effectsOutOfStep: [],
  eventSeq: 5,
});

describe("reduce", () => {
  it("moves HEAD to each new step and shows the path to it", () => {
    const state = play([snapshot(), ...TURN]);
    expect(state.headId).toBe("a1");
    expect(visiblePath(state.steps, state.headId).map((one) => one.id)).toEqual(["p1", "a1"]);
    expect(state.agent).toBe("AVAILABLE");
  });

  it("ignores a frame that it has seen, so that a replay may overlap", () => {
    const state = play([snapshot(), ...TURN, REVERT]);
    expect(play([...TURN, REVERT], state)).toEqual(state);
  });

  it("keeps one step for a (messageId, stepId) that comes twice", () => {
    const again: ServerFrame = {
      type: "WsServerStepEvent",
      step: step("a1-again", "p1", { ...agent, content: "newer" }),
      eventSeq: 5,
    };
    const state = play([snapshot(), ...TURN, again]);
    expect([...state.steps.values()].map((one) => one.content)).toEqual(["p1", "newer"]);
  });

  it("waits for the workflow of a step that changed it, and takes no other step's", () => {
    const behind = play([snapshot(), ...TURN]);
    expect(behind.workflowBehind).toBe("a1");
    const other = reduce(behind, { type: "workflow", stepId: "p1", workflow: workflow("x") });
    expect(other.workflow).toEqual(EMPTY);
    const arrived = reduce(behind, { type: "workflow", stepId: "a1", workflow: workflow("op1") });
    expect(arrived.workflow).toEqual(workflow("op1"));
    expect(arrived.workflowBehind).toBeNull();
  });

  it("replaces streamed text by its offset, and all of it by the finished step", () => {
    const delta = (offset: number, text: string): ServerFrame => ({
      type: "WsServerDeltaEvent",
      messageId: "t1",
      stepId: "a1",
      after: 2,
      offset,
      text,
    });
    const streaming = play([snapshot(), ...TURN.slice(0, 2), delta(0, "Hello wor"), delta(6, "you")]);
    expect(streaming.streaming?.text).toBe("Hello you");
    expect(play(TURN.slice(2), streaming).streaming).toBeNull();
  });

  it("knows after a revert which prompt Redo would bring back", () => {
    const state = play([snapshot(), ...TURN, REVERT]);
    expect(state.canRedo).toBe(true);
    expect(redoable(state)).toMatchObject({ turns: 1, prompt: { content: "p1" } });
    expect(turnsOf(visiblePath(state.steps, state.headId))).toEqual([]);
  });

  it("counts the turns that a revert took out of sight", () => {
    expect(play([snapshot(), ...TURN, REVERT]).lastMove).toMatchObject({ cause: "revert", turns: 1 });
  });

  it("knows after a reload where Redo would go, and what lies there once it has been fetched", () => {
    const fresh = play([snapshot({ canRedo: true, redoDepth: 1, redoId: "a1" })]);
    expect(redoable(fresh)).toBeNull();
    const steps = [step("p1", "step-initial"), step("a1", "p1", { ...agent })];
    expect(redoable(reduce(fresh, { type: "otherSteps", steps }))?.prompt?.content).toBe("p1");
  });

  it("keeps the operators that a new workflow does not change as the same objects", () => {
    const before = play([snapshot({ workflowContent: workflow("op1", "op2") })]);
    const next = { type: "workflow", stepId: "a1", workflow: workflow("op1", "op3") } as const;
    const after = reduce({ ...before, workflowBehind: "a1" }, next);
    expect(after.workflow.operators?.[0]).toBe(before.workflow.operators?.[0]);
    expect(after.workflow.operators?.map((one) => one.operatorID)).toEqual(["op1", "op3"]);
  });

  it("has nothing to redo after a new prompt", () => {
    const prompt = step("p2", "step-initial", { messageId: "t2" });
    const state = play([
      snapshot(),
      ...TURN,
      REVERT,
      { type: "WsServerStepEvent", step: prompt, eventSeq: 6 },
    ]);
    expect(state.canRedo).toBe(false);
    expect(redoable(state)).toBeNull();
  });

  it("is deleted by a deletion, and by nothing else that is told of the session", () => {
    const told = { type: "WsServerSessionEvent" } as const;
    const settings = { maxSteps: 3 } as const;
    const changed = play([
      snapshot(),
      { ...told, change: "model", model: "offline", eventSeq: 1 },
      frame({ ...told, change: "settings", settings, eventSeq: 2 }),
    ]);
    expect([changed.deleted, changed.eventSeq]).toEqual([false, 2]);
    expect(reduce(changed, { ...told, change: "deleted", eventSeq: 3 }).deleted).toBe(true);
  });

  it("forgets what it knew when a snapshot comes from another stream", () => {
    const state = play([
      snapshot(),
      ...TURN,
      snapshot({ streamEpoch: "e2", eventSeq: 1, reset: true }),
    ]);
    expect(state.steps.size).toBe(0);
    expect(state.eventSeq).toBe(1);
  });
});

describe("a fork", () => {
  const pendingAction = { mode: "edit", draft: "again", turnKey: "k", state: "pending" } as const;
  const change = (eventSeq: number, members: object) =>
    frame({ type: "WsServerSessionEvent", eventSeq, ...members });

  it("is shown by what its parent's page held until its own steps come, each once", () => {
    const path = [step("a", "step-initial"), step("b", "a", agent), step("c", "b")];
    const steps = new Map(path.map((one) => [one.id, one]));
    const seed = seedOf(steps, "b", "Fork");
    expect([...seed.steps.keys()]).toEqual(["a", "b"]);
    const before: SessionState = { ...INITIAL, ...seed };
    const turns = turnsOf(visiblePath(before.steps, before.headId));
    expect(turns).toHaveLength(1);
    const after = reduce(
      before,
      snapshot({ steps: path.slice(0, 2).map((one) => ({ ...one })), headId: "b" }),
    );
    expect(turnsOf(visiblePath(after.steps, after.headId)).map(({ id }) => id)).toEqual(["t1"]);
    expect(after.steps.size).toBe(2);
  });

  it("keeps its draft through claims until it is done", () => {
    let state = reduce(INITIAL, snapshot({ pendingAction }));
    state = reduce(state, change(1, { change: "pendingAction", pending: "claimed" }));
    expect(state.pending).toEqual({ ...pendingAction, state: "claimed" });
    state = reduce(state, change(2, { change: "pendingAction", pending: "done" }));
    expect(state.pending).toBeNull();
  });

  it("counts changes of rights, those that may have been missed too", () => {
    let state = reduce(INITIAL, snapshot());
    expect(state.sharing).toBe(0);
    state = reduce(state, change(1, { change: "grants" }));
    state = reduce(state, change(2, { change: "visibility", visibility: "private" }));
    expect(state.sharing).toBe(2);
    expect(reduce(state, snapshot({ eventSeq: 3 })).sharing).toBe(3);
  });

  it("ends where its history was removed, until a snapshot says otherwise", () => {
    const state = reduce(INITIAL, snapshot({ stepsCursor: "x" }));
    const ended = reduce(state, { type: "purged" });
    expect(ended).toMatchObject({ purged: true, olderCursor: null });
    expect(reduce(ended, snapshot()).purged).toBe(false);
  });
});
