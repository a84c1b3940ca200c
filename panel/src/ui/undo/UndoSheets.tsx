// The sheets about effects outside: the report of an undo, and the plan of one that leaves HEAD where it is.

import { useState } from "react";

import type { SessionState } from "../../client/reducer";
import type { AskedUndo } from "../../client/undos";
import { Dialog } from "../common/Dialog";
import { ReportDialog } from "./ReportDialog";
import { UndoEffects } from "./UndoEffects";

export type UndoSheet =
  | { sheet: "report"; undoId: string }
  | { sheet: "effects"; asked: AskedUndo; label: string };

export interface UndoSheetState {
  shown: UndoSheet | null;
  report: (undoId: string) => void;
  /** What these turns did outside is to be undone, whether the conversation has them or not. */
  undo: (turnIds: string[]) => void;
  /** Single effects are. */
  undoEffects: (effectIds: string[]) => void;
  close: () => void;
}

export function useUndoSheets(): UndoSheetState {
  const [shown, setShown] = useState<UndoSheet | null>(null);
  const [acts] = useState(() => ({
    report: (undoId: string) => setShown({ sheet: "report", undoId }),
    undo: (turnIds: string[]) =>
      setShown({
        sheet: "effects",
        asked: { turn_ids: turnIds },
        label: turnIds.length === 1 ? "What the turn did outside" : "What these turns did outside",
      }),
    undoEffects: (effectIds: string[]) =>
      setShown({ sheet: "effects", asked: { effect_ids: effectIds }, label: "What was done outside" }),
    close: () => setShown(null),
  }));
  return { shown, ...acts };
}

export function UndoSheets({
  id,
  sheets,
  state,
  cannot,
  undecided,
  fail,
}: {
  id: string;
  sheets: UndoSheetState;
  state: SessionState;
  /** Why nothing can be changed just now. */
  cannot: string | null;
  /** Why this page cannot decide what a person has to. */
  undecided: string | null;
  fail: (error: unknown) => void;
}) {
  const { shown, report, close } = sheets;
  const started = (undoId: string | null) => (undoId === null ? close() : report(undoId));
  switch (shown?.sheet) {
    case "report":
      return (
        <ReportDialog
          key={shown.undoId}
          id={id}
          undoId={shown.undoId}
          state={state}
          cannot={cannot}
          undecided={undecided}
          fail={fail}
          onReport={report}
          onClose={close}
        />
      );
    case "effects":
      return (
        <Dialog title="Undo effects outside" onClose={close}>
          <p className="hint">The conversation and the canvas stay as they are.</p>
          <UndoEffects
            id={id}
            asked={shown.asked}
            label={shown.label}
            state={state}
            cannot={cannot}
            undecided={undecided}
            fail={fail}
            onStarted={started}
          />
          <div className="actions">
            <button type="button" className="button" onClick={close}>
              Cancel
            </button>
          </div>
        </Dialog>
      );
    case undefined:
      return null;
  }
}
