// The history: the step tree with HEAD, who and when, and what each step did outside. Every state of it can
// be looked at; what a turn did outside can be taken back from here, in the conversation or out of it.

import { useContext, useMemo, useState } from "react";

import { everyTurn, lastStepOf, messageOf, rowsOf, type HistoryRow } from "../../client/history";
import type { SessionState } from "../../client/reducer";
import { Action } from "../common/Action";
import { Dialog } from "../common/Dialog";
import { EyeIcon, RevertIcon } from "../icons";
import { navigate, sessionPath } from "../router";
import { OutsideContext, standsOf } from "../undo/useOutside";
import { HistoryTree } from "./HistoryTree";
import { useHistory } from "./useHistory";

export function HistoryDialog({
  id,
  state,
  at,
  mayRun,
  blocked,
  fail,
  onUndo,
  onClose,
}: {
  id: string;
  state: SessionState;
  /** The earlier state that is looked at, if there is one. */
  at: string | null;
  mayRun: boolean;
  /** Why nothing can be changed just now. */
  blocked: string | null;
  fail: (error: unknown) => void;
  /** What turns did outside is to be undone. */
  onUndo: (turnIds: string[]) => void;
  onClose: () => void;
}) {
  const { trunk, residues, loading, purged, loadOlder } = useHistory(id, state, mayRun, fail);
  const outside = useContext(OutsideContext);
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [selected, setSelected] = useState<string | null>(null);
  const turns = useMemo(() => everyTurn(trunk), [trunk]);

  const running = state.agent === "GENERATING" || state.agent === "STOPPING";
  const open = useMemo(() => {
    const from = turns.filter((turn) => {
      const set = opened.get(turn.key);
      if (set !== undefined) return set;
      // What parts, what has reached outside, and what is at work is open from the start.
      return (
        turn.lines.length > 0 || (turn.hasHead && running) || turn.steps.some((s) => s.effects.length > 0)
      );
    });
    return new Set(from.map((turn) => turn.key));
  }, [turns, opened, running]);
  const atWork = useMemo(() => {
    const head = turns.find((turn) => turn.hasHead);
    return running && head ? messageOf(head) : null;
  }, [turns, running]);
  const rows = useMemo(() => rowsOf(trunk, open, atWork), [trunk, open, atWork]);

  const startsAt = useMemo(() => {
    const wanted = turns.find((turn) =>
      at === null ? turn.hasHead : lastStepOf(turn) === at || turn.steps.some((s) => s.id === at),
    );
    return wanted?.key ?? "";
  }, [turns, at]);
  const chosen = selected ?? startsAt;
  const row = rows.find((one) => one.key === chosen) ?? null;

  const look = (one: HistoryRow) => {
    if (one.kind === "earlier") {
      loadOlder?.();
      return;
    }
    const stepId = one.step?.id ?? lastStepOf(one.turn);
    onClose();
    navigate(sessionPath(id, one.kind === "open" || stepId === state.headId ? null : stepId));
  };
  const turnId = row === null ? null : messageOf(row.turn);
  const stands = turnId === null ? 0 : standsOf(turnId, outside);

  return (
    <Dialog title="History" wide onClose={onClose}>
      {purged && (
        <p className="note">What came before this was removed for good.</p>
      )}
      {trunk.length === 0 ? (
        <p className="hint" role="status">
          {loading ? "Loading" : "Nothing is here yet."}
        </p>
      ) : (
        <HistoryTree
          trunk={trunk}
          rows={rows}
          state={state}
          residues={residues}
          selected={chosen}
          onSelect={setSelected}
          onOpen={(key, isOpen) => setOpened((now) => new Map(now).set(key, isOpen))}
          onAct={look}
        />
      )}
      <div className="actions">
        {row !== null && row.kind !== "earlier" && (
          <button type="button" className="button" onClick={() => look(row)}>
            <EyeIcon />
            {isNow(row, state.headId) ? "Go to it" : "Look at the state there"}
          </button>
        )}
        {mayRun && stands > 0 && turnId !== null && (
          <Action
            className="button"
            blocked={blocked}
            onAct={() => {
              onClose();
              onUndo([turnId]);
            }}
          >
            <RevertIcon />
            Undo what this turn did outside
          </Action>
        )}
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function isNow(row: HistoryRow, headId: string): boolean {
  return row.kind === "open" || (row.step?.id ?? lastStepOf(row.turn)) === headId;
}
