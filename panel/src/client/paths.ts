// Views of the step tree: the visible path, its turns, and the places where lines part.

import type { SessionState } from "./reducer";
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

export function turnsOf(path: readonly Step[]): Turn[] {
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
  return turns;
}

/** The lines that part at one step, oldest first. */
export interface Fork {
  parentId: string;
  lines: { stepId: string; tip: string; content: string }[];
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
        .map(({ stepId, tip, content }) => ({ stepId, tip, content })),
    });
  }
  return result;
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

/**
 * The prompt that Redo would bring back first, when this client knows it: from the reverts that it
 * saw, or, after a reload, because only one line goes on from HEAD.
 */
export function redoPrompt(state: SessionState): Step | null {
  if (!state.canRedo) return null;
  let prompt: Step | null = null;
  let step = state.steps.get(state.redoTrail.at(-1) ?? "");
  while (step && step.id !== state.headId) {
    if (step.role === "user") prompt = step;
    step = state.steps.get(step.parentId);
  }
  if (prompt !== null) return prompt;
  const next = [...state.steps.values()].filter((one) => one.parentId === state.headId);
  return next.length === 1 && next[0]?.role === "user" ? next[0] : null;
}

/** What a turn that this client has not loaded to its start is called. */
export function promptText(turn: Turn): string {
  return turn.prompt?.content ?? "earlier message";
}
