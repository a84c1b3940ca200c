// One open session as the page holds it: the connection, the state that frames make, and a person's
// edits on their way. Without React, so that scripts and tests can use it too.

import { Connection, newRequestId, type ConnectionStatus } from "./connection";
import { applyEdits, invert } from "./edits";
import { isWhole, visiblePath } from "./paths";
import { INITIAL, reduce, type LocalAction, type SessionState } from "./reducer";
import { getBranches, getNewestSteps, getSession, getSteps, patchSession, Problem, workflowAt } from "./rest";
import {
  ROOT_STEP,
  type AckEvent,
  type Command,
  type Edit,
  type Point,
  type ServerFrame,
  type Workflow,
} from "./types";
import { firstWords } from "./words";

/** Gestures of moving within this time, in milliseconds, become one edit. */
export const MOVE_WINDOW = 2_000;

/** The server's name for a session that was given none. */
const UNNAMED = "Untitled";

export interface View {
  state: SessionState;
  connection: ConnectionStatus;
  /** The workflow at HEAD with this person's edits on their way already made. */
  workflow: Workflow;
  /** A revert, redo or checkout of this page waits for its answer. */
  moving: boolean;
  canUndoEdit: boolean;
  canRedoEdit: boolean;
}

/** A move of an operator or a comment box; `from` is where it was shown. */
export interface Move {
  kind: "operator" | "comment";
  id: string;
  from: Point;
  to: Point;
}

interface Pending {
  edits: Edit[];
  /** The event with which the server's own state contains it. */
  doneAt: number | null;
}

/** One of a person's own edits, and what takes it back; `head` is HEAD after it. */
interface OwnEdit {
  edits: Edit[];
  inverse: Edit[];
  head: string;
}

