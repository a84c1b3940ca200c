// A session's own settings over REST: what it is called, who sees it, and what its runs are held to.

import { toNumber } from "./json";
import { json, session } from "./rest";
import type { RunSettings, SessionInfo, Visibility } from "./types";

/** What is to be another; what is left out stays as it is. */
export interface SessionChange {
  name?: string;
  visibility?: Visibility;
  settings?: Partial<RunSettings>;
}

export type RunLimit = Exclude<keyof RunSettings, "disabled_tools">;

/** The server's limits, which a session's own may only be below. */
export async function runLimits(): Promise<Record<RunLimit, number>> {
  // Times have a point, and so may come as their own text.
  const { limits } = await json<{ limits: Record<RunLimit, unknown> }>("GET", "/capabilities");
  return {
    max_steps: toNumber(limits.max_steps),
    run_timeout: toNumber(limits.run_timeout),
    tool_timeout: toNumber(limits.tool_timeout),
    max_tool_output: toNumber(limits.max_tool_output),
  };
}

/** Throws `not_allowed`, `archived`, `not_stricter`. */
export function changeSession(id: string, change: SessionChange): Promise<SessionInfo> {
  return json("PATCH", session(id), JSON.stringify(change));
}
