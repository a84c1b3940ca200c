// Who uses the page. The credential is a cookie that no script can read; what is here is a name.

import type { Credentials } from "./connection";
import { call, json, onSignedOut, type Problem } from "./rest";

export type Role = "viewer" | "editor" | "owner";

/**
 * `key_id` is null as long as the server has no keys: then nobody signs in, and what this page asks
 * counts as a person's decision (`decides`) only once it has come by the printed address.
 */
export interface Caller {
  principal: string;
  project: string;
  role: Role | null;
  key_id: string | null;
  decides: boolean;
}

export type CallerState =
  | { phase: "asking" }
  /** `arrivals`: how often it came by a printed address; sockets from before know nothing of it. */
  | { phase: "known"; caller: Caller; arrivals: number }
  /** The server asks for a key; `ended`: this page had been let in before. */
  | { phase: "out"; ended: boolean }
  | { phase: "failed"; problem: Problem };

/** The tabs of one browser share the cookie, so they share that it is gone. */
const TABS = "turnback.signed";

/** What a printed address has behind its `#`. */
const CODE = /^#([\w-]+\.[\w-]+)$/;

let state: CallerState = { phase: "asking" };
let arrivals = 0;
const listeners = new Set<() => void>();
const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(TABS);

function become(next: CallerState): void {
  state = next;
  for (const listener of listeners) listener();
}

onSignedOut(() => {
  if (state.phase !== "out") become({ phase: "out", ended: state.phase === "known" });
});
tabs?.addEventListener("message", (event) => {
  if (event.data === "arrived") arrivals += 1;
  void ask();
});

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function callerState(): CallerState {
  return state;
}

/** Asks the server who this is; a refusal leads to the sign-in. */
export async function ask(): Promise<void> {
  try {
    become({ phase: "known", caller: await json<Caller>("GET", "/whoami"), arrivals });
  } catch (error) {
    const problem = error as Problem;
    // What is open stays: it may well go on when the server is back.
    if (problem.status !== 401 && state.phase === "asking") become({ phase: "failed", problem });
  }
}

/**
 * Where the address has the code of a printed one: swaps it for the cookie of a person, and takes it
 * out of the address. Throws the server's refusal, unless this page has that cookie already.
 */
export async function arrive(): Promise<void> {
  const code = CODE.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  try {
    const caller = await json<Caller>("POST", "/person", JSON.stringify({ code }));
    arrivals += 1;
    become({ phase: "known", caller, arrivals });
    tabs?.postMessage("arrived");
  } catch (problem) {
    await ask();
    if (state.phase !== "known" || !state.caller.decides) throw problem;
  }
}

/** Trades a key for the cookie; throws the server's refusal. The key is not kept. */
export async function signIn(key: string): Promise<void> {
  const caller = await json<Caller>("POST", "/sign-in", JSON.stringify({ key }));
  become({ phase: "known", caller, arrivals });
  tabs?.postMessage("in");
}

/** Ends the cookie, and forgets what this person had written in this tab. */
export async function signOut(): Promise<void> {
  await call("POST", "/sign-out");
  try {
    for (const key of Object.keys(sessionStorage)) {
      if (key.startsWith("turnback.")) sessionStorage.removeItem(key);
    }
  } catch {
    // Storage that is forbidden holds nothing.
  }
  become({ phase: "out", ended: false });
  tabs?.postMessage("out");
}

/** For a session's socket. */
export function credentialsFor(sessionId: string): Credentials {
  return {
    ticket: () => ticketFor(sessionId),
    stillGood: async () => {
      await ask();
      return state.phase === "known";
    },
  };
}

/** What a socket offers beside its protocol: a ticket, good once; nothing where nobody signs in. */
async function ticketFor(sessionId: string): Promise<string[]> {
  if (state.phase !== "known" || state.caller.key_id === null) return [];
  const body = JSON.stringify({ session_id: sessionId });
  return [(await json<{ protocol: string }>("POST", "/ws-tickets", body)).protocol];
}
