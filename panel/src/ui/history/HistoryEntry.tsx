// What a row of the history says: who asked for what and when, what came of it outside, where HEAD is.

import { lastStepOf, type HistoryRow } from "../../client/history";
import type { Approval, Step } from "../../client/types";
import { counted, firstWords } from "../../client/words";
import { LOCAL, useCaller } from "../account/useCaller";
import { full } from "../time";
import { OwnerBadge } from "../undo/OwnerBadge";
import { Said } from "../undo/Said";
import { StandingBadge } from "../undo/StandingBadge";
import { totals, type Done } from "./summaries";

export function HistoryEntry({
  row,
  done,
  headId,
  redoId,
  waitingFor,
}: {
  row: HistoryRow;
  /** Of a turn, what all its steps have done. */
  done: readonly Done[];
  headId: string;
  redoId: string | null;
  waitingFor: readonly Approval[];
}) {
  const { kind, turn, step } = row;
  switch (kind) {
    case "beginning":
      return (
        <div className="entry-line">
          <span className="entry-words">The beginning</span>
          {turn.hasHead && <HeadTag />}
        </div>
      );
    case "earlier":
      return <span className="entry-more">Show what came before</span>;
    case "turn":
      return (
        <>
          <div className="entry-line">
            <strong className="entry-words" dir="auto">
              {turn.prompt
                ? firstWords(turn.prompt.content, 90)
                : `The rest of a turn: ${stepWords(turn.steps[0])}`}
            </strong>
            {turn.hasHead && (row.expanded !== true || headId === lastStepOf(turn)) && <HeadTag />}
            {turn.hasRedo && redoId === lastStepOf(turn) && <span className="tag">Redo leads here</span>}
          </div>
          <p className="entry-made">
            <Made step={turn.prompt ?? turn.steps[0]} />
            {turn.prompt?.kind === "edit"
              ? ", a canvas edit"
              : `, ${counted(turn.steps.length, "step")}`}
            {row.expanded === false &&
              turn.lines.length > 0 &&
              `, ${counted(turn.lines.length, "other line")} from here`}
          </p>
          <Totals done={done} onPath={turn.onPath} />
        </>
      );
    case "step":
      return (
        <>
          <div className="entry-line">
            <span className="entry-words" dir="auto">
              {stepWords(step)}
            </span>
            {step?.id === headId && headId !== lastStepOf(turn) && <HeadTag />}
            {step?.id === redoId && redoId !== lastStepOf(turn) && <span className="tag">Redo leads here</span>}
          </div>
          <Effects done={done} />
        </>
      );
    case "open":
      return (
        <>
          <div className="entry-line">
            <span className="entry-words">The step that it is at</span>
            <span className="tag">Not finished</span>
          </div>
          {waitingFor.length > 0 && (
            <p className="entry-made">
              Waits for a decision about {waitingFor.map((one) => one.toolName).join(", ")}
            </p>
          )}
          <Effects done={done} />
        </>
      );
  }
}

function HeadTag() {
  return (
    <span className="tag is-head" title="The conversation and the canvas are here">
      HEAD
    </span>
  );
}

/** Who did it, and when. */
function Made({ step }: { step: Step | undefined }) {
  const { principal, key_id } = useCaller();
  if (!step) return null;
  const time = (
    <time dateTime={new Date(step.timestamp).toISOString()}>{full(step.timestamp)}</time>
  );
  // Before there are keys everybody is the same one.
  if (key_id === null && step.by === LOCAL.principal) return time;
  return (
    <>
      <bdi>{step.by === principal ? "you" : step.by}</bdi>, {time}
    </>
  );
}

/** Of a turn: how its effects stand, in counts. */
function Totals({ done, onPath }: { done: readonly Done[]; onPath: boolean }) {
  const { standings, open } = totals(done);
  if (standings.length === 0) return null;
  return (
    <p className="entry-badges">
      {standings.map(([standing, count]) => (
        <StandingBadge
          key={standing}
          standing={standing}
          count={count}
          // Its turn is not in the conversation, and what it did stands.
          out={!onPath && standing === "in_force"}
        />
      ))}
      {open > 0 && (
        <span className="left-badge">
          {counted(open, "thing")} {open === 1 ? "remains" : "remain"}
        </span>
      )}
    </p>
  );
}

const NOTHING_STANDS: Readonly<Record<string, string>> = {
  done_unchanged: "changed nothing",
  failed_clean: "failed, nothing changed",
  intent: "under way",
};

function Effects({ done }: { done: readonly Done[] }) {
  if (done.length === 0) return null;
  return (
    <ul className="entry-effects">
      {done.map(({ effect, standing, heldUntil, owner, left }) => (
        <li key={effect.effect_id}>
          <code>{effect.tool}</code> {effect.what !== "" && <bdi>{effect.what}</bdi>}{" "}
          {standing === null ? (
            <small>{NOTHING_STANDS[effect.state] ?? "nothing stands"}</small>
          ) : (
            <StandingBadge standing={standing} heldUntil={heldUntil} />
          )}
          {owner !== null && <OwnerBadge owner={owner} />}
          {left !== null && (
            <span className="entry-left" data-status={left.status}>
              {left.what === null ? "Something remains." : <Said text={left.what} />}{" "}
              {left.status === "acknowledged" && <em>Acknowledged.</em>}
              {left.status === "settled" && <em>It has settled.</em>}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

/** What a step did, in a few words. */
function stepWords(step: Step | null | undefined): string {
  if (!step) return "";
  if (step.content.trim() !== "") return firstWords(step.content, 90);
  const calls = step.toolCalls ?? [];
  const summary = calls[0]?.input["summary"];
  if (typeof summary === "string" && summary !== "") return firstWords(summary, 90);
  return calls.length > 0 ? calls.map((call) => call.toolName).join(", ") : "A step without text";
}
