// One session: the canvas beside the conversation, or, on a narrow page, one of the two at a time.

import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import {
  forksOf,
  isWhole,
  neighbourLine,
  visiblePath,
  type Fork,
  type Turn,
} from "../../client/paths";
import { patchSession, workflowText } from "../../client/rest";
import { uploadObstacle } from "../../client/uploads";
import { hasWorld } from "../../client/world";
import { seedFor } from "../../client/seed";
import type { Workflow } from "../../client/types";
import { decisionObstacle, useCaller } from "../account/useCaller";
import { Canvas } from "../canvas/Canvas";
import { Boundary } from "../common/Boundary";
import { NotFoundPage } from "../common/NotFoundPage";
import { SkipLinks } from "../common/SkipLinks";
import { useToasts } from "../common/Toasts";
import { Composer } from "../conversation/Composer";
import { Conversation } from "../conversation/Conversation";
import { ReadOnlyNote } from "../conversation/ReadOnlyNote";
import { useDraft } from "../conversation/useDraft";
import { useDropping } from "../conversation/useDropping";
import { FilesContext, useGoneFiles } from "../conversation/useFiles";
import { download } from "../files";
import { usePreview } from "../preview/usePreview";
import { navigate, sessionPath } from "../router";
import { askedOf, useAsked } from "../undo/asked";
import { usePlan } from "../undo/usePlan";
import { OutsideContext, useOutside } from "../undo/useOutside";
import type { Decide } from "../undo/ApprovalCard";
import { HeldDock } from "../undo/HeldDock";
import { UndoDock } from "../undo/UndoDock";
import { UndoSheets, useUndoSheets } from "../undo/UndoSheets";
import { WorldPanel } from "../world/WorldPanel";
import { Announcer } from "./Announcer";
import { Banners } from "./Banners";
import { Dock } from "./Dock";
import { forkObstacle, obstacle, READ_ONLY } from "./obstacle";
import { OriginLine } from "./OriginLine";
import { Sheets, type Sheet } from "./Sheets";
import { StatusLine } from "./StatusLine";
import { TopBar } from "./TopBar";
import { useAttempt } from "./useAttempt";
import { useCanvasEdits } from "./useCanvasEdits";
import { useEarlier } from "./useEarlier";
import { useFork } from "./useFork";
import { useOrigin } from "./useOrigin";
import { useRights } from "./useRights";
import { useSession } from "./useSession";
import { usePending } from "./usePending";
import { useShortcuts } from "./useShortcuts";
import { useTurnMoves } from "./useTurnMoves";
import { newestPrompt, NO_STEPS, useTurns } from "./useTurns";
import { useUploads } from "./useUploads";

const NONE: ReadonlySet<string> = new Set();
const NOTHING: Workflow = {};

