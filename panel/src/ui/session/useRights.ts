// What the reader may do with a session, told anew whenever somebody has changed it.

import { useEffect, useState } from "react";

import { getSession } from "../../client/sharing";
import type { Right } from "../../client/types";
import { useCaller } from "../account/useCaller";

const ALL: ReadonlySet<Right> = new Set(["read", "run", "fork", "manage"]);

/** Null until it is known. `sharing` rises with each change. */
export function useRights(id: string, sharing: number): ReadonlySet<Right> | null {
  const { key_id } = useCaller();
  const [rights, setRights] = useState<ReadonlySet<Right> | null>(key_id === null ? ALL : null);
  useEffect(() => {
    if (key_id === null) return;
    let wanted = true;
    void getSession(id).then(
      (session) => {
        if (wanted) setRights(new Set(session.rights));
      },
      // The server refuses what is not allowed, whatever the page shows.
      () => {
        if (wanted) setRights((now) => now ?? ALL);
      },
    );
    return () => {
      wanted = false;
    };
  }, [id, key_id, sharing]);
  return rights;
}
