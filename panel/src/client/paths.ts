// Views of the step tree: the visible path, its turns, and the places where lines part.

import { ROOT_STEP, type Branch, type Step } from "./types";

/** One user message and what the agent did to answer it, as far as the visible path shows it. */
export interface Turn {
  id: string;
  /** The person's own step; null when it lies before the loaded part of the path. */
  prompt: Step | null;
  steps: Step[];
}

/** The path from the root to HEAD, oldest first, as far back as it is known. */
export function visiblePath(steps: ReadonlyMap<string, Step>, headId: string): Step[] {
  const path: Step[] = [];
  for (let step = steps.get(headId); step; step = steps.get(step.parentId)) path.push(step);
  return path.reverse();
}

/** Whether the path is known back to the root. */
export function isWhole(path: readonly Step[], headId: string): boolean {
  return path.length === 0 ? headId === ROOT_STEP : path[0]?.parentId === ROOT_STEP;
}

/** The turns of a path; one that was the same in `before` is the same object. */
export function turnsOf(path: readonly Step[], before: readonly Turn[] = []): Turn[] {
  const turns: Turn[] = [];
  for (const step of path) {
    let turn = turns.at(-1);
    if (turn?.id !== step.messageId) {
      turn = { id: step.messageId, prompt: null, steps: [] };
      turns.push(turn);
    }
    if (step.role === "user") turn.prompt = step;
    else turn.steps.push(step);
  }
  const known = new Map(before.map((turn) => [turn.id, turn]));
  return turns.map((turn) => {
    const old = known.get(turn.id);
    return old && sameTurn(old, turn) ? old : turn;
  });
}

function sameTurn(a: Turn, b: Turn): boolean {
  return (
    a.prompt === b.prompt &&
    a.steps.length === b.steps.length &&
    a.steps.every((step, index) => step === b.steps[index])
  );
}

/** One of the lines that part at a step. */
export interface Line {
  stepId: string;
  tip: string;
  content: string;
  /** Turns from where it parts to its tip. */
  turns: number;
  /** When its tip was made, in milliseconds. */
  at: number;
}

/** The steps from one back to another, which is not among them, the newest first; null where the way is not known. */
export function stepsBetween(
  steps: ReadonlyMap<string, Step>,
  from: string,
  backTo: string,
): Step[] | null {
  const way: Step[] = [];
  for (let id = from; id !== backTo; ) {
    const step = steps.get(id);
    if (!step) return null;
    way.push(step);
    id = step.parentId;
  }
  return way;
}

/** How many turns a person passes from one step back to another; null where the way is not known. */
export function turnsBetween(
  steps: ReadonlyMap<string, Step>,
  from: string,
  backTo: string,
): number | null {
  const way = stepsBetween(steps, from, backTo);
  return way === null ? null : new Set(way.map((step) => step.messageId)).size;
}

/** The lines that part at one step, oldest first. */
export interface Fork {
  parentId: string;
  lines: Line[];
}

/** Every fork, by the step that its lines leave. */
export function forksOf(all: readonly Branch[]): ReadonlyMap<string, Fork> {
  const forks = new Map<string, Branch[]>();
  for (const branch of all) {
    forks.set(branch.parentId, [...(forks.get(branch.parentId) ?? []), branch]);
  }
  const result = new Map<string, Fork>();
  for (const [parentId, branches] of forks) {
    if (branches.length < 2) continue;
    result.set(parentId, {
      parentId,
      // Ids rise with time, so their order is the order of birth.
      lines: branches
        .toSorted((a, b) => (a.stepId < b.stepId ? -1 : 1))
        .map(({ stepId, tip, content, turns }) => ({ stepId, tip, content, turns, at: timeOf(tip) })),
    });
  }
  return result;
}

/** When an id was made, in milliseconds: a UUIDv7 begins with it. */
export function timeOf(id: string): number {
  return Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16) || 0;
}

/** The tip of the line `by` places from the shown one, at the newest fork of the path that has it. */
export function neighbourLine(
  path: readonly Step[],
  forks: ReadonlyMap<string, Fork>,
  by: 1 | -1,
): string | null {
  for (const step of path.toReversed()) {
    const lines = forks.get(step.parentId)?.lines ?? [];
    const at = lines.findIndex((line) => line.stepId === step.id);
    const next = at < 0 ? undefined : lines[at + by];
    if (next) return next.tip;
  }
  return null;
}

/** What Redo would bring back: how many turns, and the first prompt of them; null where not known. */
export function redoable(tree: {
  steps: ReadonlyMap<string, Step>;
  headId: string;
  redoId: string | null;
}): { turns: number; prompt: Step | null } | null {
  const { steps, headId, redoId } = tree;
  if (redoId === null) return null;
  const turns = turnsBetween(steps, redoId, headId);
  if (turns === null) return null;
  let prompt: Step | null = null;
  let step = steps.get(redoId);
  while (step && step.id !== headId) {
    if (step.role === "user") prompt = step;
    step = steps.get(step.parentId);
  }
  return { turns, prompt };
}

/** What a turn that this client has not loaded to its start is called. */
export function promptText(turn: Turn): string {
  return turn.prompt?.content ?? "earlier message";
}
