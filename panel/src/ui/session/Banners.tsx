// What keeps the page from working as it should, over both panes: the connection, the database, the
// archive; with what can be done about it.

import { useEffect, useState } from "react";

import type { ConnectionStatus } from "../../client/connection";
import type { SessionState } from "../../client/reducer";
import { ArchiveIcon } from "../icons";

export function Banners({
  status,
  state,
  onRetry,
  onUnarchive,
}: {
  status: ConnectionStatus;
  state: SessionState;
  onRetry: () => void;
  /** Null for who may not. */
  onUnarchive: (() => void) | null;
}) {
  if (status.phase === "waiting") return <Reconnecting status={status} onRetry={onRetry} />;
  if (state.ready && state.agent === "UNAVAILABLE") {
    return (
      <div className="banner" role="status">
        <span className="spinner" aria-hidden="true" />
        <span>
          The server cannot reach its database. Nothing that was saved is lost; this page goes on by
          itself as soon as it is back.
        </span>
      </div>
    );
  }
  if (state.ready && state.archived) {
    return (
      <div className="banner calm" role="status">
        <ArchiveIcon />
        <span>This session is archived. It can be read, not changed.</span>
        {onUnarchive && (
          <button type="button" className="link" onClick={onUnarchive}>
            Take it out of the archive
          </button>
        )}
      </div>
    );
  }
  return null;
}

/** Why the connection went, by its close code; the others are a network's. */
const REASONS: Readonly<Record<number, string>> = {
  1009: "The last message was larger than the server takes.",
  1012: "The server is restarting.",
  1013: "The server closed the connection: this page was too slow, or the server is full.",
};

function Reconnecting({
  status,
  onRetry,
}: {
  status: Extract<ConnectionStatus, { phase: "waiting" }>;
  onRetry: () => void;
}) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [status]);
  const seconds = status.retryAt === null ? 0 : Math.ceil((status.retryAt - now) / 1000);
  return (
    <div className="banner" role="status">
      <span className="spinner" aria-hidden="true" />
      <span>
        {REASONS[status.code] ?? "Connection lost."} Reconnecting, attempt {status.attempt}
        <span aria-hidden="true">{seconds > 1 ? ` in ${seconds} s` : ""}</span>. Nothing that was
        saved is lost.
      </span>
      <button type="button" className="link" onClick={onRetry} disabled={status.retryAt === null}>
        Try now
      </button>
    </div>
  );
}
