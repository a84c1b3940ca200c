// The demo world as it is now, and what this person has deleted of it.

import { useCallback, useEffect, useMemo, useState } from "react";

import { getWorld, type Thing, type World } from "../../client/world";
import type { SessionState } from "../../client/reducer";
import type { Problem } from "../../client/rest";

export interface Kept extends Thing {
  /** It is not there any more; this is what it was. */
  gone: boolean;
}

/** Asked for again whenever the session may have changed the world, and after one's own changes. */
export function useWorld(state: SessionState): {
  world: World | null;
  problem: Problem | null;
  /** The things of a kind, the deleted ones among them. */
  things: (kind: string) => Kept[];
  changed: () => void;
  deleted: (kind: string, thing: Thing) => void;
} {
  const [world, setWorld] = useState<World | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [asked, setAsked] = useState(0);
  const [gone, setGone] = useState<ReadonlyMap<string, Readonly<Record<string, Thing>>>>(new Map());
  const { steps, agent, waitingFor, undos, outOfStep } = state;

  const revisions = useMemo(
    () => [...undos.values()].reduce((sum, undo) => sum + undo.undoRevision, 0),
    [undos],
  );
  useEffect(() => {
    let wanted = true;
    getWorld().then(
      (found) => {
        if (!wanted) return;
        setWorld(found);
        setProblem(null);
      },
      (error: Problem) => wanted && setProblem(error),
    );
    return () => {
      wanted = false;
    };
  }, [asked, steps, agent, waitingFor, revisions, outOfStep]);

  const changed = useCallback(() => setAsked((count) => count + 1), []);
  const deleted = useCallback((kind: string, { id, fields }: Thing) => {
    setGone((now) => new Map(now).set(kind, { ...now.get(kind), [id]: { id, fields } }));
    setAsked((count) => count + 1);
  }, []);
  const things = (kind: string): Kept[] => {
    const there = world?.[kind] ?? [];
    const ids = new Set(there.map(({ id }) => id));
    const left = Object.values(gone.get(kind) ?? {}).filter(({ id }) => !ids.has(id));
    return [
      ...there.map((thing) => ({ ...thing, gone: false })),
      ...left.map((thing) => ({ ...thing, gone: true })),
    ].sort((one, other) => (one.id < other.id ? -1 : 1));
  };
  return { world, problem, things, changed, deleted };
}
