// An earlier state that is looked at: the path to one step and the workflow there. It never changes.

import { useCallback, useEffect, useState } from "react";

import { getSteps, workflowAt, type Problem } from "../../client/rest";
import type { Step, Workflow } from "../../client/types";

export interface Earlier {
  stepId: string;
  /** The path to the step, oldest first, as far back as it is loaded. */
  path: Step[];
  workflow: Workflow;
  /** Where older steps go on; null when all are here. */
  cursor: string | null;
}

export type Look =
  | { phase: "loading" }
  | { phase: "failed"; problem: Problem }
  | { phase: "ready"; earlier: Earlier };

/** What is at `stepId`; null while no earlier state is looked at. */
export function useEarlier(
  id: string,
  stepId: string | null,
): { look: Look | null; loadOlder: () => Promise<void> } {
  const [found, setFound] = useState<{ stepId: string; look: Look } | null>(null);
  useEffect(() => {
    if (stepId === null) return;
    let wanted = true;
    void Promise.all([getSteps(id, { at: stepId }), workflowAt(id, stepId)]).then(
      ([{ steps, cursor }, workflow]) => {
        const earlier = { stepId, path: steps, workflow, cursor };
        if (wanted) setFound({ stepId, look: { phase: "ready", earlier } });
      },
      (problem: Problem) => {
        if (wanted) setFound({ stepId, look: { phase: "failed", problem } });
      },
    );
    return () => {
      wanted = false;
    };
  }, [id, stepId]);

  const loadOlder = useCallback(async () => {
    if (found?.look.phase !== "ready" || found.look.earlier.cursor === null) return;
    const { earlier } = found.look;
    const { steps, cursor } = await getSteps(id, { before: earlier.cursor });
    setFound({
      stepId: found.stepId,
      look: { phase: "ready", earlier: { ...earlier, path: [...steps, ...earlier.path], cursor } },
    });
  }, [id, found]);

  if (stepId === null) return { look: null, loadOlder };
  return { look: found?.stepId === stepId ? found.look : { phase: "loading" }, loadOlder };
}
