// The files that the next message is to have, drawn as they come and go.

import { useEffect, useState, useSyncExternalStore } from "react";

import { json } from "../../client/rest";
import { Uploads, type FileLimits, type Kept, type Upload } from "../../client/uploads";

export interface UploadsView {
  uploads: Uploads;
  list: readonly Upload[];
  /** Null until the server has told them. */
  limits: FileLimits | null;
}

let known: FileLimits | null = null;

export function useUploads(id: string): UploadsView {
  const [limits, setLimits] = useState(known);
  const [uploads] = useState(() => new Uploads(id, () => known, keptIn(`turnback.files.${id}`)));
  const list = useSyncExternalStore(uploads.subscribe, uploads.all);
  useEffect(() => {
    if (known !== null) return;
    void json<{ limits: FileLimits }>("GET", "/capabilities").then(
      (capabilities) => {
        known = capabilities.limits;
        setLimits(known);
      },
      () => undefined, // the server then says it itself
    );
  }, []);
  return { uploads, list, limits };
}

function keptIn(key: string): Kept {
  return {
    read: () => {
      try {
        return JSON.parse(sessionStorage.getItem(key) ?? "[]") as Upload[];
      } catch {
        return [];
      }
    },
    write: (list) => {
      try {
        if (list.length === 0) sessionStorage.removeItem(key);
        else sessionStorage.setItem(key, JSON.stringify(list));
      } catch {
        // Storage can be forbidden or full; they are then kept as long as the page.
      }
    },
  };
}
