// One session: the canvas beside the conversation, or, on a narrow page, one of the two at a time.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { parseJson } from "../../client/json";
import { forksOf, neighbourLine, turnsOf, visiblePath, type Turn } from "../../client/paths";
import type { Move } from "../../client/ownEdits";
import { patchSession, workflowText } from "../../client/rest";
import type { Edit, Workflow } from "../../client/types";
import { Canvas } from "../canvas/Canvas";
import { Boundary } from "../common/Boundary";
import { NotFoundPage } from "../common/NotFoundPage";
import { useToasts } from "../common/Toasts";
import { Composer } from "../conversation/Composer";
import { Conversation } from "../conversation/Conversation";
import { RedoDock } from "../conversation/RedoDock";
import { useDraft } from "../conversation/useDraft";
import { download, readWorkflowFile } from "../files";
import { ConnectionBanner } from "./ConnectionBanner";
import { obstacle } from "./obstacle";
import { ShortcutSheet } from "./ShortcutSheet";
import { StatusLine } from "./StatusLine";
import { TopBar } from "./TopBar";
import { useSession } from "./useSession";
import { useShortcuts } from "./useShortcuts";

export function SessionPage({ id }: { id: string }) {
  const { fail } = useToasts();
  const [session, view] = useSession(id);
  const { state, connection } = view;
  const [pane, setPane] = useState<"canvas" | "conversation">("conversation");
  const [help, setHelp] = useState(false);
  const [sent, setSent] = useState(0);
  const [draft, setDraft] = useDraft(id);
  /** The prompt of the turn that this page reverted, while a draft keeps it out of the composer. */
  const [kept, setKept] = useState<string | null>(null);
  const composer = useRef<HTMLTextAreaElement>(null);
  const draftNow = useRef(draft);
  draftNow.current = draft;
  /** The prompt that a revert has put into the composer. */
  const returned = useRef<string | null>(null);

  const path = useMemo(() => visiblePath(state.steps, state.headId), [state.steps, state.headId]);
  const turns = useMemo(() => turnsOf(path), [path]);
  const forks = useMemo(() => forksOf(state.branches), [state.branches]);
  const blocked = obstacle(view);
  const generating = state.agent === "GENERATING" || state.agent === "STOPPING";

  useEffect(() => {
    document.title = state.ready ? `${state.name} · Turnback` : "Turnback";
  }, [state.ready, state.name]);

  useEffect(() => {
    if (!state.canRedo) setKept(null);
  }, [state.canRedo]);

  const attempt = useCallback(
    async (act: () => Promise<unknown>): Promise<boolean> => {
      try {
        await act();
        return true;
      } catch (problem) {
        fail(problem);
        return false;
      }
    },
    [fail],
  );

  const send = async () => {
    const content = draft.trim();
    if (content === "" || blocked !== null) return;
    setDraft("");
    setSent((count) => count + 1);
    // What was not taken goes back, unless something else has been written meanwhile.
    if (!(await attempt(() => session.prompt(content))) && draftNow.current === "") setDraft(content);
  };

  const stop = useCallback(() => void attempt(() => session.stop()), [attempt, session]);

  const revert = useCallback(
    async (turn: Turn) => {
      if (!(await attempt(() => session.revert(turn.id)))) return;
      const prompt = turn.prompt?.kind === "edit" ? null : (turn.prompt?.content ?? null);
      const untouched = draftNow.current.trim() === "" || draftNow.current === returned.current;
      returned.current = untouched ? prompt : null;
      if (untouched) setDraft(prompt ?? "");
      setKept(untouched ? null : prompt);
      composer.current?.focus({ preventScroll: true });
    },
    [attempt, session, setDraft],
  );

  const redo = useCallback(
    async (all: boolean) => {
      if (!(await attempt(() => session.redo({ all })))) return;
      // A prompt that the revert returned, and that nobody touched, goes back with the redo.
      if (draftNow.current === returned.current) setDraft("");
      returned.current = null;
      composer.current?.focus({ preventScroll: true });
    },
    [attempt, session, setDraft],
  );

  const checkout = useCallback(
    (stepId: string) => void attempt(() => session.checkout(stepId)),
    [attempt, session],
  );

  const edit = useCallback(
    (edits: Edit[], inverse?: Edit[]) => void attempt(() => session.edit(edits, inverse)),
    [attempt, session],
  );

  const move = useCallback((moves: Move[]) => session.moveThings(moves), [session]);
  const undoEdit = useCallback(() => void attempt(() => session.undoEdit()), [attempt, session]);
  const redoEdit = useCallback(() => void attempt(() => session.redoEdit()), [attempt, session]);

  const openFile = useCallback(
    (file: File) =>
      void attempt(async () => {
        const { text } = await readWorkflowFile(file);
        await session.edit([{ op: "replaceWorkflow", workflow: parseJson(text) as Workflow }]);
      }),
    [attempt, session],
  );

  const save = useCallback(
    () => void attempt(async () => download(state.name, await workflowText(id))),
    [attempt, id, state.name],
  );

  useShortcuts({
    help: () => setHelp(true),
    stop: generating && !help ? stop : null,
    revertLast: () => {
      const last = turns.at(-1);
      if (last && blocked === null) void revert(last);
    },
    redo: () => {
      if (state.canRedo && blocked === null) void redo(false);
    },
    line: (by) => {
      const tip = blocked === null ? neighbourLine(path, forks, by) : null;
      if (tip !== null) checkout(tip);
    },
  });

  if (connection.phase === "closed") return <NotFoundPage sentence={connection.reason} />;
  if (state.deleted) return <NotFoundPage sentence="This session has been deleted." />;

  const last = turns.at(-1);
  return (
    <div className="session-page" data-pane={pane}>
      <TopBar
        name={state.name}
        ready={state.ready}
        pane={pane}
        onPane={setPane}
        onRename={(name) => void attempt(() => patchSession(id, { name }))}
        onSave={save}
        onHelp={() => setHelp(true)}
      />
      <ConnectionBanner status={connection} onRetry={() => session.retryNow()} />
      <main className="panes">
        <Boundary
          sentence="This workflow cannot be drawn. The conversation works: revert, or ask for a change."
          of={view.workflow}
        >
          <Canvas
            key={id}
            workflow={view.workflow}
            ready={state.ready}
            blocked={blocked}
            canUndo={view.canUndoEdit}
            canRedo={view.canRedoEdit}
            onEdit={edit}
            onMove={move}
            onUndo={undoEdit}
            onRedo={redoEdit}
            onOpenFile={openFile}
          />
        </Boundary>
        <section className="conversation" aria-label="Conversation">
          <StatusLine view={view} steps={last?.steps.length ?? 0} />
          <Conversation
            state={state}
            path={path}
            turns={turns}
            forks={forks}
            sent={sent}
            blocked={blocked}
            onRevert={(turn) => void revert(turn)}
            onCheckout={checkout}
            onOlder={() => attempt(() => session.loadOlder())}
            onExample={(text) => {
              setDraft(text);
              composer.current?.focus();
            }}
          />
          <div className="composing">
            <RedoDock
              state={state}
              blocked={blocked}
              kept={kept}
              onRedo={(all) => void redo(all)}
              onKept={(text) => {
                setDraft(draft.trim() === "" ? text : `${draft.trimEnd()}\n${text}`);
                setKept(null);
                composer.current?.focus();
              }}
            />
            <Composer
              field={composer}
              draft={draft}
              onDraft={setDraft}
              blocked={blocked}
              generating={generating}
              stopping={state.agent === "STOPPING"}
              onSend={() => void send()}
              onStop={stop}
            />
          </div>
        </section>
      </main>
      {help && <ShortcutSheet onClose={() => setHelp(false)} />}
    </div>
  );
}
