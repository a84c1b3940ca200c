// A button that opens a short menu, above whatever scrolls or cuts.

import {
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useRef,
  useState,
  type CSSProperties,
  type KeyboardEvent,
  type ReactNode,
} from "react";

import { MoreIcon } from "../icons";
import { moveFocus } from "./moveFocus";

export interface MenuItem {
  key?: string;
  label: string;
  icon?: ReactNode;
  /** A second, quieter line. */
  detail?: string;
  /** One of several choices: whether it is the present one. */
  checked?: boolean;
  /** Why it cannot be chosen just now. */
  blocked?: string | null;
  danger?: boolean;
  onSelect: () => void;
}

/** Pixels between the button, its menu and the window's edge. */
const GAP = 6;

export function Menu({
  label,
  items,
  trigger = <MoreIcon />,
  className = "button icon-only quiet",
  title,
  tabIndex,
}: {
  label: string;
  items: MenuItem[];
  trigger?: ReactNode;
  className?: string;
  title?: string;
  tabIndex?: number;
}) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const [place, setPlace] = useState<CSSProperties>({});
  const id = useId();

  const hang = useCallback(() => {
    const from = button.current?.getBoundingClientRect();
    const menu = list.current?.getBoundingClientRect();
    if (!from || !menu) return;
    const below = innerHeight - from.bottom;
    const left = Math.max(GAP, Math.min(from.right - menu.width, innerWidth - menu.width - GAP));
    setPlace(
      below > menu.height + GAP || below > from.top
        ? { left, top: from.bottom + GAP, maxHeight: below - 2 * GAP }
        : { left, bottom: innerHeight - from.top + GAP, maxHeight: from.top - 2 * GAP },
    );
  }, []);
  useLayoutEffect(() => {
    if (open) hang();
  }, [open, hang]);

  useEffect(() => {
    if (!open) return;
    const entries = list.current;
    (
      entries?.querySelector<HTMLElement>("[aria-checked=true]") ??
      entries?.querySelector<HTMLElement>("[data-entry]")
    )?.focus({ preventScroll: true });
    const close = (event: Event) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", close);
    // It goes along with what it hangs from.
    addEventListener("scroll", hang, true);
    addEventListener("resize", hang);
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("scroll", hang, true);
      removeEventListener("resize", hang);
    };
  }, [open, hang]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (!open) return;
    if (event.key === "Tab") {
      setOpen(false);
      return;
    }
    if (event.key === "Escape") {
      setOpen(false);
      button.current?.focus();
    } else if (!moveFocus(event, list.current, "[data-entry]")) return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div className="menu" ref={root} onKeyDown={onKeyDown}>
      <button
        type="button"
        ref={button}
        className={className}
        title={title}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        tabIndex={tabIndex}
        onClick={() => setOpen(!open)}
      >
        {trigger}
      </button>
      {open && (
        <div className="menu-list" role="menu" aria-label={label} id={id} ref={list} style={place}>
          {items.map((item) => (
            <button
              type="button"
              key={item.key ?? item.label}
              role={item.checked === undefined ? "menuitem" : "menuitemradio"}
              aria-checked={item.checked}
              aria-disabled={item.blocked != null || undefined}
              title={item.blocked ?? undefined}
              data-entry=""
              tabIndex={-1}
              className={item.danger ? "danger" : undefined}
              onClick={() => {
                if (item.blocked != null) return;
                setOpen(false);
                button.current?.focus();
                item.onSelect();
              }}
            >
              {item.icon}
              <span className="menu-words" dir="auto">
                {item.label}
                {item.detail !== undefined && <small>{item.detail}</small>}
              </span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
