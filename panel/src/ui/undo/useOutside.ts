// What the page knows of the world outside: the tools that reach it, and what calls of them did there.

import { createContext, useContext, useEffect, useMemo, useState } from "react";

import { familyOf } from "../../client/forks";
import type { SessionState } from "../../client/reducer";
import { getEffects, getTools } from "../../client/undos";
import type { RestEffect, RestTool, Standing, UndoItem } from "../../client/types";

/** The session that an inherited effect belongs to, and from which alone it can be taken back. */
export interface Owner {
  /** Null where it may not be read. */
  id: string | null;
  name: string | null;
}

export interface Outside {
  /** By the name that models call them. */
  tools: ReadonlyMap<string, RestTool>;
  /** By the tool call that they are of: the session's own, and those that a fork has inherited. */
  effects: ReadonlyMap<string, RestEffect>;
  /** Whose the inherited ones are, by the tool call. */
  owners: ReadonlyMap<string, Owner>;
  /** Where effects stand, by id: the newest that was told. */
  standings: ReadonlyMap<string, Standing | null>;
  /** Until when those are held back that are, by the effect's id. */
  held: ReadonlyMap<string, number>;
  /** What the newest undo of an effect came to, by the effect's id. */
  undone: ReadonlyMap<string, UndoItem>;
}

const NOTHING: Outside = {
  tools: new Map(),
  effects: new Map(),
  owners: new Map(),
  standings: new Map(),
  held: new Map(),
  undone: new Map(),
};

const UNKNOWN: Owner = { id: null, name: null };

export const OutsideContext = createContext<Outside>(NOTHING);

export interface OutsideOf {
  effect: RestEffect | null;
  standing: Standing | null;
  /** When it is sent, while it is held back. */
  heldUntil: number | null;
  item: UndoItem | null;
  /** Null where it is the session's own. */
  owner: Owner | null;
}

export function outsideOf(outside: Outside, toolCallId: string): OutsideOf {
  const { effects, owners, standings, held, undone } = outside;
  const effect = effects.get(toolCallId) ?? null;
  const owner = owners.get(toolCallId) ?? null;
  if (effect === null) return { effect: null, standing: null, heldUntil: null, item: null, owner };
  const standing = standings.get(effect.effect_id);
  return {
    effect,
    standing: standing === undefined ? effect.standing : standing,
    heldUntil: held.get(effect.effect_id) ?? null,
    item: undone.get(effect.effect_id) ?? null,
    owner,
  };
}

/** The standings of what an undo is about. */
export const OPEN_STANDINGS: ReadonlySet<Standing> = new Set(["in_force", "in_doubt", "partly"]);

/** How many effects of a turn an undo could be about, those of other sessions left out. */
export function standsOf(turnId: string, outside: Outside): number {
  return [...outside.effects.values()].filter((effect) => {
    if (effect.turn_id !== turnId) return false;
    const { standing, owner } = outsideOf(outside, effect.tool_call_id);
    return owner === null && standing !== null && OPEN_STANDINGS.has(standing);
  }).length;
}

/** What a turn has done in the step that it is at: that is in the log, and not among the `known` steps yet. */
export function inOpenStep(
  turnId: string | null,
  known: Pick<ReadonlySet<string>, "has">,
  { effects }: Outside,
): RestEffect[] {
  return [...effects.values()].filter(
    (effect) => effect.turn_id === turnId && !known.has(effect.step_id),
  );
}

export function useOutsideOf(toolCallId: string): OutsideOf {
  return outsideOf(useContext(OutsideContext), toolCallId);
}

export function useTool(name: string): RestTool | null {
  return useContext(OutsideContext).tools.get(name) ?? null;
}

