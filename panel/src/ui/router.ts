// Addresses: `/` is the list, `/s/{id}` one session, `/s/{id}?at={step}` an earlier state of it.

import { useMemo, useSyncExternalStore } from "react";

export type Route =
  | { page: "list" }
  | { page: "session"; id: string; at: string | null }
  | { page: "unknown" };

const MOVED = "turnback:moved";

export function sessionPath(id: string, at: string | null = null): string {
  const path = `/s/${encodeURIComponent(id)}`;
  return at === null ? path : `${path}?at=${encodeURIComponent(at)}`;
}

/** Goes to an address of the page; with `replace`, in place of the one in the history. */
export function navigate(path: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  dispatchEvent(new Event(MOVED));
}

export function useRoute(): Route {
  const address = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  return useMemo(() => routeOf(address), [address]);
}

export function routeOf(address: string): Route {
  const [path = "", search = ""] = address.split("?", 2);
  if (path === "/" || path === "/index.html") return { page: "list" };
  const session = /^\/s\/([^/]+)\/?$/.exec(path)?.[1];
  if (session === undefined) return { page: "unknown" };
  try {
    const at = new URLSearchParams(search).get("at") || null;
    return { page: "session", id: decodeURIComponent(session), at };
  } catch {
    return { page: "unknown" }; // a percent sign that begins no character
  }
}

function subscribe(listener: () => void): () => void {
  addEventListener("popstate", listener);
  addEventListener(MOVED, listener);
  return () => {
    removeEventListener("popstate", listener);
    removeEventListener(MOVED, listener);
  };
}
