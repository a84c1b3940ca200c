// The files of a session's prompts, over REST.

import { call, json, session } from "./rest";

/** The address of a file's bytes; the browser sends the cookie along. */
export function contentOf(sessionId: string, id: string): string {
  return `${session(sessionId)}/attachments/${encodeURIComponent(id)}/content`;
}

export async function readFile(sessionId: string, id: string): Promise<Blob> {
  return (await call("GET", contentOf(sessionId, id))).blob();
}

/** Which of these files are there no longer, as the session's list has it. */
export async function goneOf(sessionId: string, ids: ReadonlySet<string>): Promise<Set<string>> {
  const gone = new Set(ids);
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page: { attachments: { id: string }[]; next_cursor: string | null } = await json(
      "GET",
      `${session(sessionId)}/attachments?limit=200${query}`,
    );
    for (const { id } of page.attachments) gone.delete(id);
    cursor = page.next_cursor;
  } while (cursor !== null && gone.size > 0);
  return gone;
}