export function SessionPage({ id, at }: { id: string; at: string | null }) {
  const { fail } = useToasts();
  const attempt = useAttempt();
  const [session, view] = useSession(id);
  const edits = useCanvasEdits(session, attempt);
  const { state, connection } = view;
  const [pane, setPane] = useState<"canvas" | "conversation">("conversation");
  const [sheet, setSheet] = useState<Sheet | null>(null);
  const undoSheets = useUndoSheets();
  const [worldOpen, setWorldOpen] = useState(false);
  const [sent, setSent] = useState(0);
  const [shown, setShown] = useState<{ id: string } | null>(null);
  const composer = useRef<HTMLTextAreaElement>(null);
  const [forked] = useState(() => seedFor(id) !== null);

  const headPath = useMemo(
    () => visiblePath(state.steps, state.headId),
    [state.steps, state.headId],
  );
  const headTurns = useTurns(headPath);
  const forks = useMemo(() => forksOf(state.branches), [state.branches]);
  const { look, loadOlder } = useEarlier(id, at);
  const earlier = look?.phase === "ready" ? look.earlier : null;
  const earlierTurns = useTurns(earlier?.path ?? NO_STEPS);

  const newest = newestPrompt(state.ready, headTurns, isWhole(headPath, state.headId));
  const draft = useDraft(id, newest);
  const preview = usePreview(id, state.headId, view.workflow, fail);
  const rights = useRights(id, state.sharing);
  const mayRun = rights?.has("run") ?? true;
  const { pending, turnKey } = usePending(id, state, rights !== null && mayRun, draft);
  const files = useUploads(id);
  const sentFiles = useGoneFiles(id, headPath);
  const { fork, busy } = useFork(session, fail);
  const outside = useOutside(id, state, fail);
  const asked = useAsked(preview.target, headTurns, outside);
  const plan = usePlan(id, asked, state, fail);
  const moves = useTurnMoves({
    session,
    view,
    turns: headTurns,
    draft,
    composer,
    preview,
    acts: (target) => askedOf(target, headTurns, outside) !== null,
    renew: plan.renew,
    fork,
    undo: undoSheets.undo,
    fail,
  });
  const decide: Decide = useCallback(
    (approval, decision, input) => attempt(() => session.approve(approval, decision, input)),
    [attempt, session],
  );
  const origin = useOrigin(id, state.ready);

  const cannot = obstacle(view, rights);
  const undecided = decisionObstacle(useCaller());
  const generating = state.agent === "GENERATING" || state.agent === "STOPPING";
  const looking = preview.target !== null;
  const blocked =
    look !== null
      ? "This is an earlier state"
      : looking
        ? "A revert is being looked at"
        : cannot;
  // A message waits for the move that it follows.
  const cannotSend = blocked === cannot ? obstacle({ ...view, moving: false }, rights) : blocked;

  // What was pressed to make the fork is gone with the page that it was on.
  useEffect(() => {
    if (forked) composer.current?.focus({ preventScroll: true });
  }, [forked]);

  useEffect(() => {
    document.title = state.ready ? `${state.name} · Turnback` : "Turnback";
  }, [state.ready, state.name]);

  // What is looked at goes when it can no longer be agreed to, or when the person looks elsewhere.
  useEffect(() => {
    if (at !== null || state.archived) preview.close();
  }, [at, state.archived, preview.close]);

  const send = () => {
    if (draft.text.trim() === "" || cannotSend !== null || uploadObstacle(files.list)) return;
    setSent((count) => count + 1);
    const named = files.list.flatMap(({ id }) => id ?? []);
    void draft
      .send((content) => attempt(() => session.prompt(content, { files: named, turnKey })))
      .then((taken) => {
        if (taken) files.uploads.taken(named);
      });
  };
  const closeSheet = useCallback(() => setSheet(null), []);
  const stop = useCallback(() => void attempt(() => session.stop()), [attempt, session]);
  const back = () => {
    navigate(sessionPath(id));
    moves.focusComposer();
  };
  const checkoutEarlier = () =>
    void attempt(() => session.checkout(at ?? "")).then((done) => {
      if (done) back();
    });

  const save = () => void attempt(async () => download(state.name, await workflowText(id)));

  useShortcuts({
    moving: view.moving || preview.agreed,
    help: () => setSheet("help"),
    escape: sheet !== null || undoSheets.shown !== null ? null : at !== null ? back : generating ? stop : null,
    write: () => composer.current?.focus(),
    revertLast: () => {
      const last = headTurns.at(-1);
      if (last && blocked === null) moves.actions.revert(last);
    },
    redo: () => {
      if (state.canRedo && blocked === null) moves.redo(false);
    },
    line: (by) => {
      const tip = blocked === null ? neighbourLine(headPath, forks, by) : null;
      if (tip !== null) moves.actions.checkout(tip);
    },
  });

  const cannotFork = forkObstacle(view, rights, busy);
  const onPath = useMemo(() => new Set(headTurns.map((turn) => turn.id)), [headTurns]);
  const forkBlocked = (turn: Turn) =>
    cannotFork ?? (onPath.has(turn.id) ? null : "This turn is on another line; check it out first");

  // A file may be uploaded while the agent works; the message waits.
  const filesBlocked = state.archived ? cannot : rights === null || mayRun ? null : cannot;
  const addFiles = useCallback((chosen: File[]) => files.uploads.add(chosen), [files.uploads]);
  const dropping = useDropping(filesBlocked === null && look === null ? addFiles : null);

  const going = useMemo(() => {
    const { target } = preview;
    if (target === null) return NONE;
    const from = headTurns.findIndex((turn) => turn.id === target.turn.id);
    return new Set(headTurns.slice(Math.max(0, from)).map((turn) => turn.id));
  }, [preview.target, headTurns]);

  if (connection.phase === "closed") return <NotFoundPage sentence={connection.reason} />;
  if (state.deleted) return <NotFoundPage sentence="This session has been deleted." />;

  const inherited = origin && {
    cutoffId: origin.lineage.cutoff_id,
    from: origin.parent?.name ?? "another session",
  };
  const seen = preview.looked?.seen ?? null;
  const workflow = look !== null ? (earlier?.workflow ?? NOTHING) : (seen?.workflow ?? view.workflow);
  const shownState = look === null ? state : {
    ...state,
    ready: earlier !== null || look.phase === "failed",
    agent: "AVAILABLE" as const,
    waitingFor: [],
    headId: at ?? "",
    streaming: null,
    olderCursor: earlier?.cursor ?? null,
  };
  return (
    <OutsideContext value={outside}>
      <div
        className="session-page"
        data-pane={pane}
        data-previewing={looking || undefined}
        data-earlier={look !== null || undefined}
      >
        <SkipLinks
          links={[
            [look === null ? "#composer" : "#messages", "Skip to the message field"],
            ["#messages", "Skip to the conversation"],
            ["#canvas", "Skip to the canvas"],
          ]}
        />
        <TopBar
          name={state.name}
          ready={state.ready}
          pane={pane}
          onPane={setPane}
          onRename={(name) => void attempt(() => patchSession(id, { name }))}
          renamable={mayRun}
          onSave={save}
          onSettings={() => setSheet("settings")}
          onShare={() => setSheet("share")}
          onFamily={() => setSheet("family")}
          onHistory={() => setSheet("history")}
          onHelp={() => setSheet("help")}
          onWorld={hasWorld(outside.tools.keys()) ? () => setWorldOpen(!worldOpen) : null}
          worldOpen={worldOpen}
        />
        <Banners
          status={connection}
          state={state}
          onRetry={() => session.retryNow()}
          onUnarchive={
            mayRun ? () => void attempt(() => patchSession(id, { archived: false })) : null
          }
        />
        <Announcer
          state={state}
          turns={headTurns}
          opening={forked ? `A new session: “${state.name}”.` : ""}
        />
        <main className="panes">
          <Boundary
            sentence="This workflow cannot be drawn. The conversation works: revert, or ask for a change."
            of={workflow}
          >
            <Canvas
              key={id}
              workflow={workflow}
              ready={shownState.ready}
              blocked={blocked}
              canUndo={view.canUndoEdit}
              canRedo={view.canRedoEdit}
              marks={seen?.marks ?? null}
              shown={shown}
              {...edits}
            />
          </Boundary>
          <section
            className={`conversation${dropping.over ? " is-over" : ""}`}
            aria-labelledby="conversation-heading"
            {...dropping.handlers}
          >
            <h2 className="sr-only" id="conversation-heading">
              Conversation
            </h2>
            <StatusLine view={view} steps={headTurns.at(-1)?.steps.length ?? 0} />
            {origin && <OriginLine origin={origin} turns={look === null ? headTurns : earlierTurns} />}
            <FilesContext value={sentFiles}>
              <Conversation
                key={at ?? "now"}
                state={shownState}
                path={look === null ? headPath : (earlier?.path ?? NO_STEPS)}
                turns={look === null ? headTurns : earlierTurns}
                forks={look === null ? forks : NO_FORKS}
                going={going}
                sent={sent}
                blocked={blocked}
                forkBlocked={forkBlocked}
                writable={mayRun}
                inherited={inherited}
                actions={moves.actions}
                decideBlocked={rights === null || mayRun ? undecided : READ_ONLY}
                onDecide={decide}
                onOlder={() => attempt(() => (look === null ? session.loadOlder() : loadOlder()))}
                onExample={
                  look === null
                    ? (text) => {
                        draft.set(text);
                        composer.current?.focus();
                      }
                    : null
                }
              />
            </FilesContext>
            <div className="composing">
              {look === null && !looking && (
                <HeldDock
                  id={id}
                  blocked={mayRun ? (cannot ?? undecided) : undefined}
                  fail={fail}
                  onSheet={undoSheets.undoEffects}
                />
              )}
              {look === null && !looking && (
                <UndoDock
                  undos={state.undos}
                  readable={mayRun}
                  onReport={undoSheets.report}
                  onStop={mayRun ? stop : null}
                />
              )}
              <Dock
                state={state}
                look={look}
                preview={preview}
                plan={plan}
                pending={pending}
                moves={moves}
                cannot={cannot}
                undecided={undecided}
                blocked={blocked}
                onBack={back}
                onCheckout={checkoutEarlier}
                onShow={(nodeId) => setShown({ id: nodeId })}
                onUndo={mayRun ? undoSheets.undo : null}
              />
              {look === null && !mayRun && <ReadOnlyNote mayFork={rights?.has("fork") ?? false} />}
              {look === null && mayRun && (
                <Composer
                  field={composer}
                  hidden={looking}
                  draft={draft.text}
                  onDraft={draft.set}
                  blocked={cannotSend}
                  generating={generating}
                  stopping={state.agent === "STOPPING"}
                  files={files}
                  filesBlocked={filesBlocked}
                  onProblem={fail}
                  onSend={send}
                  onStop={stop}
                />
              )}
            </div>
          </section>
        </main>
        {worldOpen && <WorldPanel state={state} fail={fail} onClose={() => setWorldOpen(false)} />}
        <UndoSheets
          id={id}
          sheets={undoSheets}
          state={state}
          cannot={cannot}
          undecided={undecided}
          fail={fail}
        />
        <Sheets
          id={id}
          sheet={sheet}
          state={state}
          at={at}
          mayRun={mayRun}
          blocked={cannot}
          fail={fail}
          onUndo={undoSheets.undo}
          onClose={closeSheet}
        />
      </div>
    </OutsideContext>
  );
}

const NO_FORKS: ReadonlyMap<string, Fork> = new Map();
