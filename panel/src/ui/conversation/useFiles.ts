// Which of a conversation's files are there no longer: a step never changes, so it does not say.

import { createContext, useCallback, useContext, useEffect, useMemo, useState } from "react";

import { goneOf } from "../../client/files";
import type { Step } from "../../client/types";

export interface Files {
  sessionId: string;
  gone: ReadonlySet<string>;
  /** This one was found to be gone. */
  lost: (id: string) => void;
}

export const FilesContext = createContext<Files>({
  sessionId: "",
  gone: new Set(),
  lost: () => undefined,
});

export function useFiles(): Files {
  return useContext(FilesContext);
}

/** Asks once for the files of a path, and again when it has others. */
export function useGoneFiles(sessionId: string, path: readonly Step[]): Files {
  const [gone, setGone] = useState<ReadonlySet<string>>(new Set());
  const wanted = useMemo(
    () => path.flatMap((step) => (step.attachments ?? []).map(({ id }) => id)).join(" "),
    [path],
  );
  useEffect(() => {
    if (wanted === "") return;
    let current = true;
    void goneOf(sessionId, new Set(wanted.split(" "))).then(
      (found) => {
        if (current) setGone(found);
      },
      () => undefined, // a download then says it
    );
    return () => {
      current = false;
    };
  }, [sessionId, wanted]);
  const lost = useCallback((id: string) => setGone((now) => new Set([...now, id])), []);
  return useMemo(() => ({ sessionId, gone, lost }), [sessionId, gone, lost]);
}
