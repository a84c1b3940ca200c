// A person's own edits on their way to the server: shown at once, sent one after the other, taken
// back by their inverse.

import { applyEdits, invert } from "./edits";
import type { Problem } from "./rest";
import type { AckEvent, Command, Edit, Point, Workflow } from "./types";

/** Gestures of moving within this time, in milliseconds, become one edit. */
export const MOVE_WINDOW = 2_000;

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

/** What the edits need of the session that they belong to. */
interface Host {
  send(command: Command): Promise<AckEvent>;
  /** HEAD, as far as any answer has told. */
  head(): string;
  /** The workflow that the server is known to have, and the event it came with. */
  base(): { workflow: Workflow; eventSeq: number };
  changed(): void;
  problem(problem: Problem): void;
}

export class OwnEdits {
  private pending: Pending[] = [];
  private moves = new Map<string, Move>();
  private moveTimer: ReturnType<typeof setTimeout> | null = null;
  private queue: Promise<unknown> = Promise.resolve();
  private done: OwnEdit[] = [];
  private takenBack: OwnEdit[] = [];
  private shown: { base: Workflow; of: Edit[]; workflow: Workflow } | null = null;

  constructor(private readonly host: Host) {}

  get canUndo(): boolean {
    return this.done.length > 0 || this.moves.size > 0;
  }

  get canRedo(): boolean {
    return this.takenBack.length > 0;
  }

  /** The workflow as this person sees it; the same object until something changes. */
  workflow(): Workflow {
    const base = this.host.base().workflow;
    const moving = [...this.moves.values()].map((move) => moveEdit(move, move.to));
    const edits = [...this.pending.flatMap((one) => one.edits), ...moving];
    if (edits.length === 0) return base;
    const known = this.shown;
    if (known?.base === base && sameEdits(known.of, edits)) return known.workflow;
    const workflow = applyEdits(base, edits);
    this.shown = { base, of: edits, workflow };
    return workflow;
  }

  /** Shows the edits at once and sends them; throws the server's refusal after taking them off. */
  async edit(edits: Edit[], inverse?: Edit[]): Promise<void> {
    await this.flush();
    await this.own(edits, inverse ?? null);
  }

  /** Moves things; gestures within `MOVE_WINDOW` of the first are sent together. */
  move(moves: Move[]): void {
    for (const move of moves) {
      const key = `${move.kind} ${move.id}`;
      const first = this.moves.get(key);
      this.moves.set(key, first ? { ...first, to: move.to } : move);
    }
    this.moveTimer ??= setTimeout(
      () => void this.flush().catch((problem: Problem) => this.host.problem(problem)),
      MOVE_WINDOW,
    );
    this.host.changed();
  }

  /** Sends the inverse of this person's newest edit, on what that edit left. */
  async undo(): Promise<void> {
    await this.settle();
    const own = this.done.pop();
    if (!own) return;
    await this.send(own.inverse, own.head, (head) => {
      this.takenBack.push({ ...own, head });
    });
  }

  async redo(): Promise<void> {
    await this.settle();
    const own = this.takenBack.pop();
    if (!own) return;
    await this.send(own.edits, own.head, (head) => this.done.push({ ...own, head }));
  }

  /** Sends what waits for its window to end. */
  flush(): Promise<void> {
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

  /** Waits until this person's edits are the server's. */
  async settle(): Promise<void> {
    await this.flush();
    await this.queue;
  }

  /** Forgets what the server's own state now contains. */
  dropArrived(): void {
    const { eventSeq } = this.host.base();
    this.pending = this.pending.filter((one) => one.doneAt === null || one.doneAt > eventSeq);
  }

  private own(edits: Edit[], inverse: Edit[] | null): Promise<void> {
    const back = inverse ?? invert(this.workflow(), edits);
    return this.send(edits, null, (head) => {
      if (back) this.done.push({ edits, inverse: back, head });
      this.takenBack = [];
    });
  }

  /** One edit at a time, each made on the HEAD that the one before left (or on `base`). */
  private send(edits: Edit[], base: string | null, then: (head: string) => void): Promise<void> {
    const pending: Pending = { edits, doneAt: null };
    this.pending.push(pending);
    this.host.changed();
    const run = this.queue.then(async () => {
      try {
        const ack = await this.host.send({
          type: "WsClientEditWorkflowCommand",
          baseHeadId: base ?? this.host.head(),
          edits,
        });
        pending.doneAt = ack.eventSeq;
        then(ack.headId);
      } catch (problem) {
        this.pending = this.pending.filter((one) => one !== pending);
        throw problem;
      } finally {
        this.dropArrived();
        this.host.changed();
      }
    });
    this.queue = run.catch(() => undefined);
    return run;
  }
}

function moveEdit(move: Move, position: Point): Edit {
  return move.kind === "operator"
    ? { op: "moveOperator", operatorID: move.id, position }
    : { op: "moveComment", commentBoxID: move.id, position };
}

/** Moves are made anew each time, all other edits are the objects that were given. */
function sameEdits(a: Edit[], b: Edit[]): boolean {
  return (
    a.length === b.length &&
    a.every((edit, index) => {
      const other = b[index];
      if (edit === other) return true;
      return (
        (edit.op === "moveOperator" || edit.op === "moveComment") &&
        JSON.stringify(edit) === JSON.stringify(other)
      );
    })
  );
}
