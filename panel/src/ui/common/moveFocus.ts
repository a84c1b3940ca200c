// Arrow keys within a list: to the one before, the one after, the first, the last.

import type { KeyboardEvent } from "react";

/** Moves the focus among the elements of `list` that match; whether the key was one of these. */
export function moveFocus(
  event: KeyboardEvent,
  list: HTMLElement | null,
  selector: string,
): boolean {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return false;
  const entries = [...(list?.querySelectorAll<HTMLElement>(selector) ?? [])];
  if (entries.length === 0) return false;
  const at = entries.indexOf(document.activeElement as HTMLElement);
  const to = target(event.key, at, entries.length);
  if (to === null) return false;
  entries[to]?.focus();
  return true;
}

function target(key: string, at: number, count: number): number | null {
  switch (key) {
    case "ArrowDown":
      return (at + 1) % count;
    case "ArrowUp":
      return at <= 0 ? count - 1 : at - 1;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}
