// What stands in the form of a session's settings, as text, and what of it is another than before.

import { toNumber } from "../../client/json";
import type { RunLimit, SessionChange } from "../../client/settings";
import type { RunSettings, SessionInfo, Visibility } from "../../client/types";

export interface Form {
  name: string;
  visibility: Visibility;
  /** Empty is the server's own. */
  limits: Record<RunLimit, string>;
  disabled: readonly string[];
}

export const LIMITS: readonly RunLimit[] = [
  "max_steps",
  "run_timeout",
  "tool_timeout",
  "max_tool_output",
];

export function formOf({ name, visibility, settings }: SessionInfo): Form {
  const text = (limit: RunLimit) =>
    settings[limit] === null ? "" : String(toNumber(settings[limit]));
  return {
    name,
    visibility,
    limits: {
      max_steps: text("max_steps"),
      run_timeout: text("run_timeout"),
      tool_timeout: text("tool_timeout"),
      max_tool_output: text("max_tool_output"),
    },
    disabled: settings.disabled_tools,
  };
}

/** What the form changes of the session; null where it is nothing. */
export function changeOf(form: Form, session: SessionInfo): SessionChange | null {
  const before = formOf(session);
  const settings: Partial<RunSettings> = {};
  for (const limit of LIMITS) {
    const text = form.limits[limit].trim();
    if (text !== before.limits[limit]) settings[limit] = text === "" ? null : Number(text);
  }
  if (form.disabled.toSorted().join() !== before.disabled.toSorted().join()) {
    settings.disabled_tools = [...form.disabled];
  }
  const name = form.name.trim();
  const change: SessionChange = {
    ...(name === "" || name === before.name ? {} : { name }),
    ...(form.visibility === before.visibility ? {} : { visibility: form.visibility }),
    ...(Object.keys(settings).length === 0 ? {} : { settings }),
  };
  return Object.keys(change).length === 0 ? null : change;
}
