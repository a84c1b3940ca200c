// A button that says why it cannot be pressed just now, and keeps the focus meanwhile: a disabled one
// would drop it, and could not be asked.

import type { ReactNode, Ref } from "react";

export function Action({
  blocked,
  title,
  label,
  className,
  pressed,
  onAct,
  children,
  tabIndex,
  ref,
}: {
  /** The reason why not; null when it can be pressed. */
  blocked: string | null;
  title?: string | undefined;
  /** Its name, where what it shows is none. */
  label?: string | undefined;
  className: string;
  /** Of one that stays pressed: whether it is. */
  pressed?: boolean | undefined;
  onAct: () => void;
  children: ReactNode;
  tabIndex?: number;
  ref?: Ref<HTMLButtonElement>;
}) {
  return (
    <button
      type="button"
      ref={ref}
      className={className}
      aria-label={label}
      aria-pressed={pressed}
      aria-disabled={blocked !== null || undefined}
      title={blocked ?? title}
      tabIndex={tabIndex}
      onClick={() => {
        if (blocked === null) onAct();
      }}
    >
      {children}
    </button>
  );
}
