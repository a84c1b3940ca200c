// What a person can do about a refusal, by its code, where the server's sentence leaves it open.

import { own } from "./loose";

const ADVICE: Readonly<Record<string, string>> = {
  busy: "Wait until the agent is done, or stop it. What you wrote is still there.",
  contended: "Others were quicker. What you wrote is still there: send it again.",
  head_moved: "Somebody else has moved on. Look at what is there now, then try again.",
  edit_conflict: "What you changed has changed meanwhile. Look at it, then make your edit again.",
  not_on_path: "That turn is on another line now. Choose the line first.",
  nothing_to_redo: "Something new was said or edited since the revert; the old line is a branch.",
  archived: "Take the session out of the archive to go on.",
  too_large: "Shorten it, or split it in two.",
  queue_full: "Wait a moment, then try again.",
  draining: "The server is going down. This page comes back by itself when it is up again.",
  database_unavailable: "Nothing was lost. Try again in a moment.",
  timeout: "It may have been done all the same.",
  unreachable: "Check the network, or whether the server is running.",
};

/** A sentence, or null where there is nothing to add. */
export function advice(code: string): string | null {
  return own(ADVICE, code) ?? null;
}
