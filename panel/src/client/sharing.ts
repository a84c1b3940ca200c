// Who may do what with a session, over REST.

import { call, json, session } from "./rest";
import type { Right, SessionInfo, Visibility } from "./types";

/** What a principal may do beside what its role gives it: `read` at least. */
export interface Grant {
  principal: string;
  rights: Exclude<Right, "manage">[];
}

export function getSession(id: string): Promise<SessionInfo> {
  return json("GET", session(id));
}

export function setVisibility(id: string, visibility: Visibility): Promise<SessionInfo> {
  return json("PATCH", session(id), JSON.stringify({ visibility }));
}

/** All grants of a session, by name. Throws `not_allowed` for who does not manage it. */
export async function getGrants(id: string): Promise<Grant[]> {
  const all: Grant[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page: { grants: Grant[]; next_cursor: string | null } = await json(
      "GET",
      `${session(id)}/grants?limit=200${query}`,
    );
    all.push(...page.grants);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return all;
}

export async function setGrant(id: string, { principal, rights }: Grant): Promise<void> {
  const path = `${session(id)}/grants/${encodeURIComponent(principal)}`;
  await call("PUT", path, JSON.stringify({ rights }));
}

export async function dropGrant(id: string, principal: string): Promise<void> {
  await call("DELETE", `${session(id)}/grants/${encodeURIComponent(principal)}`);
}
