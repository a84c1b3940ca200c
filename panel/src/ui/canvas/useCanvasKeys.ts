// The canvas's own keys. Arrows walk from operator to operator, with Shift they move the one that has
// the focus; Enter opens it, Delete removes. Nothing of this applies where text is written.

import { useEffect, useRef, type RefObject } from "react";

import type { Point } from "../../client/types";
import { isTextField } from "../session/useShortcuts";
import { nextInDirection, readingOrder, type Direction } from "./walk";

/** How far one key press moves an operator. */
const STEP = 20;

const ARROWS: Readonly<Record<string, Direction>> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};
const SHIFTS: Readonly<Record<Direction, Point>> = {
  left: { x: -STEP, y: 0 },
  right: { x: STEP, y: 0 },
  up: { x: 0, y: -STEP },
  down: { x: 0, y: STEP },
};

interface Keys {
  /** Nothing may be changed just now; walking still works. */
  locked: boolean;
  places: () => Map<string, Point>;
  /** Gives a node the focus. */
  walk: (id: string) => void;
  open: (id: string) => void;
  nudge: (id: string, by: Point) => void;
  /** Removes what is selected, or else the node that has the focus. */
  remove: (focused: string | null) => void;
  undo: () => void;
  redo: () => void;
  /** Takes the selection off; false when there was none. */
  escape: () => boolean;
}

export function useCanvasKeys(frame: RefObject<HTMLElement | null>, keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.defaultPrevented || isTextField(target)) return;
      const here = frame.current?.contains(target) === true;
      if (!here && target !== document.body) return;
      const focused = target.closest?.<HTMLElement>(".react-flow__node")?.dataset["id"] ?? null;
      if (act(event, focused, current.current)) event.preventDefault();
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, [frame]);
}

/** Whether the key was the canvas's. */
function act(event: KeyboardEvent, focused: string | null, keys: Keys): boolean {
  const command = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  if (!keys.locked) {
    if (command && key === "z" && event.shiftKey) return done(keys.redo);
    if (command && key === "z") return done(keys.undo);
    if (command && key === "y") return done(keys.redo);
    if ((key === "delete" || key === "backspace") && !command) {
      return done(() => keys.remove(focused));
    }
  }
  if (key === "escape") return keys.escape();
  if (focused === null || command || event.altKey) return false;
  if (key === "enter" || key === " ") return done(() => keys.open(focused));
  const places = keys.places();
  if (key === "home" || key === "end") {
    const id = readingOrder(places).at(key === "home" ? 0 : -1);
    return done(() => id !== undefined && keys.walk(id));
  }
  const direction = ARROWS[event.key];
  if (direction === undefined) return false;
  if (event.shiftKey) {
    if (!keys.locked) keys.nudge(focused, SHIFTS[direction]);
    return true;
  }
  const from = places.get(focused);
  const to = from ? nextInDirection(places, from, direction) : null;
  if (to !== null) keys.walk(to);
  return true;
}

function done(act: () => unknown): true {
  act();
  return true;
}
