// The step tree as far as it is loaded: every line's steps, and what undos have left of their effects.

import { useCallback, useEffect, useMemo, useState } from "react";

import { treeOf, type TurnOnLine } from "../../client/history";
import { ROOT_STEP, type RestResidue, type Step } from "../../client/types";
import type { SessionState } from "../../client/reducer";
import { getEveryStep, type Problem } from "../../client/rest";
import { getResidues } from "../../client/undos";

export interface History {
  trunk: readonly TurnOnLine[];
  /** The newest residue of each effect, by the effect; null for who may not see names. */
  residues: ReadonlyMap<string, RestResidue> | null;
  loading: boolean;
  /** What came before was removed for good. */
  purged: boolean;
  /** Null where all is here. */
  loadOlder: (() => void) | null;
}

export function useHistory(
  id: string,
  state: SessionState,
  mayRun: boolean,
  fail: (error: unknown) => void,
): History {
  const [pages, setPages] = useState<{ steps: Step[]; cursor: string | null } | null>(null);
  const [loading, setLoading] = useState(true);
  const [purged, setPurged] = useState(false);
  const [residues, setResidues] = useState<ReadonlyMap<string, RestResidue> | null>(null);
  const { headId, redoId, undos } = state;

  const load = useCallback(
    async (before: string | null) => {
      setLoading(true);
      try {
        const page = await getEveryStep(id, before);
        setPages((now) => ({
          steps: before === null ? page.steps : [...page.steps, ...(now?.steps ?? [])],
          cursor: page.cursor,
        }));
      } catch (problem) {
        if ((problem as Problem).code === "history_purged") setPurged(true);
        else fail(problem);
      }
      setLoading(false);
    },
    [id, fail],
  );
  useEffect(() => void load(null), [load]);

  const revision = [...undos.values()].reduce((sum, undo) => sum + undo.undoRevision, 0);
  useEffect(() => {
    if (!mayRun) return;
    let wanted = true;
    getResidues(id).then((found) => {
      // Newest first: the last that is written into the map is not to be an older one.
      if (wanted) setResidues(new Map(found.toReversed().map((one) => [one.effect_id, one])));
    }, fail);
    return () => {
      wanted = false;
    };
  }, [id, mayRun, revision, fail]);

  const trunk = useMemo(() => {
    if (pages === null) return [];
    const steps = new Map(pages.steps.map((step) => [step.id, step]));
    for (const step of state.steps.values()) {
      // What this page knows of a line that is not loaded so far back would hang in the air.
      if (steps.has(step.parentId) || step.parentId === ROOT_STEP || pages.cursor === null) {
        steps.set(step.id, step);
      }
    }
    return treeOf(steps, headId, redoId);
  }, [pages, state.steps, headId, redoId]);

  const cursor = pages?.cursor ?? null;
  return {
    trunk,
    residues,
    loading,
    purged,
    loadOlder: cursor === null || loading || purged ? null : () => void load(cursor),
  };
}
