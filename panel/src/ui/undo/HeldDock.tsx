// Over the composer: calls that are held back, with the time that is left to cancel them. Nobody has seen
// them yet, so that is one press.

import { useContext, useEffect, useState } from "react";

import type { Problem } from "../../client/rest";
import { planUndo, startUndo } from "../../client/undos";
import { Action } from "../common/Action";
import { ClockIcon } from "../icons";
import { toSecond } from "../time";
import { OutsideContext } from "./useOutside";

export function HeldDock({
  id,
  blocked,
  fail,
  onSheet,
}: {
  id: string;
  /** Why nothing can be cancelled just now; `undefined` for who may not at all. */
  blocked: string | null | undefined;
  fail: (error: unknown) => void;
  /** More than a cancel: what else goes with it is to be seen first. */
  onSheet: (effectIds: string[]) => void;
}) {
  const { effects, held } = useContext(OutsideContext);
  const [busy, setBusy] = useState<string | null>(null);
  const shown = [...effects.values()].filter((effect) => held.has(effect.effect_id));

  const cancel = async (effectId: string) => {
    setBusy(effectId);
    try {
      const plan = await planUndo(id, { effect_ids: [effectId], with_dependents: false });
      if (plan.plain && plan.members.length > 0) await startUndo(id, plan.plan_id);
      else onSheet([effectId]);
    } catch (problem) {
      // It was sent meanwhile: the plan is another one, and is to be seen.
      if ((problem as Problem).code === "plan_changed") onSheet([effectId]);
      else fail(problem);
    }
    setBusy(null);
  };

  return shown.map((effect) => {
    const until = held.get(effect.effect_id) ?? 0;
    return (
      <div className="dock held-dock" role="region" aria-label="Held back" key={effect.effect_id}>
        <ClockIcon />
        <p>
          <strong>
            <code>{effect.tool}</code> is not sent yet
          </strong>
          <span className="dock-next">
            {effect.what !== "" && (
              <>
                <bdi>{effect.what}</bdi>:{" "}
              </>
            )}
            will be sent at {toSecond(until)} <Left until={until} />
          </span>
        </p>
        {blocked !== undefined && (
          <div className="dock-actions">
            <Action
              className="button"
              label={`Cancel ${effect.tool} before it is sent`}
              title="Nobody has seen it: after that nothing of it is left"
              blocked={busy === effect.effect_id ? "It is on its way" : blocked}
              onAct={() => void cancel(effect.effect_id)}
            >
              Cancel
            </Action>
          </div>
        )}
      </div>
    );
  });
}

/** The time that is left, to be seen; what is heard is when it ends. */
export function Left({ until }: { until: number }) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  return <span aria-hidden="true">({remaining(until - now)})</span>;
}

/** `in 24 s`, `in 3 min`, `now`. */
export function remaining(milliseconds: number): string {
  const seconds = Math.ceil(milliseconds / 1000);
  if (seconds <= 0) return "now";
  return seconds < 120 ? `in ${seconds} s` : `in ${Math.round(seconds / 60)} min`;
}
