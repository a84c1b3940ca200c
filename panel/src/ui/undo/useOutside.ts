// What the page knows of the world outside: the tools that reach it, and what calls of them did there.

import { createContext, useContext, useEffect, useMemo, useState } from "react";

import type { SessionState } from "../../client/reducer";
import { getEffects, getTools } from "../../client/undos";
import type { RestEffect, RestTool, Standing, UndoItem } from "../../client/types";

export interface Outside {
  /** By the name that models call them. */
  tools: ReadonlyMap<string, RestTool>;
  /** By the tool call that they are of. */
  effects: ReadonlyMap<string, RestEffect>;
  /** Where effects stand, by id: the newest that was told. */
  standings: ReadonlyMap<string, Standing | null>;
  /** What the newest undo of an effect came to, by the effect's id. */
  undone: ReadonlyMap<string, UndoItem>;
}

const NOTHING: Outside = {
  tools: new Map(),
  effects: new Map(),
  standings: new Map(),
  undone: new Map(),
};

export const OutsideContext = createContext<Outside>(NOTHING);

export function useOutsideOf(toolCallId: string): {
  effect: RestEffect | null;
  standing: Standing | null;
  item: UndoItem | null;
} {
  const { effects, standings, undone } = useContext(OutsideContext);
  const effect = effects.get(toolCallId) ?? null;
  if (effect === null) return { effect: null, standing: null, item: null };
  const standing = standings.get(effect.effect_id);
  return {
    effect,
    standing: standing === undefined ? effect.standing : standing,
    item: undone.get(effect.effect_id) ?? null,
  };
}

export function useTool(name: string): RestTool | null {
  return useContext(OutsideContext).tools.get(name) ?? null;
}

/** Asked for when there is something to ask about, and again when it has changed. */
export function useOutside(id: string, state: SessionState, fail: (error: unknown) => void): Outside {
  const [tools, setTools] = useState(NOTHING.tools);
  const [effects, setEffects] = useState(NOTHING.effects);
  const { ready, steps, undos, outOfStep } = state;

  useEffect(() => {
    if (!ready) return;
    let wanted = true;
    getTools(id).then((found) => {
      if (wanted) setTools(new Map(found.map((tool) => [tool.name, tool])));
    }, fail);
    return () => {
      wanted = false;
    };
  }, [id, ready, fail]);

  const named = useMemo(() => {
    let count = 0;
    for (const step of steps.values()) count += step.effects.length;
    return count;
  }, [steps]);
  const revisions = [...undos.values()].filter((undo) => undo.phase !== "run").length;
  useEffect(() => {
    if (named === 0) return;
    let wanted = true;
    getEffects(id).then((found) => {
      if (wanted) setEffects(new Map(found.map((effect) => [effect.tool_call_id, effect])));
    }, fail);
    return () => {
      wanted = false;
    };
  }, [id, named, revisions, outOfStep, fail]);

  return useMemo(() => {
    const undone = new Map<string, UndoItem>();
    // Ids rise with time: the newest undo of an effect is the one that counts.
    for (const undoId of [...undos.keys()].sort()) {
      for (const item of undos.get(undoId)?.items ?? []) undone.set(item.effectId, item);
    }
    const standings = new Map<string, Standing | null>(outOfStep);
    for (const item of undone.values()) standings.set(item.effectId, item.standing);
    return { tools, effects, standings, undone };
  }, [tools, effects, undos, outOfStep]);
}
