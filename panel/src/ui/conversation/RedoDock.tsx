// After a revert: what was reverted, and the way forward again. It comes back after a reload.

import { redoable } from "../../client/paths";
import type { SessionState } from "../../client/reducer";
import { Action } from "../common/Action";
import { RedoIcon, RevertIcon } from "../icons";
import { counted, firstWords } from "../../client/words";

export function RedoDock({
  state,
  blocked,
  kept,
  onRedo,
  onKept,
}: {
  state: SessionState;
  blocked: string | null;
  /** The reverted prompt, when a draft keeps it out of the composer. */
  kept: string | null;
  onRedo: (all: boolean) => void;
  onKept: (text: string) => void;
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
