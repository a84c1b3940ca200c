// After a revert: what was reverted, and the way forward again. It comes back after a reload.

import { useContext } from "react";

import { redoable, stepsBetween } from "../../client/paths";
import type { SessionState } from "../../client/reducer";
import { Action } from "../common/Action";
import { RedoIcon, RevertIcon } from "../icons";
import { counted, firstWords } from "../../client/words";
import { OPEN_STANDINGS, OutsideContext, outsideOf } from "../undo/useOutside";

export function RedoDock({
  state,
  blocked,
  kept,
  onRedo,
  onKept,
  onUndo,
}: {
  state: SessionState;
  blocked: string | null;
  /** The reverted prompt, when a draft keeps it out of the composer. */
  kept: string | null;
  onRedo: (all: boolean) => void;
  onKept: (text: string) => void;
  /** What turns did outside is to be undone; null for who may not. */
  onUndo: ((turnIds: string[]) => void) | null;
}) {
  if (!state.canRedo) return null;
  const forward = redoable(state);
  const prompt = forward?.prompt ?? null;
  const depth = state.redoDepth;
  return (
    <div className="dock" role="region" aria-label="Reverted">
      <RevertIcon />
      <p>
        {forward === null ? (
          "Reverted"
        ) : prompt === null ? (
          "Reverted to the middle of a turn"
        ) : (
          <>
            Reverted {counted(forward.turns, "turn")}, to before{" "}
            <strong dir="auto">“{firstWords(prompt.content)}”</strong>
          </>
        )}
        {depth > 1 && <span className="dock-depth">{depth} reverts can be redone</span>}
        <span className="dock-next">
          A new message starts another line from here; this one stays as a branch.
        </span>
        <Outside state={state} blocked={blocked} onUndo={onUndo} />
        {kept !== null && (
          <button type="button" className="link" onClick={() => onKept(kept)}>
            Add its prompt to your draft
          </button>
        )}
      </p>
      <div className="dock-actions">
        <Action
          className="button"
          blocked={blocked}
          title="Go forward to where the last revert left from"
          onAct={() => onRedo(false)}
        >
          <RedoIcon />
          Redo
        </Action>
        {depth > 1 && (
          <Action
            className="button quiet"
            blocked={blocked}
            title={`Take back all ${depth} reverts`}
            onAct={() => onRedo(true)}
          >
            Redo all
          </Action>
        )}
      </div>
    </div>
  );
}

/** Of what Redo brings back: which effects outside stand all the same, and which it does not do again. */
function Outside({
  state,
  blocked,
  onUndo,
}: {
  state: SessionState;
  blocked: string | null;
  onUndo: ((turnIds: string[]) => void) | null;
}) {
  const outside = useContext(OutsideContext);
  const { steps, redoId, headId } = state;
  const back = redoId === null ? null : stepsBetween(steps, redoId, headId);
  const known = (back ?? [])
    .flatMap((step) => step.toolCalls ?? [])
    .map((call) => outsideOf(outside, call.toolCallId))
    .filter(({ effect, standing }) => effect !== null && standing !== null);
  const inForce = known.filter(({ standing }) => standing !== null && OPEN_STANDINGS.has(standing));
  const gone = known.length - inForce.length;
  // What an undo has been about is said by its own dock.
  const stand = inForce.filter(({ item }) => item === null);
  const own = stand.filter(({ owner }) => owner === null);
  return (
    <>
      {stand.length > 0 && (
        <span className="dock-next is-warn">
          {counted(stand.length, "effect")} of it outside {stand.length === 1 ? "is" : "are"} still in
          force.{" "}
          {onUndo !== null && own.length > 0 && (
            <Action
              className="link"
              blocked={blocked}
              onAct={() => onUndo([...new Set(own.flatMap(({ effect }) => effect?.turn_id ?? []))])}
            >
              Undo {own.length === 1 ? "it" : "them"}…
            </Action>
          )}
        </span>
      )}
      {gone > 0 && (
        <span className="dock-next">
          {counted(gone, "effect")} of it outside {gone === 1 ? "is" : "are"} no longer in force; Redo
          does not do {gone === 1 ? "it" : "them"} again.
        </span>
      )}
    </>
  );
}
