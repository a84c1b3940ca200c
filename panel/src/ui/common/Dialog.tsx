// A modal sheet: the browser's own dialog, so that focus stays inside and Escape closes it.

import { useEffect, useId, useRef, type ReactNode } from "react";

import { useReturnFocus } from "./useReturnFocus";

export function Dialog({
  title,
  wide = false,
  onClose,
  children,
}: {
  title: string;
  /** What it shows needs room. */
  wide?: boolean;
  onClose: () => void;
  children: ReactNode;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useReturnFocus();
  useEffect(() => {
    const element = dialog.current;
    if (!element) return;
    if (!element.open) element.showModal();
    return () => element.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={wide ? "dialog is-wide" : "dialog"}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div className="dialog-body">
        <h2 id={heading}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
