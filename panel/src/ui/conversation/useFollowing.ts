// Where the reader is in the conversation: at its end, which is then followed, or somewhere above, which
// stays where it is when older turns come.

import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";

/** How near its end, in pixels, a reader counts as following. */
const NEAR = 60;

export interface Following {
  following: boolean;
  onScroll: () => void;
  toEnd: () => void;
  /** Before older turns are put above: what is read stays where it is. */
  hold: () => void;
}

/** `changes` are what makes the log longer. */
export function useFollowing(
  log: RefObject<HTMLElement | null>,
  sent: number,
  changes: readonly unknown[],
): Following {
  const [following, setFollowing] = useState(true);
  const held = useRef<{ turn: Element; top: number } | null>(null);

  useEffect(() => setFollowing(true), [sent]);

  useLayoutEffect(() => {
    const element = log.current;
    if (!element) return;
    const was = held.current;
    if (was !== null && was.turn !== element.querySelector(".turn")) {
      held.current = null;
      keepInPlace(element, was, SETTLING);
    } else if (following) {
      element.scrollTop = element.scrollHeight;
    }
  }, [...changes, following]);

  useEffect(() => {
    const element = log.current;
    if (!element) return;
    // The composer grows and shrinks this element too.
    const observer = new ResizeObserver(() => {
      if (following) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [log, following]);

  const onScroll = useCallback(() => {
    const element = log.current;
    if (!element) return;
    const { scrollHeight, scrollTop, clientHeight } = element;
    setFollowing(scrollHeight - scrollTop - clientHeight < NEAR);
  }, [log]);
  const toEnd = useCallback(() => setFollowing(true), []);
  const hold = useCallback(() => {
    const turn = log.current?.querySelector(".turn");
    held.current = turn ? { turn, top: turn.getBoundingClientRect().top } : null;
  }, [log]);
  return { following, onScroll, toEnd, hold };
}

/** Frames in which turns that were only estimated get their true height. */
const SETTLING = 4;

function keepInPlace(
  log: HTMLElement,
  { turn, top }: { turn: Element; top: number },
  frames: number,
): void {
  const off = turn.getBoundingClientRect().top - top;
  if (off !== 0) log.scrollTop += off;
  if (frames > 0) requestAnimationFrame(() => keepInPlace(log, { turn, top }, frames - 1));
}
