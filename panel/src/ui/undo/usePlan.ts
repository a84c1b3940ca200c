// The plan of an undo that is looked at: from the log at once, and what a look at the world then finds.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import type { SessionState } from "../../client/reducer";
import type { Problem } from "../../client/rest";
import { planUndo, type AskedUndo } from "../../client/undos";
import type { RestPlan, UndoItem } from "../../client/types";

export type Check = UndoItem["check"];

export interface PlanState {
  /** Null while it is being made, or where none is asked for. */
  plan: RestPlan | null;
  /** Whether one is being made. */
  pending: boolean;
  /** It could not be made: what was done outside is not known. */
  failed: boolean;
  /** What was found so far, by effect. */
  checks: ReadonlyMap<string, Check>;
  /** The plan anew, with what depends on its members too. */
  include: () => void;
  /** The plan anew: what it would do is no longer what was shown. */
  renew: () => void;
}

/** `asked` is null where there is nothing to plan; it is asked anew when HEAD or a member has changed. */
export function usePlan(
  id: string,
  asked: AskedUndo | null,
  { headId, checks, told }: Pick<SessionState, "headId" | "checks" | "told">,
  fail: (error: unknown) => void,
): PlanState {
  const [found, setFound] = useState<{ key: string; plan: RestPlan | null } | null>(null);
  const [including, setIncluding] = useState(false);
  const [tries, setTries] = useState(0);
  const body = asked === null ? null : JSON.stringify(asked);
  const key = `${body} ${including} ${headId} ${tries}`;

  useEffect(() => setIncluding(false), [body]);
  useEffect(() => {
    if (body === null) return;
    let wanted = true;
    const whole = { ...(JSON.parse(body) as AskedUndo), with_dependents: including };
    planUndo(id, whole).then(
      (plan) => {
        if (wanted) setFound({ key, plan });
      },
      (problem: Problem) => {
        if (!wanted) return;
        setFound({ key, plan: null });
        fail(problem);
      },
    );
    return () => {
      wanted = false;
    };
  }, [id, body, including, key, fail]);

  // What is told of a member after its plan was made is a reason to make it anew.
  const known = useRef(told);
  useEffect(() => {
    const before = known.current;
    known.current = told;
    const members = found?.plan?.members ?? [];
    if (members.some(({ effect_id }) => told.get(effect_id) !== before.get(effect_id))) {
      setTries((count) => count + 1);
    }
  }, [found, told]);

  const plan = body !== null && found?.key === key ? found.plan : null;
  const seen = plan === null ? undefined : checks.get(plan.plan_id);
  const byEffect = useMemo(
    () => new Map(seen?.items.map((item) => [item.effectId, item.check])),
    [seen],
  );
  return {
    plan,
    pending: body !== null && found?.key !== key,
    failed: body !== null && found?.key === key && plan === null,
    checks: byEffect,
    include: useCallback(() => setIncluding(true), []),
    renew: useCallback(() => setTries((count) => count + 1), []),
  };
}
