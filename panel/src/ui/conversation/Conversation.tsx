// The conversation at HEAD, following its end until the reader scrolls away from it.

import { useEffect, useLayoutEffect, useRef, useState } from "react";

import { isWhole, type Fork, type Turn } from "../../client/paths";
import type { SessionState } from "../../client/reducer";
import type { Step } from "../../client/types";
import { DownIcon } from "../icons";
import { EmptyConversation } from "./EmptyConversation";
import { OpenEnds } from "./OpenEnds";
import { Running } from "./Running";
import { TurnView } from "./TurnView";

/** How near its end, in pixels, a reader counts as following. */
const NEAR = 60;

export function Conversation({
  state,
  path,
  turns,
  forks,
  sent,
  blocked,
  onRevert,
  onCheckout,
  onOlder,
  onExample,
}: {
  state: SessionState;
  path: Step[];
  turns: Turn[];
  forks: ReadonlyMap<string, Fork>;
  /** How many messages this page has sent: with each, its reader goes to the end. */
  sent: number;
  blocked: string | null;
  onRevert: (turn: Turn) => void;
  onCheckout: (stepId: string) => void;
  onOlder: () => Promise<unknown>;
  onExample: (text: string) => void;
}) {
  const log = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(true);
  const [loadingOlder, setLoadingOlder] = useState(false);
  // Height before older turns came, so that what is read stays where it is.
  const heightBefore = useRef<number | null>(null);
  const { streaming } = state;
  const working = state.agent === "GENERATING" || state.agent === "STOPPING";
  const ends = forks.get(state.headId);
  const whole = isWhole(path, state.headId);

  useEffect(() => setFollowing(true), [sent]);

  useLayoutEffect(() => {
    const element = log.current;
    if (!element) return;
    if (heightBefore.current !== null) {
      element.scrollTop += element.scrollHeight - heightBefore.current;
      heightBefore.current = null;
    } else if (following) {
      element.scrollTop = element.scrollHeight;
    }
  }, [path, streaming, working, following]);

  useEffect(() => {
    const element = log.current;
    if (!element) return;
    // The composer grows and shrinks this element too.
    const observer = new ResizeObserver(() => {
      if (following) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [following]);

  const last = turns.at(-1);
  // The state is told before the prompt's own step: until that comes, the last turn is an old one.
  const runningTurn = last && !last.steps.at(-1)?.isEnd && !isEdit(last) ? last : null;
  const running = working && (
    <Running
      streaming={streaming}
      word={state.agent === "STOPPING" ? "Stopping" : "Working"}
    />
  );

  const older = async () => {
    setLoadingOlder(true);
    heightBefore.current = log.current?.scrollHeight ?? null;
    await onOlder();
    setLoadingOlder(false);
  };

  const empty = state.ready && turns.length === 0 && whole && !working;
  return (
    <div className="log-frame">
      <div
        className="log"
        ref={log}
        role="log"
        aria-label="Messages"
        aria-live="polite"
        aria-busy={working}
        tabIndex={0}
        onScroll={(event) => {
          const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
          setFollowing(scrollHeight - scrollTop - clientHeight < NEAR);
        }}
      >
        {!state.ready && <div className="log-waiting" aria-hidden="true" />}
        {empty && !ends && (
          <EmptyConversation operators={state.workflow.operators ?? []} onExample={onExample} />
        )}
        {!whole && state.olderCursor !== null && (
          <button
            type="button"
            className="button older"
            disabled={loadingOlder}
            onClick={() => void older()}
          >
            {loadingOlder ? "Loading earlier messages" : "Show earlier messages"}
          </button>
        )}
        {(turns.length > 0 || working) && (
          <div className={`line${working ? " is-running" : ""}`}>
            {turns.map((turn) => (
              <TurnView
                key={turn.id}
                turn={turn}
                forks={forks}
                blocked={blocked}
                onRevert={onRevert}
                onCheckout={onCheckout}
              >
                {turn === runningTurn && running}
              </TurnView>
            ))}
            {runningTurn === null && running}
            {!working && <span className="terminus" aria-hidden="true" />}
          </div>
        )}
        {ends && !working && <OpenEnds fork={ends} blocked={blocked} onCheckout={onCheckout} />}
      </div>
      {!following && (
        <button
          type="button"
          className="button jump"
          onClick={() => {
            setFollowing(true);
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

function isEdit(turn: Turn): boolean {
  return turn.prompt?.kind === "edit";
}
