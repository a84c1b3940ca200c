// A link to another address of this page: it goes there without loading the page anew.

import type { ReactNode } from "react";

import { navigate } from "../router";

export function PageLink({
  to,
  className,
  title,
  label,
  children,
}: {
  to: string;
  className?: string;
  title?: string;
  /** Its name, where what it shows is none. */
  label?: string;
  children: ReactNode;
}) {
  return (
    <a
      href={to}
      className={className}
      title={title}
      aria-label={label}
      onClick={(event) => {
        // In a new tab or window it is the browser's.
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        navigate(to);
      }}
    >
      {children}
    </a>
  );
}
