// The rows of the history, to walk with the arrows: up and down, into a turn and out of it.

import { useContext, useEffect, useMemo, useRef, type KeyboardEvent } from "react";

import { everyTurn, type HistoryRow, type TurnOnLine } from "../../client/history";
import type { SessionState } from "../../client/reducer";
import type { RestResidue } from "../../client/types";
import { DownIcon } from "../icons";
import { OutsideContext } from "../undo/useOutside";
import { HistoryEntry } from "./HistoryEntry";
import { RailMark, railWidth } from "./RailMark";
import { doneIn, doneInOpen, type Done } from "./summaries";

export function HistoryTree({
  trunk,
  rows,
  state,
  residues,
  selected,
  onSelect,
  onOpen,
  onAct,
}: {
  trunk: readonly TurnOnLine[];
  rows: readonly HistoryRow[];
  state: SessionState;
  residues: ReadonlyMap<string, RestResidue> | null;
  /** The key of the row that is chosen. */
  selected: string;
  onSelect: (key: string) => void;
  onOpen: (key: string, open: boolean) => void;
  /** What the chosen row is for. */
  onAct: (row: HistoryRow) => void;
}) {
  const outside = useContext(OutsideContext);
  const list = useRef<HTMLUListElement>(null);
  const lanes = Math.max(1, ...rows.map((row) => row.rail.lane + 1));
  const known = useMemo(
    () => new Set(everyTurn(trunk).flatMap((turn) => turn.steps.map((step) => step.id))),
    [trunk],
  );
  const doneOf = (row: HistoryRow): Done[] => {
    switch (row.kind) {
      case "step":
        return row.step ? doneIn(row.step, outside, residues) : [];
      case "open":
        return doneInOpen(row.turn, known, outside, residues);
      case "turn": {
        const { turn } = row;
        const open = turn.hasHead ? doneInOpen(turn, known, outside, residues) : [];
        return [...turn.steps.flatMap((step) => doneIn(step, outside, residues)), ...open];
      }
      case "beginning":
      case "earlier":
        return [];
    }
  };

  const present = rows.some((row) => row.key === selected) ? selected : rows[0]?.key;
  const focus = (row: HistoryRow | undefined) => {
    if (!row) return;
    onSelect(row.key);
    list.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(row.key)}"]`)?.focus();
  };
  // Once it is there, what it opens with has the keyboard.
  const landed = useRef(false);
  useEffect(() => {
    if (landed.current || rows.length === 0) return;
    landed.current = true;
    const row = list.current?.querySelector<HTMLElement>("[tabindex='0']");
    row?.focus();
    row?.scrollIntoView({ block: "center" });
  }, [rows]);

  const onKeyDown = (event: KeyboardEvent, at: number) => {
    const row = rows[at];
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const { key, level, expanded } = row;
    if (event.key === "ArrowDown") focus(rows[at + 1]);
    else if (event.key === "ArrowUp") focus(rows[at - 1]);
    else if (event.key === "Home") focus(rows[0]);
    else if (event.key === "End") focus(rows.at(-1));
    else if (event.key === "ArrowRight" && expanded === false) onOpen(key, true);
    else if (event.key === "ArrowRight" && expanded === true) focus(rows[at + 1]);
    else if (event.key === "ArrowLeft" && expanded === true) onOpen(key, false);
    else if (event.key === "ArrowLeft") {
      focus(rows.slice(0, at).findLast((one) => one.level < level));
    } else if (event.key === "Enter" || event.key === " ") onAct(row);
    else return;
    event.preventDefault();
  };

  return (
    <ul className="history" role="tree" aria-label="History" ref={list}>
      {rows.map((row, at) => (
        <li
          key={row.key}
          data-row={row.key}
          data-kind={row.kind}
          data-off={!row.turn.onPath || undefined}
          role="treeitem"
          aria-level={row.level}
          aria-setsize={row.of}
          aria-posinset={row.place}
          aria-expanded={row.expanded ?? undefined}
          aria-selected={row.key === present}
          aria-current={row.kind !== "step" && row.turn.hasHead ? "step" : undefined}
          tabIndex={row.key === present ? 0 : -1}
          onKeyDown={(event) => onKeyDown(event, at)}
          onFocus={() => onSelect(row.key)}
          onClick={() => {
            onSelect(row.key);
            if (row.kind === "earlier") onAct(row);
          }}
          onDoubleClick={() => onAct(row)}
        >
          <svg className="rail-room" width={railWidth(lanes)} height="1" aria-hidden="true" />
          <RailMark row={row} width={lanes} />
          <span
            className="family-toggle"
            aria-hidden="true"
            onClick={(event) => {
              event.stopPropagation();
              if (row.expanded !== null) onOpen(row.key, !row.expanded);
            }}
            onDoubleClick={(event) => event.stopPropagation()}
          >
            {row.expanded !== null && <DownIcon />}
          </span>
          <div className="entry">
            <HistoryEntry
              row={row}
              done={doneOf(row)}
              headId={state.headId}
              redoId={state.redoId}
              waitingFor={state.waitingFor}
            />
          </div>
        </li>
      ))}
    </ul>
  );
}
