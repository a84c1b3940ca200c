// Addresses: `/` is the list, `/s/{id}` one session.

import { useSyncExternalStore } from "react";

export type Route = { page: "list" } | { page: "session"; id: string } | { page: "unknown" };

const MOVED = "turnback:moved";

export function sessionPath(id: string): string {
  return `/s/${encodeURIComponent(id)}`;
}

export function navigate(path: string): void {
  history.pushState(null, "", path);
  dispatchEvent(new Event(MOVED));
}

export function useRoute(): Route {
  const path = useSyncExternalStore(subscribe, () => location.pathname);
  if (path === "/" || path === "/index.html") return { page: "list" };
  const session = /^\/s\/([^/]+)\/?$/.exec(path)?.[1];
  if (session === undefined) return { page: "unknown" };
  try {
    return { page: "session", id: decodeURIComponent(session) };
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
