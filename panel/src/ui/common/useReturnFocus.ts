// What opens over the page gives the focus back to where it came from when it closes.

import { useLayoutEffect } from "react";

export function useReturnFocus(): void {
  useLayoutEffect(() => {
    const before = document.activeElement;
    return () => {
      // After the closing itself: what was done may have sent the focus elsewhere on purpose.
      requestAnimationFrame(() => {
        const lost = document.activeElement === document.body;
        if (lost && before instanceof HTMLElement && before.isConnected) before.focus();
      });
    };
  }, []);
}
