// One turn: the person's words, what the agent did, and the way back to before it.

import { memo, useContext, type ReactNode } from "react";

import type { ForkRequest } from "../../client/forks";
import type { Fork, Turn } from "../../client/paths";
import { promptText } from "../../client/paths";
import type { Step } from "../../client/types";
import { firstWords } from "../../client/words";
import { Action } from "../common/Action";
import { Menu, type MenuItem } from "../common/Menu";
import { DiffIcon, EyeIcon, PencilIcon, RevertIcon, StopIcon, WorldIcon } from "../icons";
import { clock, full } from "../time";
import { OutsideContext, standsOf } from "../undo/useOutside";
import { WorldChip } from "../undo/WorldChip";
import { AgentStep } from "./AgentStep";
import { BranchPicker } from "./BranchPicker";
import { ForkMenu } from "./ForkMenu";
import { LongText } from "./LongText";
import { PromptFiles } from "./PromptFiles";

/** What can be done with a turn; each is the same function for as long as the page is open. */
export interface TurnActions {
  /** To before the turn, at once where nothing else goes with it. */
  revert: (turn: Turn) => void;
  /** What that would change, to be looked at first. */
  preview: (turn: Turn) => void;
  /** To before one of its steps. */
  revertStep: (turn: Turn, step: Step) => void;
  look: (stepId: string) => void;
  checkout: (stepId: string) => void;
  /** What it did outside, with the conversation left as it is. */
  undo: (turn: Turn) => void;
  /** Stops the agent in this turn, and then reverts it. */
  stopAndRevert: (turn: Turn) => void;
  /** To a new session that goes on from before or after a turn. */
  fork: (request: ForkRequest) => void;
}

export const TurnView = memo(function TurnView({
  turn,
  newest,
  forks,
  blocked,
  forkBlocked,
  writable,
  running,
  going,
  actions,
  children,
}: {
  turn: Turn;
  newest: boolean;
  forks: ReadonlyMap<string, Fork>;
  blocked: string | null;
  /** Why it cannot be forked from, whatever can be done with it otherwise. */
  forkBlocked: string | null;
  /** The reader may write in this session. */
  writable: boolean;
  running: boolean;
  /** It would go with the revert that is looked at. */
  going: boolean;
  actions: TurnActions;
  /** What is still streaming, when this turn runs. */
  children?: ReactNode;
}) {
  const outside = useContext(OutsideContext);
  const { prompt } = turn;
  const edit = prompt?.kind === "edit";
  const words = firstWords(promptText(turn));
  const label = `Revert to before “${words}”`;
  const last = turn.steps.at(-1) ?? prompt;

  const picker = (step: Step) => {
    const fork = forks.get(step.parentId);
    return fork?.lines.some((line) => line.stepId === step.id) ? (
      <BranchPicker fork={fork} shown={step.id} blocked={blocked} onCheckout={actions.checkout} />
    ) : null;
  };

  const items: MenuItem[] = [
    {
      label: "Preview the revert",
      detail: "What would change, before it does",
      icon: <DiffIcon />,
      blocked,
      onSelect: () => actions.preview(turn),
    },
  ];
  if (writable && standsOf(turn.id, outside) > 0) {
    items.push({
      label: "Undo what it did outside",
      detail: "The conversation stays as it is",
      icon: <WorldIcon />,
      blocked,
      onSelect: () => actions.undo(turn),
    });
  }
  if (last && !newest) {
    items.push({
      label: "Look at the state after this turn",
      icon: <EyeIcon />,
      onSelect: () => actions.look(last.id),
    });
  }
  for (const step of turn.steps.slice(1)) {
    items.push({
      key: step.id,
      label: `Revert to before step ${step.stepId}`,
      detail: stepWords(step),
      icon: <RevertIcon />,
      blocked,
      onSelect: () => actions.revertStep(turn, step),
    });
  }

  return (
    <article
      className={`turn${edit ? " is-edit" : ""}${going ? " is-going" : ""}`}
      data-turn={turn.id}
      aria-label={edit ? `Canvas edit: ${words}` : words}
    >
      {prompt && picker(prompt)}
      <div className="turn-head">
        <span className="station" aria-hidden="true" />
        {edit && <PencilIcon />}
        <LongText className="turn-prompt" text={promptText(turn)} marked={edit} />
        {prompt && (
          <time dateTime={new Date(prompt.timestamp).toISOString()} title={full(prompt.timestamp)}>
            {clock(prompt.timestamp)}
          </time>
        )}
      </div>
      {prompt?.attachments && prompt.attachments.length > 0 && (
        <PromptFiles files={prompt.attachments} />
      )}
      {prompt?.world && prompt.world.length > 0 && <WorldChip entries={prompt.world} />}
      {going && <p className="going">Goes with the revert</p>}
      {turn.steps.map((step) => (
        <div className="turn-step" key={step.id}>
          {picker(step)}
          <AgentStep step={step} />
        </div>
      ))}
      {children}
      <div className="turn-actions">
        <Action
          className="revert"
          label={label}
          title={label}
          blocked={blocked === null ? null : `Cannot revert now: ${blocked.toLowerCase()}`}
          onAct={() => actions.revert(turn)}
        >
          <RevertIcon />
          <span>{label}</span>
        </Action>
        {running && writable && (
          <button type="button" className="button small" onClick={() => actions.stopAndRevert(turn)}>
            <StopIcon />
            Stop and revert
          </button>
        )}
        <ForkMenu
          turn={turn}
          running={running}
          blocked={forkBlocked}
          writable={writable}
          onFork={actions.fork}
        />
        <Menu
          label={`More for “${words}”`}
          className="button icon-only quiet small"
          items={items}
        />
      </div>
    </article>
  );
});

/** What a step did, in a few words. */
function stepWords(step: Step): string {
  const call = step.toolCalls?.[0];
  const summary = call?.input["summary"];
  if (typeof summary === "string" && summary !== "") return firstWords(summary);
  if (step.content.trim() !== "") return firstWords(step.content);
  return call?.toolName ?? "A step without text";
}
