// Says that the connection is lost, how often it has been tried, and when it is tried again.

import { useEffect, useState } from "react";

import type { ConnectionStatus } from "../../client/connection";

export function ConnectionBanner({
  status,
  onRetry,
}: {
  status: ConnectionStatus;
  onRetry: () => void;
}) {
  const [now, setNow] = useState(() => Date.now());
  const waiting = status.phase === "waiting";
  useEffect(() => {
    if (!waiting) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [waiting, status]);
  if (!waiting) return null;
  const seconds = status.retryAt === null ? 0 : Math.ceil((status.retryAt - now) / 1000);
  return (
    <div className="banner" role="status">
      <span className="spinner" aria-hidden="true" />
      <span>
        Connection lost. Reconnecting, attempt {status.attempt}
        <span aria-hidden="true">{seconds > 1 ? ` in ${seconds} s` : ""}</span>. Nothing that was
        saved is lost.
      </span>
      <button type="button" className="link" onClick={onRetry} disabled={status.retryAt === null}>
        Try now
      </button>
    </div>
  );
}
