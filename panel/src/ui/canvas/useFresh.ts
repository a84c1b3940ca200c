// Which operators have just come or changed, so that a watcher sees where to look.

import { useEffect, useRef, useState } from "react";

import type { Operator, Workflow } from "../../client/types";

/** As long as the mark's animation, in milliseconds. */
const LASTS = 1_800;
const NONE: ReadonlySet<string> = new Set();

/** An operator that has not changed is the same object (`client/share.ts`). */
export function useFresh(workflow: Workflow, ready: boolean): ReadonlySet<string> {
  const before = useRef<Map<string, Operator> | null>(null);
  const [fresh, setFresh] = useState(NONE);
  useEffect(() => {
    if (!ready) return;
    const now = new Map(workflow.operators?.map((one) => [one.operatorID, one]));
    const known = before.current;
    before.current = now;
    // The first workflow is not news.
    if (known === null) return;
    const changed = [...now].filter(([id, one]) => known.get(id) !== one).map(([id]) => id);
    if (changed.length > 0) setFresh(new Set(changed));
  }, [workflow, ready]);
  useEffect(() => {
    if (fresh.size === 0) return;
    const timer = setTimeout(() => setFresh(NONE), LASTS);
    return () => clearTimeout(timer);
  }, [fresh]);
  return fresh;
}
