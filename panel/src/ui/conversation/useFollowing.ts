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
  const heightBefore = useRef<number | null>(null);

  useEffect(() => setFollowing(true), [sent]);

  useLayoutEffect(() => {
    const element = log.current;
    if (!element) return;
    if (heightBefore.current !== null) {
      element.scrollTop += element.scrollHeight - heightBefore.current;
      heightBefore.current = null;
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
    heightBefore.current = log.current?.scrollHeight ?? null;
  }, [log]);
  return { following, onScroll, toEnd, hold };
}
