// Effects, undos and what they left, over REST: what has names in it, for who may run the session.

import { json } from "./rest";
import type {
  RestEffect,
  RestEffects,
  RestPlan,
  RestReport,
  RestResidue,
  RestResidues,
  RestTool,
} from "./types";

const session = (id: string) => `/sessions/${encodeURIComponent(id)}`;

/** Minutes by which this clock is ahead of UTC. */
const offset = () => `utc_offset=${-new Date().getTimezoneOffset()}`;

export function getReport(id: string, undoId: string): Promise<RestReport> {
  return json("GET", `${session(id)}/undos/${encodeURIComponent(undoId)}?${offset()}`);
}

export function acknowledge(id: string, residueId: string): Promise<RestResidue> {
  const path = `${session(id)}/residues/${encodeURIComponent(residueId)}/acknowledge`;
  return json("POST", `${path}?${offset()}`);
}

/** Over what somebody else has written, as the residue shows it; the id of the undo that does it. */
export async function overwrite(id: string, residueId: string): Promise<string | null> {
  const path = `${session(id)}/residues/${encodeURIComponent(residueId)}/overwrite`;
  return (await json<{ undo_id: string | null }>("POST", path)).undo_id;
}

/** All that the session's undos have left, newest first. */
export async function getResidues(id: string): Promise<RestResidue[]> {
  const found: RestResidue[] = [];
  for (let cursor: string | null = null, first = true; first || cursor !== null; first = false) {
    const from: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page: RestResidues = await json("GET", `${session(id)}/residues?${offset()}${from}`);
    found.push(...page.residues);
    cursor = page.next_cursor;
  }
  return found;
}

/** All that the session's own calls did outside. */
export async function getEffects(id: string): Promise<RestEffect[]> {
  const found: RestEffect[] = [];
  for (let cursor: number | null = 0; cursor !== null; ) {
    const page: RestEffects = await json("GET", `${session(id)}/effects?cursor=${cursor}`);
    found.push(...page.effects);
    cursor = page.next_cursor;
  }
  return found;
}

export async function getTools(id: string): Promise<RestTool[]> {
  return (await json<{ tools: RestTool[] }>("GET", `${session(id)}/tools`)).tools;
}

/** What is to be undone: what turns did, single effects, what was done since, or the rest of an undo. */
export type AskedUndo =
  | { turn_ids: string[] }
  | { effect_ids: string[] }
  | { revert: { turn_id: string } | { step_id: string } }
  | { undo_id: string };

/** What that would do; nothing is started. What a look at the world finds comes over the socket. */
export function planUndo(
  id: string,
  asked: AskedUndo & { with_dependents: boolean },
): Promise<RestPlan> {
  return json("POST", `${session(id)}/undo-plan?${offset()}`, JSON.stringify(asked));
}

/** Carries a plan out without moving HEAD; again, it joins what goes on. The undo's id. */
export async function startUndo(id: string, planId: string): Promise<string | null> {
  const body = JSON.stringify({ plan_id: planId });
  return (await json<{ undo_id: string | null }>("POST", `${session(id)}/undos`, body)).undo_id;
}
