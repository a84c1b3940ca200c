// The conversation as far as HEAD, or as far as an earlier step that is looked at.

import { Fragment, useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";

import { isWhole, type Fork, type Turn } from "../../client/paths";
import type { SessionState } from "../../client/reducer";
import type { Step } from "../../client/types";
import { moveFocus } from "../common/moveFocus";
import { DownIcon, ForkIcon } from "../icons";
import { EmptyConversation } from "./EmptyConversation";
import { OpenEnds } from "./OpenEnds";
import type { Decide } from "../undo/ApprovalCard";
import { Running } from "./Running";
import { TurnView, type TurnActions } from "./TurnView";
import { useFollowing } from "./useFollowing";

/** Turns from which on those out of sight are not laid out. */
const MANY = 60;

export function Conversation({
  state,
  path,
  turns,
  forks,
  going,
  sent,
  blocked,
  forkBlocked,
  writable,
  inherited,
  actions,
  decideBlocked,
  onDecide,
  onOlder,
  onExample,
}: {
  state: SessionState;
  path: Step[];
  turns: Turn[];
  forks: ReadonlyMap<string, Fork>;
  /** The turns that would go with the revert that is looked at. */
  going: ReadonlySet<string>;
  /** How many messages this page has sent: with each, its reader goes to the end. */
  sent: number;
  blocked: string | null;
  /** Why a turn cannot be forked from. */
  forkBlocked: (turn: Turn) => string | null;
  writable: boolean;
  /** The last step that a fork inherited, and what its parent is called; null where it is none. */
  inherited: { cutoffId: string; from: string } | null;
  actions: TurnActions;
  /** Why the reader cannot decide about calls that wait. */
  decideBlocked: string | null;
  onDecide: Decide;
  onOlder: () => Promise<unknown>;
  onExample: ((text: string) => void) | null;
}) {
  const log = useRef<HTMLDivElement>(null);
  const older = useRef<HTMLButtonElement>(null);
  const [loadingOlder, setLoadingOlder] = useState(false);
  const { streaming } = state;
  const working = state.agent === "GENERATING" || state.agent === "STOPPING";
  const { following, onScroll, toEnd, hold } = useFollowing(log, sent, [path, streaming, working]);
  const ends = forks.get(state.headId);
  const whole = isWhole(path, state.headId);
  const moreAbove = !whole && state.olderCursor !== null;

  const loadOlder = async () => {
    if (loadingOlder) return;
    setLoadingOlder(true);
    hold();
    await onOlder();
    setLoadingOlder(false);
  };
  // Scrolling to the top asks for what is above; the button is there for the keyboard.
  const ask = useRef(loadOlder);
  ask.current = loadOlder;
  useEffect(() => {
    const button = older.current;
    if (!moreAbove || loadingOlder || !button || !log.current) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting) && (log.current?.scrollTop ?? 0) < 400) {
          void ask.current();
        }
      },
      { root: log.current, rootMargin: "200px 0px 0px 0px" },
    );
    observer.observe(button);
    return () => observer.disconnect();
  }, [moreAbove, loadingOlder, path.length]);

  // A line that is left takes its picker with it: the focus goes on at the same fork.
  const fork = useRef<string | null>(null);
  const held = useMemo(
    () => ({
      ...actions,
      checkout: (stepId: string) => {
        const from = document.activeElement?.closest<HTMLElement>("[data-fork]");
        fork.current = from?.dataset["fork"] ?? null;
        actions.checkout(stepId);
      },
    }),
    [actions],
  );
  useEffect(() => {
    const wanted = fork.current;
    if (wanted === null) return;
    if (document.activeElement !== document.body) return;
    const picker = log.current?.querySelector<HTMLElement>(`[data-fork="${CSS.escape(wanted)}"]`);
    picker?.querySelector<HTMLElement>(".branch-count")?.focus();
    fork.current = null;
  }, [path]);

  const last = turns.at(-1);
  // The state is told before the prompt's own step: until that comes, the last turn is an old one.
  const runningTurn = last && !last.steps.at(-1)?.isEnd && !isEdit(last) ? last : null;
  const running = working && (
    <Running
      turnId={runningTurn?.id ?? null}
      steps={state.steps}
      streaming={streaming}
      word={
        state.agent === "STOPPING"
          ? "Stopping"
          : state.waitingFor.length > 0
            ? "Waiting for a decision"
            : "Working"
      }
      waitingFor={state.waitingFor}
      decideBlocked={decideBlocked}
      onDecide={onDecide}
    />
  );

  const onKeyDown = (event: KeyboardEvent) => {
    // From one turn's button to the next; elsewhere in the log the arrows scroll.
    if (!(event.target as HTMLElement).matches(".revert")) return;
    if (moveFocus(event, log.current, ".revert")) event.preventDefault();
  };

  const empty = state.ready && turns.length === 0 && whole && !working && !state.purged;
  return (
    <div className="log-frame">
      <div
        className="log"
        id="messages"
        ref={log}
        role="log"
        aria-label="Messages"
        // What matters is said by the announcer, in one sentence.
        aria-live="off"
        aria-busy={working}
        tabIndex={0}
        onScroll={onScroll}
        onKeyDown={onKeyDown}
      >
        {!state.ready && turns.length === 0 && <div className="log-waiting" aria-hidden="true" />}
        {empty && !ends && onExample && (
          <EmptyConversation operators={state.workflow.operators ?? []} onExample={onExample} />
        )}
        {empty && !onExample && <p className="nothing-yet">Nothing had been said yet.</p>}
        {state.purged && (
          <p className="note purged">
            What came before this was removed for good. What is shown can be read, reverted and
            forked as ever.
          </p>
        )}
        {moreAbove && (
          <button
            type="button"
            ref={older}
            className="button older"
            aria-disabled={loadingOlder || undefined}
            onClick={() => void loadOlder()}
          >
            {loadingOlder ? "Loading earlier messages" : "Show earlier messages"}
          </button>
        )}
        {(turns.length > 0 || working) && (
          <div
            className={`line${working ? " is-running" : ""}`}
            data-many={turns.length > MANY || undefined}
          >
            {turns.map((turn) => (
              <Fragment key={turn.id}>
                <TurnView
                  turn={turn}
                  newest={turn === last}
                  forks={forks}
                  blocked={blocked}
                  forkBlocked={forkBlocked(turn)}
                  writable={writable}
                  running={turn === runningTurn && working}
                  going={going.has(turn.id)}
                  actions={held}
                >
                  {turn === runningTurn ? running : null}
                </TurnView>
                {inherited && endsWith(turn, inherited.cutoffId) && (
                  <p className="inherited-end">
                    <ForkIcon />
                    <span>
                      Up to here from <bdi>{inherited.from}</bdi>
                    </span>
                  </p>
                )}
              </Fragment>
            ))}
            {runningTurn === null && running}
            {!working && <span className="terminus" aria-hidden="true" />}
          </div>
        )}
        {ends && !working && <OpenEnds fork={ends} blocked={blocked} onCheckout={held.checkout} />}
      </div>
      {!following && (
        <button
          type="button"
          className="button jump"
          onClick={() => {
            toEnd();
            log.current?.focus();
          }}
        >
          <DownIcon />
          Jump to latest
        </button>
      )}
    </div>
  );
}

function endsWith(turn: Turn, stepId: string): boolean {
  return (turn.steps.at(-1) ?? turn.prompt)?.id === stepId;
}

function isEdit(turn: Turn): boolean {
  return turn.prompt?.kind === "edit";
}
