// One turn: the person's words, what the agent did, and the way back to before it.

import type { ReactNode } from "react";

import type { Fork, Turn } from "../../client/paths";
import { promptText } from "../../client/paths";
import type { Step } from "../../client/types";
import { PencilIcon, RevertIcon } from "../icons";
import { clock, full } from "../time";
import { AgentStep } from "./AgentStep";
import { BranchPicker } from "./BranchPicker";
import { firstWords } from "../../client/words";

export function TurnView({
  turn,
  forks,
  blocked,
  onRevert,
  onCheckout,
  children,
}: {
  turn: Turn;
  forks: ReadonlyMap<string, Fork>;
  blocked: string | null;
  onRevert: (turn: Turn) => void;
  onCheckout: (stepId: string) => void;
  /** What is still streaming, when this turn runs. */
  children?: ReactNode;
}) {
  const { prompt } = turn;
  const edit = prompt?.kind === "edit";
  const label = `Revert to before “${firstWords(promptText(turn))}”`;

  const picker = (step: Step) => {
    const fork = forks.get(step.parentId);
    return fork?.lines.some((line) => line.stepId === step.id) ? (
      <BranchPicker fork={fork} shown={step.id} blocked={blocked} onCheckout={onCheckout} />
    ) : null;
  };

  return (
    <article className={`turn${edit ? " is-edit" : ""}`} data-turn={turn.id}>
      {prompt && picker(prompt)}
      <div className="turn-head">
        <span className="station" aria-hidden="true" />
        {edit && <PencilIcon />}
        <p className="turn-prompt">{promptText(turn)}</p>
        {prompt && (
          <time dateTime={new Date(prompt.timestamp).toISOString()} title={full(prompt.timestamp)}>
            {clock(prompt.timestamp)}
          </time>
        )}
      </div>
      {turn.steps.map((step) => (
        <div className="turn-step" key={step.id}>
          {picker(step)}
          <AgentStep step={step} />
        </div>
      ))}
      {children}
      <button
        type="button"
        className="revert"
        aria-label={label}
        disabled={blocked !== null}
        title={blocked === null ? label : `Cannot revert now: ${blocked.toLowerCase()}`}
        onClick={() => onRevert(turn)}
      >
        <RevertIcon />
        <span>{label}</span>
      </button>
    </article>
  );
}