/** Asked for when there is something to ask about, and again when it has changed. */
export function useOutside(id: string, state: SessionState, fail: (error: unknown) => void): Outside {
  const [tools, setTools] = useState(NOTHING.tools);
  const [logged, setLogged] = useState<Logged | null>(null);
  const { ready, steps, undos, outOfStep, told, waitingFor } = state;

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
  // The open step of a turn that waits is no step yet: what it did is known from the log alone.
  const waits = waitingFor.length;
  useEffect(() => {
    if (named === 0 && waits === 0) return;
    let wanted = true;
    getEffects(id).then((found) => {
      if (wanted) setLogged({ effects: found, named });
    }, fail);
    return () => {
      wanted = false;
    };
  }, [id, named, waits, revisions, outOfStep, told, fail]);

  const own = logged?.effects ?? NO_EFFECTS;
  const inherited = useInherited(id, steps, logged?.named === named ? own : null, tools);
  return useMemo(() => {
    const undone = new Map<string, UndoItem>();
    // Ids rise with time: the newest undo of an effect is the one that counts.
    for (const undoId of [...undos.keys()].sort()) {
      for (const item of undos.get(undoId)?.items ?? []) undone.set(item.effectId, item);
    }
    const standings = new Map<string, Standing | null>(outOfStep);
    const held = new Map<string, number>();
    for (const effect of told.values()) {
      standings.set(effect.effectId, effect.standing);
      if (effect.holdUntil !== null) held.set(effect.effectId, effect.holdUntil);
    }
    for (const item of undone.values()) standings.set(item.effectId, item.standing);
    const effects = new Map([...inherited.effects, ...byCall(own)]);
    return { tools, effects, owners: inherited.owners, standings, held, undone };
  }, [tools, own, inherited, undos, outOfStep, told]);
}

function byCall(effects: readonly RestEffect[]): [string, RestEffect][] {
  return effects.map((effect) => [effect.tool_call_id, effect]);
}

/** The session's own effects, as they were when its steps named so many. */
interface Logged {
  effects: readonly RestEffect[];
  named: number;
}

const NO_EFFECTS: readonly RestEffect[] = [];

const NONE_INHERITED: Pick<Outside, "effects" | "owners"> = {
  effects: new Map(),
  owners: new Map(),
};

/** Effects in the inherited part of a fork: those of its ancestors, as far as these may be read. */
function useInherited(
  id: string,
  steps: SessionState["steps"],
  own: readonly RestEffect[] | null,
  tools: Outside["tools"],
): Pick<Outside, "effects" | "owners"> {
  const [found, setFound] = useState<Pick<Outside, "effects" | "owners"> | null>(null);
  const others = useMemo(() => {
    if (own === null) return [];
    const known = new Set(own.map((effect) => effect.effect_id));
    return [...steps.values()].filter((step) => step.effects.some((one) => !known.has(one)));
  }, [steps, own]);
  const key = others.map((step) => step.id).join(" ");

  useEffect(() => {
    if (key === "") return;
    let wanted = true;
    const open = new Set(others.flatMap((step) => step.effects));
    void ancestorsEffects(id, open).then(
      (answer) => {
        if (wanted) setFound(answer);
      },
      () => undefined, // what is not known of them is said of each
    );
    return () => {
      wanted = false;
    };
  }, [id, key]);

  return useMemo(() => {
    if (others.length === 0 || found === null) return NONE_INHERITED;
    const owners = new Map(found.owners);
    for (const step of others) {
      const told = new Set(step.toolCalls?.flatMap((call) => found.effects.get(call.toolCallId)?.effect_id ?? []));
      if (step.effects.every((one) => told.has(one) || own?.some((o) => o.effect_id === one))) continue;
      // Which call it was of is not told to who may not read it: any that changes something.
      for (const call of step.toolCalls ?? []) {
        const tool = tools.get(call.toolName);
        if (tool && tool.class !== "read" && !owners.has(call.toolCallId)) {
          owners.set(call.toolCallId, UNKNOWN);
        }
      }
    }
    return { effects: found.effects, owners };
  }, [others, found, own, tools]);
}

/** From the nearest ancestor on, until the effects of these ids are all found. */
async function ancestorsEffects(
  id: string,
  ids: ReadonlySet<string>,
): Promise<Pick<Outside, "effects" | "owners">> {
  const effects = new Map<string, RestEffect>();
  const owners = new Map<string, Owner>();
  const missing = new Set(ids);
  for (const { session_id, name, deleted } of (await familyOf(id)).ancestors) {
    if (missing.size === 0) break;
    if (deleted) continue;
    for (const effect of await getEffects(session_id)) {
      if (!missing.delete(effect.effect_id)) continue;
      effects.set(effect.tool_call_id, effect);
      owners.set(effect.tool_call_id, { id: session_id, name });
    }
  }
  return { effects, owners };
}
