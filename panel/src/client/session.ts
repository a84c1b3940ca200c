// One open session as the page holds it: the connection, the state that frames make, and a person's
// edits on their way. Without React, so that scripts and tests can use it too.

import { Connection, newRequestId, type ConnectionStatus, type Credentials } from "./connection";
import { OwnEdits, type Move } from "./ownEdits";
import { isWhole, turnsBetween, visiblePath } from "./paths";
import { INITIAL, reduce, type LocalAction, type SessionState } from "./reducer";
import { uproot, type Seed } from "./seed";
import { getBranches, getSteps, patchSession, Problem, workflowAt } from "./rest";
import {
  type AckEvent,
  type Approval,
  type Command,
  type Edit,
  type JsonObject,
  type ServerFrame,
  type Workflow,
} from "./types";
import { firstWords } from "./words";

/** The server's names for a session that was given none, and for a fork of one. */
const UNNAMED: ReadonlySet<string> = new Set(["Untitled", "Untitled (branch)"]);

export interface View {
  state: SessionState;
  connection: ConnectionStatus;
  /** The workflow at HEAD with this person's edits on their way already made. */
  workflow: Workflow;
  /** A revert, redo or checkout of this page is not answered, or not seen, yet. */
  moving: boolean;
  canUndoEdit: boolean;
  canRedoEdit: boolean;
}

