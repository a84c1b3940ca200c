// The turns of a path, and the newest prompt of them.

import { useMemo, useRef } from "react";

import { turnsOf, type Turn } from "../../client/paths";
import type { Step } from "../../client/types";

export const NO_STEPS: Step[] = [];

/** The turns of a path, with those that have not changed as the same objects. */
export function useTurns(path: Step[]): Turn[] {
  const before = useRef<Turn[]>([]);
  return useMemo(() => {
    before.current = turnsOf(path, before.current);
    return before.current;
  }, [path]);
}

/** The newest prompt; empty where there is none, null where that is not known yet. */
export function newestPrompt(
  ready: boolean,
  turns: readonly Turn[],
  whole: boolean,
): string | null {
  if (!ready) return null;
  const prompt = turns.findLast((turn) => turn.prompt?.kind === "prompt")?.prompt;
  return prompt?.content ?? (whole ? "" : null);
}
