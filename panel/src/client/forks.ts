// Forks over REST: making one, where a session comes from and what came of it, and who is at the draft
// that a fork was made for.

import { call, json, session } from "./rest";
import type { RestBoundary, RestFamily, RestFork } from "./types";

export interface ForkRequest {
  boundary: RestBoundary;
  /** Why: to send the prompt after the boundary again, edited or as it was. */
  mode?: "edit" | "rerun";
}

/** A new session that goes on from a boundary; the same `key` gives the same fork. */
export function forkSession(id: string, request: ForkRequest, key: string): Promise<RestFork> {
  return json("POST", `${session(id)}/fork`, JSON.stringify(request), { key });
}

/** Where a session comes from, and a page of its forks. */
export function familyOf(id: string, cursor: string | null = null): Promise<RestFamily> {
  const body = { session_id: id, limit: 50, ...(cursor === null ? {} : { cursor }) };
  return json("POST", "/sessions/lineage/query", JSON.stringify(body));
}

/** Until when the draft is this client's, in milliseconds; throws `pending_action_claimed`. */
export async function claimDraft(id: string, claimId: string): Promise<number | null> {
  const path = `${session(id)}/pending-action/claim`;
  const answer = await json<{ pending_action: { claimed_until: number | null } | null }>(
    "POST",
    path,
    JSON.stringify({ claim_id: claimId }),
  );
  return answer.pending_action?.claimed_until ?? null;
}

/** Leaves the draft to others; outlives the page that is being left. */
export async function releaseDraft(id: string, claimId: string): Promise<void> {
  const path = `${session(id)}/pending-action/release`;
  await call("POST", path, JSON.stringify({ claim_id: claimId }), { keepalive: true });
}