export class Session {
  private state: SessionState = INITIAL;
  private status: ConnectionStatus = { phase: "connecting" };
  private moving = false;
  private leaving = false;
  private pending: Pending[] = [];
  private moves = new Map<string, Move>();
  private moveTimer: ReturnType<typeof setTimeout> | null = null;
  private queue: Promise<unknown> = Promise.resolve();
  /** The newest acknowledgement: it may come before the frames that it speaks of. */
  private acked: { headId: string; eventSeq: number } = { headId: "", eventSeq: -1 };
  private done: OwnEdit[] = [];
  private takenBack: OwnEdit[] = [];
  private readonly listeners = new Set<() => void>();
  private readonly connection: Connection;
  private view: View;
  private asked: Record<"path" | "workflow" | "redo", string | null> = {
    path: null,
    workflow: null,
    redo: null,
  };
  private branchesTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    readonly id: string,
    socketUrl: string,
    /** Hears of failures that no command of the caller waits for. */
    private readonly onProblem: (problem: Problem) => void,
  ) {
    this.connection = new Connection(socketUrl, {
      frame: (frame) => this.receive(frame),
      status: (status) => {
        this.status = status;
        this.publish();
      },
      position: () => this.state,
    });
    this.view = this.makeView();
  }

  // -- life ---------------------------------------------------------------------------------

  open(): void {
    this.leaving = false;
    this.connection.open();
  }

  /** Sends what waits for its window to end; for a page that is being left. */
  flush(): void {
    void this.flushMoves().catch((problem: Problem) => this.onProblem(problem));
  }

  /** Leaves the session, once this person's edits are the server's. */
  close(): void {
    this.leaving = true;
    void this.settle()
      .catch((problem: Problem) => this.onProblem(problem))
      .then(() => {
        if (this.leaving) this.connection.close();
      });
    if (this.branchesTimer !== null) clearTimeout(this.branchesTimer);
  }

  retryNow(): void {
    this.connection.retryNow();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly getView = (): View => this.view;

  // -- commands -----------------------------------------------------------------------------

  async prompt(content: string): Promise<void> {
    const { name, headId } = this.state;
    await this.settle();
    const requestId = newRequestId();
    await this.send({
      type: "WsClientPromptCommand",
      content,
      messageSource: "chat",
      requestId,
      turnKey: requestId,
    });
    // A session that nobody has named is called by what it was first asked.
    if (name === UNNAMED && headId === ROOT_STEP) {
      await patchSession(this.id, { name: firstWords(content) }).catch(this.onProblem);
    }
  }

  async stop(): Promise<void> {
    await this.send({ type: "WsClientStopCommand" });
  }

  revert(messageId: string): Promise<void> {
    return this.move({ type: "WsClientRevertCommand", messageId });
  }

  redo(options: { all?: boolean } = {}): Promise<void> {
    return this.move({ type: "WsClientRedoCommand", ...(options.all ? { all: true } : {}) });
  }

  checkout(stepId: string): Promise<void> {
    return this.move({ type: "WsClientCheckoutCommand", stepId });
  }

  /** Moves HEAD, and only from where the person saw it. */
  private async move(command: Command): Promise<void> {
    // A second click joins the first.
    if (this.moving) return;
    this.moving = true;
    this.publish();
    try {
      await this.settle();
      await this.send({ ...command, expectedHeadId: this.head() });
    } finally {
      this.moving = false;
      this.publish();
    }
  }

  private async send(command: Command): Promise<AckEvent> {
    const ack = await this.connection.send(command);
    if (ack.eventSeq > this.acked.eventSeq) this.acked = ack;
    return ack;
  }

  /** HEAD, as far as any answer has told. */
  private head(): string {
    return this.acked.eventSeq > this.state.eventSeq ? this.acked.headId : this.state.headId;
  }

  // -- a person's own edits -----------------------------------------------------------------

  /** Shows the edits at once and sends them; throws the server's refusal after taking them off. */
  async edit(edits: Edit[], inverse?: Edit[]): Promise<void> {
    await this.flushMoves();
    await this.own(edits, inverse ?? null);
  }

  /** Moves things; gestures within `MOVE_WINDOW` of the first are sent together. */
  moveThings(moves: Move[]): void {
    for (const move of moves) {
      const key = `${move.kind} ${move.id}`;
      const first = this.moves.get(key);
      this.moves.set(key, first ? { ...first, to: move.to } : move);
    }
    this.moveTimer ??= setTimeout(
      () => void this.flushMoves().catch((problem: Problem) => this.onProblem(problem)),
      MOVE_WINDOW,
    );
    this.publish();
  }

  /** Sends the inverse of this person's newest edit, on what that edit left. */
  async undoEdit(): Promise<void> {
    await this.settle();
    const own = this.done.pop();
    if (!own) return;
    await this.sendEdits(own.inverse, own.head, (head) => {
      this.takenBack.push({ ...own, head });
    });
  }

  async redoEdit(): Promise<void> {
    await this.settle();
    const own = this.takenBack.pop();
    if (!own) return;
    await this.sendEdits(own.edits, own.head, (head) => this.done.push({ ...own, head }));
  }

  private flushMoves(): Promise<void> {
    if (this.moveTimer !== null) clearTimeout(this.moveTimer);
    this.moveTimer = null;
    if (this.moves.size === 0) return Promise.resolve();
    const moves = [...this.moves.values()];
    this.moves.clear();
    return this.own(
      moves.map((move) => moveEdit(move, move.to)),
      moves.map((move) => moveEdit(move, move.from)),
    );
  }

  private own(edits: Edit[], inverse: Edit[] | null): Promise<void> {
    const back = inverse ?? invert(this.workflow(), edits);
    return this.sendEdits(edits, null, (head) => {
      if (back) this.done.push({ edits, inverse: back, head });
      this.takenBack = [];
    });
  }

  /** One edit at a time, each made on the HEAD that the one before left (or on `base`). */
  private sendEdits(
    edits: Edit[],
    base: string | null,
    then: (head: string) => void,
  ): Promise<void> {
    const pending: Pending = { edits, doneAt: null };
    this.pending.push(pending);
    this.publish();
    const run = this.queue.then(async () => {
      try {
        const ack = await this.send({
          type: "WsClientEditWorkflowCommand",
          baseHeadId: base ?? this.head(),
          edits,
        });
        pending.doneAt = ack.eventSeq;
        then(ack.headId);
      } catch (problem) {
        this.pending = this.pending.filter((one) => one !== pending);
        throw problem;
      } finally {
        this.dropArrived();
        this.publish();
      }
    });
    this.queue = run.catch(() => undefined);
    return run;
  }

  /** Waits until this person's edits are the server's. */
  private async settle(): Promise<void> {
    await this.flushMoves();
    await this.queue;
  }

  private dropArrived(): void {
    this.pending = this.pending.filter(
      (one) => one.doneAt === null || one.doneAt > this.state.eventSeq,
    );
  }

  // -- frames and what they lack ------------------------------------------------------------

  private receive(frame: ServerFrame): void {
    if (frame.type === "WsServerErrorEvent") {
      // The close code that follows says it, and for good.
      if (frame.code === "session_not_found") return;
      this.onProblem(new Problem(frame.error, frame.code, 0, frame.data));
      return;
    }
    this.apply(frame);
    this.dropArrived();
    if (
      frame.type === "WsServerSnapshotEvent" ||
      frame.type === "WsServerHeadChangeEvent" ||
      (frame.type === "WsServerStepEvent" && frame.step.role === "user")
    ) {
      this.refreshBranches();
    }
    if (frame.type === "WsServerSnapshotEvent") this.fetchInfo();
    this.publish();
  }

  private apply(action: ServerFrame | LocalAction): void {
    this.state = reduce(this.state, action);
    this.fetchPath();
    this.fetchWorkflow();
    this.fetchRedo();
  }

  /** Older steps of the visible path. */
  async loadOlder(): Promise<void> {
    if (this.state.olderCursor === null) return;
    const page = await getSteps(this.id, this.state.olderCursor);
    this.apply({ type: "steps", ...page });
    this.publish();
  }

  /** HEAD is on a line that this client has not seen: ask for it. */
  private fetchPath(): void {
    const { headId, steps, ready, olderCursor } = this.state;
    if (!ready || this.asked.path === headId) return;
    const path = visiblePath(steps, headId);
    if (isWhole(path, headId) || (path.length > 0 && olderCursor !== null)) return;
    this.asked.path = headId;
    void getSteps(this.id, null).then(
      (page) => {
        this.apply({ type: "steps", ...page });
        this.publish();
      },
      (problem: Problem) => this.onProblem(problem),
    );
  }

  /** After a reload there is something to redo, and the snapshot does not say what. */
  private fetchRedo(): void {
    const { headId, canRedo, redoTrail } = this.state;
    if (!canRedo || redoTrail.length > 0 || this.asked.redo === headId) return;
    this.asked.redo = headId;
    void getNewestSteps(this.id).then(
      (steps) => {
        this.apply({ type: "otherSteps", steps });
        this.publish();
      },
      () => undefined, // the dock then does not name it
    );
  }

  /** A step of the agent changed the workflow: steps name it, this fetches it. */
  private fetchWorkflow(): void {
    const stepId = this.state.workflowBehind;
    if (stepId === null || this.asked.workflow === stepId) return;
    this.asked.workflow = stepId;
    void workflowAt(this.id, stepId).then(
      (workflow) => {
        this.apply({ type: "workflow", stepId, workflow });
        this.publish();
      },
      (problem: Problem) => this.onProblem(problem),
    );
  }

  /** Whether the session is archived is not in the snapshot. */
  private fetchInfo(): void {
    void getSession(this.id).then(
      ({ archived }) => {
        this.apply({ type: "archived", archived });
        this.publish();
      },
      (problem: Problem) => this.onProblem(problem),
    );
  }

  private refreshBranches(): void {
    if (this.branchesTimer !== null) clearTimeout(this.branchesTimer);
    this.branchesTimer = setTimeout(() => {
      void getBranches(this.id).then(
        (branches) => {
          this.apply({ type: "branches", branches });
          this.publish();
        },
        () => undefined, // the next move asks again
      );
    }, 150);
  }

  // -- the view -----------------------------------------------------------------------------

  private workflow(): Workflow {
    const moving = [...this.moves.values()].map((move) => moveEdit(move, move.to));
    const edits = [...this.pending.flatMap((one) => one.edits), ...moving];
    return edits.length ? applyEdits(this.state.workflow, edits) : this.state.workflow;
  }

  private makeView(): View {
    return {
      state: this.state,
      connection: this.status,
      workflow: this.workflow(),
      moving: this.moving,
      canUndoEdit: this.done.length > 0 || this.moves.size > 0,
      canRedoEdit: this.takenBack.length > 0,
    };
  }

  private publish(): void {
    this.view = this.makeView();
    for (const listener of this.listeners) listener();
  }
}

function moveEdit(move: Move, position: Point): Edit {
  return move.kind === "operator"
    ? { op: "moveOperator", operatorID: move.id, position }
    : { op: "moveComment", commentBoxID: move.id, position };
}

/** The address of a session's socket, beside the page's own. */
export function socketUrl(id: string, at: Location = location): string {
  const scheme = at.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${at.host}/sessions/${encodeURIComponent(id)}/ws`;
}
