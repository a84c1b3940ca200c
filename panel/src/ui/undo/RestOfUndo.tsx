// What an undo has not come to, in a new plan: looked at, and carried out without moving HEAD.

import { useMemo, useState } from "react";

import type { SessionState } from "../../client/reducer";
import type { Problem } from "../../client/rest";
import { startUndo } from "../../client/undos";
import { Action } from "../common/Action";
import { RevertIcon } from "../icons";
import { PlanGroups } from "./PlanGroups";
import { usePlan } from "./usePlan";

export function RestOfUndo({
  id,
  undoId,
  state,
  fail,
  onStarted,
}: {
  id: string;
  undoId: string;
  state: SessionState;
  fail: (error: unknown) => void;
  onStarted: () => void;
}) {
  const asked = useMemo(() => ({ undo_id: undoId }), [undoId]);
  const looked = usePlan(id, asked, state, fail);
  const [starting, setStarting] = useState(false);
  const { plan } = looked;
  const start = () => {
    if (plan === null || starting) return;
    setStarting(true);
    startUndo(id, plan.plan_id).then(onStarted, (problem: Problem) => {
      setStarting(false);
      if (problem.code === "plan_changed") looked.renew();
      fail(problem);
    });
  };
  return (
    <section className="rest-of-undo" aria-label="The rest, in a new plan">
      {looked.failed ? (
        <p className="note warn">What is left cannot be looked at just now.</p>
      ) : (
        <PlanGroups state={looked} />
      )}
      <Action
        className="button primary"
        blocked={
          plan === null
            ? "It is still being looked at"
            : plan.members.length === 0
              ? "Nothing of it is in force any more"
              : plan.runnable
                ? null
                : "Something else depends on what would be undone"
        }
        onAct={start}
      >
        <RevertIcon />
        Undo these effects
      </Action>
    </section>
  );
}
