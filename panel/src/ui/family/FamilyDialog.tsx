// A session among those that it comes from and those that come from it: a tree to walk and to open.

import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";

import { familyFrom, rowsOf, withForks, type Family, type Row } from "../../client/family";
import { familyOf } from "../../client/forks";
import { timeOf } from "../../client/paths";
import type { Problem } from "../../client/rest";
import { repeated } from "../../client/words";
import { Dialog } from "../common/Dialog";
import { DownIcon } from "../icons";
import { navigate, sessionPath } from "../router";
import { full } from "../time";

export function FamilyDialog({
  id,
  name,
  archived,
  onClose,
}: {
  id: string;
  name: string;
  archived: boolean;
  onClose: () => void;
}) {
  const [family, setFamily] = useState<Family | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    void familyOf(id).then(
      (answer) => wanted && setFamily(familyFrom(answer, name, archived)),
      (error: Problem) => wanted && setProblem(error.message),
    );
    return () => {
      wanted = false;
    };
  }, [id, name, archived]);

  const load = async (of: string, cursor: string | null) => {
    try {
      const answer = await familyOf(of, cursor);
      setFamily((now) => now && withForks(now, answer));
      setProblem(null);
    } catch (error) {
      setProblem((error as Problem).message);
    }
  };
  const alone = family !== null && family.root === id && family.members.size === 1;
  return (
    <Dialog title={`The family of “${name}”`} onClose={onClose}>
      {problem !== null && (
        <p className="note warn" role="alert">
          {problem}
        </p>
      )}
      {family === null && problem === null && <p className="hint">Loading</p>}
      {alone && (
        <p className="hint">
          It is no fork, and nothing was forked from it. Fork from any turn of its conversation.
        </p>
      )}
      {family !== null && !alone && (
        <>
          <Tree
            family={family}
            onLoad={load}
            onOpen={(to) => {
              onClose();
              navigate(sessionPath(to));
            }}
          />
          <p className="hint">Sessions that were deleted, or that you may not read, are not shown.</p>
        </>
      )}
      <div className="actions">
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

const keyOf = (row: Row) => `${row.kind} ${row.id}`;

function Tree({
  family,
  onLoad,
  onOpen,
}: {
  family: Family;
  onLoad: (id: string, cursor: string | null) => Promise<void>;
  onOpen: (id: string) => void;
}) {
  const [open, setOpen] = useState<ReadonlySet<string>>(
    () => new Set([...family.members.values()].flatMap((one) => (one.children.length ? one.id : []))),
  );
  const [stop, setStop] = useState(`session ${family.id}`);
  const list = useRef<HTMLUListElement>(null);
  /** Which line is to have the focus when more have come. */
  const landing = useRef<number | null>(null);
  const rows = useMemo(() => rowsOf(family, open), [family, open]);
  const twins = useMemo(
    () => repeated([...family.members.values()].map((one) => one.name)),
    [family],
  );
  const present = rows.some((row) => keyOf(row) === stop) ? stop : `session ${family.id}`;

  const focus = (row: Row | undefined) => {
    if (!row) return;
    setStop(keyOf(row));
    list.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(keyOf(row))}"]`)?.focus();
  };
  useEffect(() => {
    list.current?.querySelector<HTMLElement>("[tabindex='0']")?.focus();
  }, []);

  const set = (id: string, isOpen: boolean) => {
    const member = family.members.get(id);
    // Opened for the first time it is not known what there is.
    if (isOpen && member && member.cursor === undefined && member.children.length === 0) {
      void onLoad(id, null);
    }
    setOpen((now) => {
      const next = new Set(now);
      if (isOpen) next.add(id);
      else next.delete(id);
      return next;
    });
  };

  const act = (row: Row) => {
    if (row.kind === "session") {
      onOpen(row.id);
      return;
    }
    landing.current = rows.indexOf(row);
    void onLoad(row.id, family.members.get(row.id)?.cursor ?? null);
  };
  // Where it stood is now the first of what it has brought, or what comes next.
  useEffect(() => {
    const at = landing.current;
    landing.current = null;
    if (at !== null) focus(rows[at] ?? rows.at(-1));
  }, [rows]);

  const onKeyDown = (event: KeyboardEvent, at: number) => {
    const row = rows[at];
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    const expanded = row.kind === "session" ? row.open : null;
    if (event.key === "ArrowDown") focus(rows[at + 1]);
    else if (event.key === "ArrowUp") focus(rows[at - 1]);
    else if (event.key === "Home") focus(rows[0]);
    else if (event.key === "End") focus(rows.at(-1));
    else if (event.key === "ArrowRight" && expanded === false) set(row.id, true);
    else if (event.key === "ArrowRight" && expanded === true) focus(rows[at + 1]);
    else if (event.key === "ArrowLeft" && expanded === true) set(row.id, false);
    else if (event.key === "ArrowLeft") {
      focus(rows.slice(0, at).findLast((one) => one.level < row.level));
    } else if (event.key === "Enter" || event.key === " ") act(row);
    else return;
    event.preventDefault();
  };

  return (
    <ul className="family" role="tree" aria-label="Family" ref={list}>
      {rows.map((row, at) => {
        const member = family.members.get(row.id);
        const self = row.kind === "session" && row.id === family.id;
        const expanded = row.kind === "session" ? row.open : null;
        return (
          <li
            key={keyOf(row)}
            data-row={keyOf(row)}
            data-level={Math.min(row.level, DEEPEST)}
            role="treeitem"
            aria-level={row.level}
            aria-setsize={row.of}
            aria-posinset={row.place}
            aria-expanded={expanded ?? undefined}
            aria-current={self ? "page" : undefined}
            aria-selected={self}
            tabIndex={keyOf(row) === present ? 0 : -1}
            onKeyDown={(event) => onKeyDown(event, at)}
            onFocus={() => setStop(keyOf(row))}
            onClick={() => act(row)}
          >
            {expanded !== null ? (
              <span
                className="family-toggle"
                aria-hidden="true"
                onClick={(event) => {
                  event.stopPropagation();
                  set(row.id, !expanded);
                }}
              >
                <DownIcon />
              </span>
            ) : (
              <span className="family-toggle" aria-hidden="true" />
            )}
            {row.kind === "more" ? (
              <span className="family-more">
                {member?.cursor === undefined ? "Its other forks" : "More forks"}
              </span>
            ) : (
              <>
                <span className="station" aria-hidden="true" />
                <bdi className="family-name">{member?.name}</bdi>
                {member && twins.has(member.name) && (
                  <span className="made">made {full(timeOf(member.id))}</span>
                )}
                {self && <span className="tag">This one</span>}
                {member?.archived && <span className="tag">Archived</span>}
              </>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Levels from which on lines are no longer set further in. */
const DEEPEST = 8;
