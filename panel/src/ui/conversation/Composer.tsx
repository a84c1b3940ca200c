// Where a message is written, and files are put to it. While the agent works, its button stops it.

import { useLayoutEffect, useState, type RefObject } from "react";

import { uploadObstacle, type FileLimits } from "../../client/uploads";
import { fileSize } from "../../client/words";
import { Action } from "../common/Action";
import { pickFiles } from "../files";
import { ClipIcon, SendIcon, StopIcon } from "../icons";
import type { UploadsView } from "../session/useUploads";
import { UploadList } from "./UploadList";

const MAX_HEIGHT = 220;

export function Composer({
  field,
  hidden,
  draft,
  onDraft,
  blocked,
  generating,
  stopping,
  files,
  filesBlocked,
  onProblem,
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
  files: UploadsView;
  /** Why no file can be put to the message. */
  filesBlocked: string | null;
  onProblem: (problem: unknown) => void;
  onSend: () => void;
  onStop: () => void;
}) {
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, MAX_HEIGHT)}px`;
  }, [draft, field, hidden]);

  const reason =
    blocked ??
    (draft.trim() === "" ? "Write a message first" : null) ??
    uploadObstacle(files.list);
  // What was to be sent and could not: why not is said until it is changed, or can be.
  const [refused, setRefused] = useState("");
  const unsent = refused !== "" && refused === draft && reason !== null;
  return (
    <form
      className="composer"
      hidden={hidden}
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
    >
      <UploadList uploads={files.uploads} list={files.list} onProblem={onProblem} />
      <textarea
        ref={field}
        id="composer"
        dir="auto"
        rows={2}
        aria-label="Message to the agent"
        placeholder="Ask for a change to the workflow"
        value={draft}
        onChange={(event) => onDraft(event.currentTarget.value)}
        onPaste={(event) => {
          const pasted = [...event.clipboardData.files];
          // A copied table is text and a picture of it: the text is meant.
          if (pasted.length === 0 || event.clipboardData.types.includes("text/plain")) return;
          event.preventDefault();
          if (filesBlocked === null) files.uploads.add(pasted);
        }}
        onKeyDown={(event) => {
          // A composing input method uses Enter for itself.
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          if (reason === null) onSend();
          setRefused(reason === null ? "" : draft);
        }}
      />
      <div className="composer-foot">
        <span>
          <span role="status">
            {unsent && `Not sent: ${reason.charAt(0).toLowerCase()}${reason.slice(1)}.`}
          </span>
          {!unsent && (
            <span className="hint">
              {generating ? (
                <>
                  <kbd>Esc</kbd> stops
                </>
              ) : blocked !== null ? (
                `${blocked}.`
              ) : (
                <>
                  <kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> begins a line
                </>
              )}
            </span>
          )}
        </span>
        <span className="composer-buttons">
          <Action
            className="button icon-only quiet"
            label="Attach files"
            title={attachWords(files.limits)}
            blocked={filesBlocked}
            onAct={() => void pickFiles().then((chosen) => files.uploads.add(chosen))}
          >
            <ClipIcon />
          </Action>
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
        </span>
      </div>
    </form>
  );
}

function attachWords(limits: FileLimits | null): string {
  if (limits === null) return "Attach files";
  const { max_prompt_attachments, max_attachment_bytes } = limits;
  return `Attach files, up to ${max_prompt_attachments} of ${fileSize(max_attachment_bytes)} each; or drop or paste them`;
}
