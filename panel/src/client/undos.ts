// Effects, undos and what they left, over REST: what has names in it, for who may run the session.

import { json } from "./rest";
import type {
  RestEffect,
  RestEffects,
  RestPlan,
  RestReport,
  RestResidue,
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

/** What undoing the effects of a turn would do; nothing has been started. */
export function planUndo(id: string, turnIds: string[]): Promise<RestPlan> {
  const body = JSON.stringify({ turn_ids: turnIds });
  return json("POST", `${session(id)}/undo-plan?${offset()}`, body);
}
