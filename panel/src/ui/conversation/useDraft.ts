// What is written but not sent, kept per session over a reload.

import { useCallback, useState } from "react";

function key(id: string): string {
  return `turnback.draft.${id}`;
}

function read(id: string): string {
  try {
    return localStorage.getItem(key(id)) ?? "";
  } catch {
    return "";
  }
}

export function useDraft(id: string): [string, (text: string) => void] {
  const [draft, setDraft] = useState(() => read(id));
  const change = useCallback(
    (text: string) => {
      setDraft(text);
      try {
        if (text === "") localStorage.removeItem(key(id));
        else localStorage.setItem(key(id), text);
      } catch {
        // Storage can be forbidden or full; the draft then lives as long as the page.
      }
    },
    [id],
  );
  return [draft, change];
}
