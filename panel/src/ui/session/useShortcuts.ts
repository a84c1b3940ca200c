// Keys that work anywhere on a session's page. Ctrl+Z is not among them: it belongs to text fields
// and to the canvas.

import { useEffect, useRef } from "react";

interface Shortcuts {
  /** A move of HEAD is on its way: the next one waits for it, for each press is one more. */
  moving: boolean;
  help: () => void;
  /** What Escape does where nothing that is open takes it: back from an earlier state, or stop. */
  escape: (() => void) | null;
  /** To the message field. */
  write: () => void;
  revertLast: () => void;
  redo: () => void;
  /** To the line before (-1) or after (1) the one that is shown. */
  line: (by: 1 | -1) => void;
}

export function useShortcuts(shortcuts: Shortcuts): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  const waiting = useRef<Move | null>(null);
  useEffect(() => {
    const next = waiting.current;
    if (shortcuts.moving || next === null) return;
    waiting.current = null;
    move(current.current, next);
  }, [shortcuts.moving]);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { help, escape, write, moving } = current.current;
      if (event.defaultPrevented) return;
      const asked = moveOf(event);
      if (event.key === "Escape" && escape) escape();
      else if (asked !== null && moving && !event.repeat) waiting.current = asked;
      else if (asked !== null && !moving) move(current.current, asked);
      else if (isPlain(event, "?")) help();
      else if (isPlain(event, "/")) write();
      else if (asked === null) return;
      event.preventDefault();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}

type Move = "revertLast" | "redo" | "earlierLine" | "laterLine";

function move({ revertLast, redo, line }: Shortcuts, which: Move): void {
  switch (which) {
    case "revertLast":
      return revertLast();
    case "redo":
      return redo();
    case "earlierLine":
      return line(-1);
    case "laterLine":
      return line(1);
  }
}

function moveOf(event: KeyboardEvent): Move | null {
  if (event.altKey && event.shiftKey && event.code === "KeyZ") return "revertLast";
  if (event.altKey && event.shiftKey && event.code === "KeyY") return "redo";
  if (isLineKey(event)) return event.key === "ArrowLeft" ? "earlierLine" : "laterLine";
  return null;
}

/** A character that is not being typed into anything. */
function isPlain(event: KeyboardEvent, key: string): boolean {
  const command = event.ctrlKey || event.metaKey || event.altKey;
  return event.key === key && !command && !isTextField(event.target);
}

/** Alt and an arrow; in a text field they move by words. */
function isLineKey(event: KeyboardEvent): boolean {
  return (
    event.altKey &&
    !event.shiftKey &&
    (event.key === "ArrowLeft" || event.key === "ArrowRight") &&
    !isTextField(event.target)
  );
}

/** Whether keys typed here are text. */
export function isTextField(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}
