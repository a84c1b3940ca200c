// What the page holds of a fork when it is made: the path up to where it leaves its parent. It is shown
// until the fork's own transcript is here, whose steps have the same ids.

import { visiblePath } from "./paths";
import type { SessionState } from "./reducer";
import { ROOT_STEP } from "./types";

export type Seed = Pick<SessionState, "name" | "steps" | "headId">;

/** The part of a parent's `steps` up to `cutoffId`, for the fork called `name`. */
export function seedOf(steps: SessionState["steps"], cutoffId: string, name: string): Seed {
  const path = visiblePath(steps, cutoffId);
  return {
    name,
    steps: new Map(path.map((step) => [step.id, step])),
    headId: path.length > 0 ? cutoffId : ROOT_STEP,
  };
}

// A page makes one fork at a time, and opens it next.
let planted: { id: string; seed: Seed } | null = null;

export function plant(id: string, seed: Seed): void {
  planted = { id, seed };
}

/** The seed of a session that was forked just now; null for any other. */
export function seedFor(id: string): Seed | null {
  return planted?.id === id ? planted.seed : null;
}

/** From here on the session's own transcript counts. */
export function uproot(id: string): void {
  if (planted?.id === id) planted = null;
}
