// Where a message is written. While the agent works, its button stops it.

import { useLayoutEffect, type RefObject } from "react";

import { SendIcon, StopIcon } from "../icons";

const MAX_HEIGHT = 220;

export function Composer({
  field,
  hidden,
  draft,
  onDraft,
  blocked,
  generating,
  stopping,
  onSend,
  onStop,
}: {
  field: RefObject<HTMLTextAreaElement | null>;
  /** Something else has its place for the moment; what is written stays. */
  hidden: boolean;
  draft: string;
  onDraft: (text: string) => void;
  blocked: string | null;
  generating: boolean;
  stopping: boolean;
  onSend: () => void;
  onStop: () => void;
}) {
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT)}px`;
  }, [draft, field, hidden]);

  const reason = blocked ?? (draft.trim() === "" ? "Write a message first" : null);
  return (
    <form
      className="composer"
      hidden={hidden}
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      <textarea
        ref={field}
        id="composer"
        dir="auto"
        rows={2}
        aria-label="Message to the agent"
        placeholder="Ask for a change to the workflow"
        value={draft}
        onChange={(event) => onDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          // A composing input method uses Enter for itself.
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          if (reason === null) onSend();
        }}
      />
      <div className="composer-foot">
        <span className="hint">
          {blocked !== null && !generating ? (
            `${blocked}.`
          ) : generating ? (
            <>
              <kbd>Esc</kbd> stops
            </>
          ) : (
            <>
              <kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> begins a line
            </>
          )}
        </span>
        {generating ? (
          <button
            type="button"
            className="button stop"
            onClick={onStop}
            disabled={stopping}
            title={stopping ? "The agent is stopping" : "Stop the agent (Esc)"}
          >
            <StopIcon />
            {stopping ? "Stopping" : "Stop"}
          </button>
        ) : (
          <button
            type="submit"
            className="button primary"
            disabled={reason !== null}
            title={reason ?? "Send (Enter)"}
          >
            <SendIcon />
            Send
          </button>
        )}
      </div>
    </form>
  );
}
