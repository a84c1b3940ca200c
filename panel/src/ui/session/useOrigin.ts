// Where a session comes from, asked once it is open.

import { useEffect, useState } from "react";

import { familyOf } from "../../client/forks";
import type { RestLineage, RestRelative } from "../../client/types";

export interface Origin {
  lineage: RestLineage;
  /** Null where it may not be read. */
  parent: RestRelative | null;
}

/** Null for a session that is no fork, and until it is known. */
export function useOrigin(id: string, ready: boolean): Origin | null {
  const [origin, setOrigin] = useState<Origin | null>(null);
  useEffect(() => {
    if (!ready) return;
    let wanted = true;
    void familyOf(id).then(
      ({ lineage, ancestors }) => {
        const parent = ancestors.find((one) => one.session_id === lineage?.parent_id) ?? null;
        if (wanted) setOrigin(lineage && { lineage, parent });
      },
      () => undefined, // the conversation is whole without it
    );
    return () => {
      wanted = false;
    };
  }, [id, ready]);
  return origin;
}
