// The sheet of a revert that is looked at: which turns go, whose edits, what changes on the canvas.

import { useEffect, useRef, useState } from "react";

import { promptText } from "../../client/paths";
import type { RestPlan, RestPreview } from "../../client/types";
import { counted, firstWords } from "../../client/words";
import { Action } from "../common/Action";
import { useReturnFocus } from "../common/useReturnFocus";
import { RevertIcon } from "../icons";
import { PlanGroups } from "../undo/PlanGroups";
import { Undecided } from "../undo/Undecided";
import type { PlanState } from "../undo/usePlan";
import { ChangeList } from "./ChangeList";
import type { Looked, Target } from "./usePreview";

/** Turns named one by one. */
const NAMED = 5;

export interface Agreed {
  expectedHeadId: string;
  keepEdits: boolean;
  confirm: boolean;
  /** The plan by which effects outside are undone too; null: they are left. */
  planId: string | null;
}

export function RevertPreview({
  target,
  looked,
  plan,
  blocked,
  undecided,
  onShow,
  onRevert,
  onClose,
}: {
  target: Target;
  /** Null while it is being fetched. */
  looked: Looked | null;
  /** What was done outside since then, and how far it can be taken back. */
  plan: PlanState;
  blocked: string | null;
  /** Why this page cannot decide that effects are undone. */
  undecided: string | null;
  /** Brings something into sight on the canvas. */
  onShow: (nodeId: string) => void;
  onRevert: (agreed: Agreed) => void;
  onClose: () => void;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  const [keep, setKeep] = useState(false);
  useReturnFocus();
  useEffect(() => heading.current?.focus(), [target]);

  const preview = looked?.preview ?? null;
  const keepEdits = keep && preview?.keeps_edits === true && preview.edit_count > 0;
  const words = firstWords(promptText(target.turn));
  const acts = plan.plan !== null && hasEffects(plan.plan);
  const wait = looked === null || plan.pending ? "It is still being looked at" : null;
  const agree = (planId: string | null) => {
    if (preview === null) return;
    onRevert({
      expectedHeadId: preview.head_id,
      keepEdits,
      confirm: preview.needs_confirm,
      planId,
    });
  };
  return (
    <section
      className="preview"
      data-acts={acts || undefined}
      role="dialog"
      aria-labelledby="preview-heading"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        onClose();
      }}
    >
      <h2 id="preview-heading" ref={heading} tabIndex={-1}>
        {target.step === null
          ? `Revert to before “${words}”?`
          : `Revert to before step ${target.step.stepId} of “${words}”?`}
      </h2>
      <div className="preview-body" tabIndex={0} role="group" aria-label="What it would do">
        <p role="status" className={looked?.renewed ? "note warn" : undefined}>
          {looked === null
            ? "Looking at what would change"
            : looked.renewed
              ? "The conversation has moved on. This is what the revert would do now."
              : summary(looked)}
        </p>
        {preview && preview.turn_count > 1 && <Turns preview={preview} />}
        {preview && preview.edit_count > 0 && (
          <Edits preview={preview} keep={keep} onKeep={setKeep} />
        )}
        {plan.failed && (
          <p className="note warn">
            What was done outside since then cannot be looked at just now. The revert leaves it as it is.
          </p>
        )}
        {(plan.pending || acts) && (
          <>
            <h3>Outside</h3>
            {acts && undecided !== null && <Undecided why={undecided} />}
            <PlanGroups state={plan} />
          </>
        )}
        {looked?.seen && (
          <>
            <h3>On the canvas</h3>
            <ChangeList changes={looked.seen.changes} onShow={onShow} />
          </>
        )}
        {looked && !looked.seen && (
          <p className="note warn">
            The present workflow cannot be read, so what would change is not known. The revert itself
            works.
          </p>
        )}
      </div>
      <div className="actions">
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
        <Action
          className={acts ? "button" : "button primary"}
          blocked={wait ?? blocked}
          onAct={() => agree(null)}
        >
          <RevertIcon />
          {acts || plan.failed ? "Revert the canvas only" : verb(preview, keepEdits)}
        </Action>
        {acts && (
          <Action
            className="button primary"
            blocked={wait ?? blocked ?? undecided ?? refusal(plan.plan)}
            onAct={() => agree(plan.plan?.plan_id ?? null)}
          >
            <RevertIcon />
            Revert and undo effects
          </Action>
        )}
      </div>
    </section>
  );
}

/** Whether there is anything outside to be told of. */
function hasEffects({ members, inherited }: RestPlan): boolean {
  return members.length > 0 || inherited.length > 0;
}

/** Why a plan cannot be carried out. */
function refusal(plan: RestPlan | null): string | null {
  if (plan === null || plan.members.length === 0) return "There is nothing to undo from here";
  return plan.runnable ? null : "Something else depends on what would be taken back";
}

function summary({ preview, seen }: Looked): string {
  const goes = `${counted(preview.turn_count, "turn")} would leave the conversation`;
  if (!seen) return `${goes}.`;
  const changes = seen.changes.length;
  return changes === 0
    ? `${goes}. The canvas stays as it is.`
    : `${goes}, and ${counted(changes, "thing")} would change on the canvas.`;
}

function verb(preview: RestPreview | null, keepEdits: boolean): string {
  if (preview === null) return "Revert";
  if (keepEdits) return "Revert, keep the edits";
  if (preview.needs_confirm) return "Revert their edits too";
  return `Revert ${counted(preview.turn_count, "turn")}`;
}

function Turns({ preview }: { preview: RestPreview }) {
  const named = preview.turns.slice(0, NAMED);
  const more = preview.turn_count - named.length;
  return (
    <>
      <h3>Turns that go</h3>
      <ul className="preview-turns">
        {named.map((turn) => (
          <li key={turn.turn_id} dir="auto">
            {firstWords(turn.content)}
          </li>
        ))}
        {more > 0 && <li className="more">and {more} more</li>}
      </ul>
    </>
  );
}

function Edits({
  preview,
  keep,
  onKeep,
}: {
  preview: RestPreview;
  keep: boolean;
  onKeep: (keep: boolean) => void;
}) {
  const others = [...new Set(preview.edits.filter((one) => !one.own).map((one) => one.by))];
  return (
    <div className="preview-edits">
      <p>
        {counted(preview.edit_count, "canvas edit")} made by hand
        {others.length > 0 ? `, some of them by ${others.join(" and ")},` : ""} would go too.
      </p>
      {preview.keeps_edits ? (
        <label className="check">
          <input
            type="checkbox"
            checked={keep}
            onChange={(event) => onKeep(event.currentTarget.checked)}
          />
          <span>
            Keep {others.length > 0 ? "the" : "my"} edits
            <small>They are made again as one edit, and there is then nothing to redo.</small>
          </span>
        </label>
      ) : (
        <p className="hint">They do not fit what the canvas would be, so they cannot be kept.</p>
      )}
    </div>
  );
}
