// A call that waits for a person: what it would do, how far it could be taken back, and the decision.
// The arguments can be changed; the agent is told of that.

import { useEffect, useId, useRef, useState } from "react";

import { parseJson } from "../../client/json";
import type { Approval, JsonObject } from "../../client/types";
import { AlertIcon } from "../icons";
import { full } from "../time";
import { ClassBadge } from "./ClassBadge";
import { Undecided } from "./Undecided";

export type Decide = (
  approval: Approval,
  decision: "approve" | "deny",
  input?: JsonObject,
) => Promise<boolean>;

export function ApprovalCard({
  approval,
  blocked,
  onDecide,
}: {
  approval: Approval;
  /** Why the reader cannot decide. */
  blocked: string | null;
  onDecide: Decide;
}) {
  const shown = JSON.stringify(approval.input, null, 2);
  const [text, setText] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const heading = useId();
  const fault = useId();
  const edited = text === null ? null : parsed(text);
  const wrong = typeof edited === "string" ? edited : null;
  // It is another question when what waits is another call.
  useEffect(() => setText(null), [approval.argsHash]);
  const editing = text !== null;
  useEffect(() => {
    if (editing) field.current?.focus();
  }, [editing]);

  const decide = (decision: "approve" | "deny") => {
    if (sending || blocked !== null || (decision === "approve" && wrong !== null)) return;
    const changed = decision === "approve" && text !== null && text !== shown;
    setSending(true);
    void onDecide(approval, decision, changed ? (edited as JsonObject) : undefined).then(() =>
      setSending(false),
    );
  };
  const off = sending || blocked !== null || undefined;
  return (
    <section className="approval" aria-labelledby={heading}>
      <h3 id={heading}>
        <AlertIcon />
        <span>
          Waits for you: <code>{approval.toolName}</code>
        </span>
        <ClassBadge of={approval.class} />
      </h3>
      {approval.because !== null && <p className="approval-because">{approval.because}</p>}
      {text === null ? (
        <pre tabIndex={0} role="group" aria-label="Arguments" dir="auto">
          {shown}
        </pre>
      ) : (
        <>
          <textarea
            ref={field}
            className="code"
            aria-label="Arguments, as JSON"
            aria-invalid={wrong !== null}
            aria-describedby={fault}
            rows={Math.min(14, text.split("\n").length + 1)}
            spellCheck={false}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
          />
          <p className="warn" id={fault} role="status">
            {wrong ?? ""}
          </p>
        </>
      )}
      <p className="approval-until">
        It waits until <time dateTime={new Date(approval.expiresAt).toISOString()}>{full(approval.expiresAt)}</time>.
      </p>
      {blocked !== null && <Undecided why={blocked} />}
      <div className="actions start">
        <button
          type="button"
          className="button primary"
          aria-disabled={off || wrong !== null || undefined}
          title={blocked ?? undefined}
          onClick={() => decide("approve")}
        >
          {text !== null && text !== shown ? "Approve as changed" : "Approve"}
        </button>
        <button
          type="button"
          className="button"
          aria-disabled={off}
          title={blocked ?? undefined}
          onClick={() => decide("deny")}
        >
          Deny
        </button>
        {blocked === null && (
          <button
            type="button"
            className="button quiet"
            onClick={() => setText(text === null ? shown : null)}
          >
            {text === null ? "Change the arguments" : "Leave them as they were"}
          </button>
        )}
      </div>
    </section>
  );
}

/** The arguments, or why they are none. */
function parsed(text: string): JsonObject | string {
  try {
    const value = parseJson(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as JsonObject)
      : "The arguments have to be a JSON object.";
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
}
