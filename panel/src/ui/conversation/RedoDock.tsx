// After a revert: what was reverted, and the way forward again. It comes back after a reload.

import { redoPrompt } from "../../client/paths";
import type { SessionState } from "../../client/reducer";
import { RedoIcon, RevertIcon } from "../icons";
import { firstWords } from "../../client/words";

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
  const prompt = redoPrompt(state);
  const depth = state.redoDepth;
  return (
    <div className="dock" role="region" aria-label="Reverted">
      <RevertIcon />
      <p>
        {prompt ? (
          <>
            Reverted to before <strong>“{firstWords(prompt.content)}”</strong>
          </>
        ) : (
          "The last move was a revert"
        )}
        {depth > 1 && <span className="dock-depth">{depth} reverts can be redone</span>}
        {kept !== null && (
          <button type="button" className="link" onClick={() => onKept(kept)}>
            Add its prompt to your draft
          </button>
        )}
      </p>
      <div className="dock-actions">
        <button
          type="button"
          className="button"
          disabled={blocked !== null}
          title={blocked ?? "Go forward to where the last revert left from"}
          onClick={() => onRedo(false)}
        >
          <RedoIcon />
          Redo
        </button>
        {depth > 1 && (
          <button
            type="button"
            className="button quiet"
            disabled={blocked !== null}
            title={blocked ?? `Take back all ${depth} reverts`}
            onClick={() => onRedo(true)}
          >
            Redo all
          </button>
        )}
      </div>
    </div>
  );
}
