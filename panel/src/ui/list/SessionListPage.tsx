// The list of sessions: find one, begin one, put one away.

import { useCallback, useEffect, useRef, useState } from "react";

import {
  createSession,
  deleteSession,
  listSessions,
  patchSession,
  type Problem,
} from "../../client/rest";
import type { SessionInfo } from "../../client/types";
import { repeated } from "../../client/words";
import { AccountMenu } from "../account/AccountMenu";
import { createObstacle, useCaller } from "../account/useCaller";
import { Action } from "../common/Action";
import { Dialog } from "../common/Dialog";
import { Logo } from "../common/Logo";
import { moveFocus } from "../common/moveFocus";
import { SkipLinks } from "../common/SkipLinks";
import { ThemeToggle } from "../common/ThemeToggle";
import { useToasts } from "../common/Toasts";
import { FamilyDialog } from "../family/FamilyDialog";
import { pickFile, readWorkflowFile } from "../files";
import { OpenIcon, PlusIcon, SearchIcon } from "../icons";
import { navigate, sessionPath } from "../router";
import { EmptyList } from "./EmptyList";
import { SessionRow } from "./SessionRow";

interface Loaded {
  sessions: SessionInfo[];
  cursor: string | null;
}

export function SessionListPage() {
  const { fail } = useToasts();
  const [query, setQuery] = useState("");
  const [archived, setArchived] = useState(false);
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [deleting, setDeleting] = useState<SessionInfo | null>(null);
  const [family, setFamily] = useState<SessionInfo | null>(null);
  const closeFamily = useCallback(() => setFamily(null), []);
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  /** What has just been done, to be heard. */
  const [said, setSaid] = useState("");
  const heading = useRef<HTMLHeadingElement>(null);
  const list = useRef<HTMLUListElement>(null);
  // Answers come in any order; only the newest question's counts.
  const asked = useRef(0);
  /** What is loaded next is what a change has left. */
  const changed = useRef(false);

  const load = useCallback(async () => {
    const turn = ++asked.current;
    try {
      const page = await listSessions({ query: query.trim(), archived });
      if (turn !== asked.current) return;
      setLoaded({ sessions: page.sessions, cursor: page.next_cursor });
      setProblem(null);
    } catch (error) {
      if (turn === asked.current) setProblem((error as Problem).message);
    }
  }, [query, archived]);

  useEffect(() => {
    document.title = "Turnback";
    const timer = setTimeout(() => void load(), query === "" ? 0 : 180);
    const visible = () => {
      if (document.visibilityState === "visible") void load();
    };
    document.addEventListener("visibilitychange", visible);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [load, query]);

  const create = async (file: File | null) => {
    setBusy(true);
    try {
      const workflow = file ? await readWorkflowFile(file) : null;
      const session = await createSession(
        workflow ? { name: workflow.name, workflowText: workflow.text } : {},
      );
      navigate(sessionPath(session.id));
    } catch (error) {
      fail(error);
      setBusy(false);
    }
  };

  const openFile = async () => {
    const file = await pickFile();
    if (file) await create(file);
  };

  const more = async () => {
    if (!loaded?.cursor) return;
    const turn = asked.current;
    try {
      const page = await listSessions({ query: query.trim(), archived, cursor: loaded.cursor });
      if (turn !== asked.current) return;
      setLoaded({
        sessions: [...loaded.sessions, ...page.sessions],
        cursor: page.next_cursor,
      });
    } catch (error) {
      fail(error);
    }
  };

  const change = async (act: () => Promise<unknown>, done: string) => {
    try {
      await act();
      setSaid(done);
    } catch (error) {
      fail(error);
    }
    changed.current = true;
    await load();
  };
  // A row that has gone takes the focus with it.
  useEffect(() => {
    if (!changed.current) return;
    changed.current = false;
    if (document.activeElement === document.body) heading.current?.focus();
  }, [loaded]);

  const caller = useCaller();
  const cannotCreate = createObstacle(caller) ?? (busy ? "It is being made" : null);
  const sessions = loaded?.sessions ?? [];
  const twins = repeated(sessions.map((session) => session.name));
  const nothing = loaded !== null && sessions.length === 0;
  return (
    <div
      className={`list-page${over ? " is-over" : ""}`}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      }}
      onDrop={(event) => {
        const file = event.dataTransfer.files[0];
        setOver(false);
        if (!file) return;
        event.preventDefault();
        if (cannotCreate === null) void create(file);
      }}
    >
      <SkipLinks links={[["#sessions", "Skip to the sessions"]]} />
      <header className="list-head">
        <a
          className="wordmark"
          href="/"
          onClick={(event) => {
            event.preventDefault();
            navigate("/");
          }}
        >
          <Logo />
          Turnback
        </a>
        <div className="list-head-actions">
          <ThemeToggle />
          <AccountMenu />
        </div>
      </header>

      <main className="list-main" id="sessions" tabIndex={-1}>
        <div className="list-title">
          <h1 ref={heading} tabIndex={-1}>{archived ? "Archived sessions" : "Sessions"}</h1>
          <div className="actions">
            <Action className="button" blocked={cannotCreate} onAct={() => void openFile()}>
              <OpenIcon />
              Open a workflow file
            </Action>
            <Action
              className="button primary"
              blocked={cannotCreate}
              onAct={() => void create(null)}
            >
              <PlusIcon />
              New session
            </Action>
          </div>
        </div>

        <div className="list-tools">
          <label className="search">
            <SearchIcon />
            <input
              type="search"
              placeholder="Search by name"
              aria-label="Search sessions by name"
              value={query}
              onChange={(event) => setQuery(event.currentTarget.value)}
            />
          </label>
          <div className="segmented" role="group" aria-label="Which sessions">
            <button type="button" aria-pressed={!archived} onClick={() => setArchived(false)}>
              Current
            </button>
            <button type="button" aria-pressed={archived} onClick={() => setArchived(true)}>
              Archived
            </button>
          </div>
        </div>

        {problem !== null && (
          <div className="note warn" role="alert">
            {problem}{" "}
            <button type="button" className="link" onClick={() => void load()}>
              Try again
            </button>
          </div>
        )}
        <p className="sr-only" role="status">
          {said}{" "}
          {loaded ? `${sessions.length}${loaded.cursor ? " or more" : ""} sessions` : "Loading"}
        </p>
        {loaded === null && problem === null && <div className="list-waiting" aria-hidden="true" />}
        {nothing && (
          <EmptyList
            reason={query.trim() !== "" ? "search" : archived ? "archived" : "none"}
            query={query.trim()}
            blocked={cannotCreate}
            onCreate={() => void create(null)}
            onOpen={() => void openFile()}
          />
        )}
        {sessions.length > 0 && (
          <ul
            className="session-list"
            ref={list}
            onKeyDown={(event) => {
              if (!(event.target as HTMLElement).matches(".session-link")) return;
              if (moveFocus(event, list.current, ".session-link")) event.preventDefault();
            }}
          >
            {sessions.map((session) => (
              <SessionRow
                key={session.id}
                session={session}
                hasTwin={twins.has(session.name)}
                onRename={(name) =>
                  void change(() => patchSession(session.id, { name }), `Renamed to “${name}”.`)
                }
                onArchive={() =>
                  void change(
                    () => patchSession(session.id, { archived: !session.archived }),
                    session.archived
                      ? `Took “${session.name}” out of the archive.`
                      : `Archived “${session.name}”.`,
                  )
                }
                onFamily={() => setFamily(session)}
                onDelete={() => setDeleting(session)}
              />
            ))}
          </ul>
        )}
        {loaded?.cursor && (
          <button type="button" className="button more" onClick={() => void more()}>
            Show more
          </button>
        )}
      </main>

      <div className="drop-hint" aria-hidden={!over}>
        Drop a workflow file to begin a session with it
      </div>

      {family && (
        <FamilyDialog
          id={family.id}
          name={family.name}
          archived={family.archived}
          onClose={closeFamily}
        />
      )}
      {deleting && (
        <Dialog title={`Delete “${deleting.name}”?`} onClose={() => setDeleting(null)}>
          <p>
            The conversation and its workflow disappear from here for good. Sessions that were forked
            from it stay, with what they inherited. To keep it out of the way instead, archive it.
          </p>
          <div className="actions">
            <button type="button" className="button" onClick={() => setDeleting(null)}>
              Keep it
            </button>
            <button
              type="button"
              className="button danger"
              onClick={() => {
                const { id, name } = deleting;
                setDeleting(null);
                void change(() => deleteSession(id), `Deleted “${name}”.`);
              }}
            >
              Delete
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}
