// Keys that work anywhere on a session's page. Ctrl+Z is not among them: it belongs to text fields
// and to the canvas.

import { useEffect, useRef } from "react";

interface Shortcuts {
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
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { help, escape, write, revertLast, redo, line } = current.current;
      if (event.defaultPrevented) return;
      if (event.key === "Escape" && escape) escape();
      else if (event.altKey && event.shiftKey && event.code === "KeyZ") revertLast();
      else if (event.altKey && event.shiftKey && event.code === "KeyY") redo();
      else if (isLineKey(event)) line(event.key === "ArrowLeft" ? -1 : 1);
      else if (isPlain(event, "?")) help();
      else if (isPlain(event, "/")) write();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
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