export class Session {
  private state: SessionState;
  private status: ConnectionStatus = { phase: "connecting" };
  /** The revert, redo or checkout of this page that waits for its answer. */
  private moving: Promise<void> | null = null;
  /** The event that the newest of them made: until it has come, the page shows what was before. */
  private movedAt = 0;
  private leaving = false;
  /** The newest acknowledgement: it may come before the frames that it speaks of. */
  private acked: { headId: string; eventSeq: number } = { headId: "", eventSeq: -1 };
  private readonly edits = new OwnEdits({
    send: (command) => this.send(command),
    head: () => this.head(),
    base: () => this.state,
    changed: () => this.publish(),
    problem: (problem) => this.onProblem(problem),
  });
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
    /** What is known of it before the server has told anything. */
    seed: Seed | null = null,
    credentials: Credentials | null = null,
  ) {
    this.state = { ...INITIAL, ...seed };
    this.connection = new Connection(
      socketUrl,
      {
        frame: (frame) => this.receive(frame),
        status: (status) => {
          this.status = status;
          this.publish();
        },
        position: () => this.state,
      },
      WebSocket,
      credentials,
    );
    this.view = this.makeView();
  }

  // -- life ---------------------------------------------------------------------------------

  open(): void {
    this.leaving = false;
    this.connection.open();
  }

  /** Sends what waits for its window to end; for a page that is being left. */
  flush(): void {
    void this.edits.flush().catch((problem: Problem) => this.onProblem(problem));
  }

  /** Leaves the session, once this person's edits are the server's. */
  close(): void {
    this.leaving = true;
    void this.edits.settle()
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

  /**
   * Sends a message, with files that were uploaded. `turnKey` is that of the pending action, where it
   * is its message: a retry of it is the same turn. Where this page moves HEAD just now, it follows that
   * move, and is not sent when the move is refused.
   */
  async prompt(
    content: string,
    { files = [], turnKey }: { files?: string[]; turnKey?: string | undefined } = {},
  ): Promise<void> {
    await this.moving?.catch(() => {
      throw new Problem("Not sent: the change that it was to follow was refused.", "not_sent", 0);
    });
    await this.edits.settle();
    const { name, headId, steps } = this.state;
    const path = visiblePath(steps, headId);
    const isFirst = isWhole(path, headId) && path.every((step) => step.kind === "edit");
    const known = new Set([...steps.values()].map((step) => step.messageId));
    for (let key = turnKey ?? newRequestId(); ; ) {
      const { messageId } = await this.send({
        type: "WsClientPromptCommand",
        content,
        messageSource: "chat",
        requestId: newRequestId(),
        turnKey: key,
        ...(files.length > 0 ? { attachmentIds: files } : {}),
      });
      // An earlier try that came to a bad end has this key; the next one follows from it.
      if (messageId == null || !known.has(messageId)) break;
      key = `${turnKey ?? key} after ${messageId}`;
      known.delete(messageId);
    }
    // A session that nobody has named is called by what it was first asked.
    if (isFirst && UNNAMED.has(name)) {
      await patchSession(this.id, { name: firstWords(content) }).catch(this.onProblem);
    }
  }

  /** Decides about a call that waits, as it was shown; `input` are other arguments to make it with. */
  async approve(approval: Approval, decision: "approve" | "deny", input?: JsonObject): Promise<void> {
    await this.send({
      type: "WsClientApproveCommand",
      toolCallId: approval.toolCallId,
      argsHash: approval.argsHash,
      decision,
      requestId: newRequestId(),
      ...(input === undefined ? {} : { input }),
    });
  }

  async stop(): Promise<void> {
    await this.send({ type: "WsClientStopCommand" });
  }

  /** To before a turn or a step; `agreed` is what a preview of it has told. */
  revert(
    target: { messageId: string } | { stepId: string },
    agreed: {
      expectedHeadId?: string;
      keepEdits?: boolean;
      confirm?: boolean;
      effects?: "undo";
      planId?: string;
    } = {},
  ): Promise<void> {
    return this.move({ type: "WsClientRevertCommand", ...target, ...agreed });
  }

  redo(options: { all?: boolean } = {}): Promise<void> {
    return this.move({ type: "WsClientRedoCommand", ...(options.all ? { all: true } : {}) });
  }

  checkout(stepId: string): Promise<void> {
    return this.move({ type: "WsClientCheckoutCommand", stepId });
  }

  /** Moves HEAD, and only from where the person saw it. A second click joins the first. */
  private move(command: Command): Promise<void> {
    this.moving ??= this.carryOut(command).finally(() => {
      this.moving = null;
      this.publish();
    });
    this.publish();
    return this.moving;
  }

  private async carryOut(command: Command): Promise<void> {
    await this.edits.settle();
    const ack = await this.send({ expectedHeadId: this.head(), ...command });
    this.movedAt = ack.eventSeq;
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
  edit(edits: Edit[], inverse?: Edit[]): Promise<void> {
    return this.edits.edit(edits, inverse);
  }

  moveThings(moves: Move[]): void {
    this.edits.move(moves);
  }

  undoEdit(): Promise<void> {
    return this.edits.undo();
  }

  redoEdit(): Promise<void> {
    return this.edits.redo();
  }

  // -- frames and what they lack ------------------------------------------------------------

  private receive(frame: ServerFrame): void {
    if (frame.type === "WsServerErrorEvent") {
      // The close code that follows says it, and for good.
      if (frame.code === "session_not_found" || frame.code === "unauthenticated") return;
      this.onProblem(new Problem(frame.error, frame.code, 0, frame.data));
      return;
    }
    this.apply(frame);
    if (frame.type === "WsServerSnapshotEvent") {
      uproot(this.id);
      this.movedAt = 0;
    }
    this.edits.dropArrived();
    if (
      frame.type === "WsServerSnapshotEvent" ||
      frame.type === "WsServerHeadChangeEvent" ||
      (frame.type === "WsServerStepEvent" && frame.step.role === "user")
    ) {
      this.refreshBranches();
    }
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
    try {
      const page = await getSteps(this.id, { before: this.state.olderCursor });
      this.apply({ type: "steps", ...page });
    } catch (error) {
      if (!isPurged(error)) throw error;
      this.apply({ type: "purged" });
    }
    this.publish();
  }

  /** HEAD is on a line that this client has not seen: ask for it. */
  private fetchPath(): void {
    const { headId, steps, ready, olderCursor } = this.state;
    if (!ready || this.asked.path === headId) return;
    const path = visiblePath(steps, headId);
    if (isWhole(path, headId) || (path.length > 0 && olderCursor !== null)) return;
    this.asked.path = headId;
    void getSteps(this.id).then(
      (page) => {
        this.apply({ type: "steps", ...page });
        this.publish();
      },
      (problem: Problem) => {
        if (!isPurged(problem)) return this.onProblem(problem);
        this.apply({ type: "purged" });
        this.publish();
      },
    );
  }

  /** After a reload the snapshot says where Redo would go, and not what lies on the way. */
  private fetchRedo(): void {
    const { headId, redoId, steps } = this.state;
    if (redoId === null || this.asked.redo === redoId) return;
    if (turnsBetween(steps, redoId, headId) !== null) return;
    this.asked.redo = redoId;
    void getSteps(this.id, { at: redoId }).then(
      (page) => {
        this.apply({ type: "otherSteps", steps: page.steps });
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

  private makeView(): View {
    return {
      state: this.state,
      connection: this.status,
      workflow: this.edits.workflow(),
      moving: this.moving !== null || this.state.eventSeq < this.movedAt,
      canUndoEdit: this.edits.canUndo,
      canRedoEdit: this.edits.canRedo,
    };
  }

  private publish(): void {
    this.view = this.makeView();
    for (const listener of this.listeners) listener();
  }
}

/** A part of the history that was removed for good: it is said where it was, and is no failure. */
function isPurged(error: unknown): boolean {
  return error instanceof Problem && error.code === "history_purged";
}

/** The address of a session's socket, beside the page's own. */
export function socketUrl(id: string, at: Location = location): string {
  const scheme = at.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${at.host}/sessions/${encodeURIComponent(id)}/ws`;
}
