// Effects that are to be undone without moving HEAD, in a plan of their own: of a turn, in the conversation or
// out of it, or what an earlier undo has not come to.

import { useEffect, useRef, useState } from "react";

import type { SessionState } from "../../client/reducer";
import type { Problem } from "../../client/rest";
import { startUndo, type AskedUndo } from "../../client/undos";
import { Action } from "../common/Action";
import { RevertIcon } from "../icons";
import { PlanGroups } from "./PlanGroups";
import { Undecided } from "./Undecided";
import { usePlan } from "./usePlan";

export function UndoEffects({
  id,
  label,
  state,
  cannot,
  undecided,
  fail,
  onStarted,
  asked,
}: {
  id: string;
  /** What they are, as a heading. */
  label: string;
  state: SessionState;
  /** Why nothing can be changed just now. */
  cannot: string | null;
  /** Why this page cannot decide what a person has to. */
  undecided: string | null;
  fail: (error: unknown) => void;
  /** With the undo's id; null where nothing was left to undo. */
  onStarted: (undoId: string | null) => void;
  /** Which they are. */
  asked: AskedUndo;
}) {
  const looked = usePlan(id, asked, state, fail);
  const [starting, setStarting] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const { plan } = looked;
  const start = () => {
    if (plan === null || starting) return;
    setStarting(true);
    startUndo(id, plan.plan_id).then(onStarted, (problem: Problem) => {
      setStarting(false);
      // Somebody, or another tab, has clicked first: theirs is the one that goes on.
      const other = problem.data["undoId"];
      if (problem.code === "undo_in_progress" && typeof other === "string") return onStarted(other);
      if (problem.code === "plan_changed") looked.renew();
      fail(problem);
    });
  };
  return (
    <section className="undo-effects" aria-labelledby="undo-effects-heading">
      <h3 id="undo-effects-heading" ref={heading} tabIndex={-1}>
        {label}
      </h3>
      {undecided !== null && <Undecided why={undecided} />}
      {looked.failed ? (
        <p className="note warn">What is left cannot be looked at just now.</p>
      ) : (
        <PlanGroups state={looked} />
      )}
      <Action
        className="button primary"
        blocked={
          cannot ??
          undecided ??
          (plan === null
            ? "It is still being looked at"
            : plan.members.length === 0
              ? "Nothing of it is in force any more"
              : plan.runnable
                ? null
                : "Something else depends on what would be taken back")
        }
        onAct={start}
      >
        <RevertIcon />
        Undo these effects
      </Action>
    </section>
  );
}
