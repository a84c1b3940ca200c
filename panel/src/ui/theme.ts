// Light or dark: the system's preference until a person chooses.

import { useCallback, useSyncExternalStore } from "react";

export type Theme = "light" | "dark";

const KEY = "turnback.theme";
const CHANGED = "turnback:theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function current(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "light" || chosen === "dark") return chosen;
  return system.matches ? "dark" : "light";
}

function choose(theme: Theme): void {
  const root = document.documentElement;
  // Choosing what the system prefers is going back to following it.
  const follows = theme === (system.matches ? "dark" : "light");
  if (follows) delete root.dataset["theme"];
  else root.dataset["theme"] = theme;
  try {
    if (follows) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage can be forbidden; the choice then lasts as long as the page.
  }
  dispatchEvent(new Event(CHANGED));
}

export function useTheme(): [Theme, () => void] {
  const theme = useSyncExternalStore(subscribe, current);
  const toggle = useCallback(() => choose(current() === "dark" ? "light" : "dark"), []);
  return [theme, toggle];
}

function subscribe(listener: () => void): () => void {
  system.addEventListener("change", listener);
  addEventListener(CHANGED, listener);
  return () => {
    system.removeEventListener("change", listener);
    removeEventListener(CHANGED, listener);
  };
}
