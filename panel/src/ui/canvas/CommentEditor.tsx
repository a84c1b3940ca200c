// The selected comment box: its newest comment can be rewritten, another added.

import { useEffect, useState } from "react";

import { asText, commentsOf } from "../../client/loose";
import type { Comment, CommentBox, Edit } from "../../client/types";
import { CloseButton } from "../common/CloseButton";
import { NoteIcon, TrashIcon } from "../icons";

export function CommentEditor({
  box,
  blocked,
  onEdit,
  onClose,
}: {
  box: CommentBox;
  blocked: string | null;
  onEdit: (edits: Edit[]) => void;
  onClose: () => void;
}) {
  const { commentBoxID } = box;
  const comments = commentsOf(box);
  const setComments = (next: readonly (Partial<Comment> | null)[]) =>
    onEdit([{ op: "changeComment", commentBoxID, set: { comments: next as Comment[] } }]);
  return (
    <aside
      className="inspector floating"
      aria-label="Note"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        onClose();
      }}
    >
      <div className="inspector-head">
        <span className="disc note-disc">
          <NoteIcon />
        </span>
        <div>
          <h2>Note</h2>
        </div>
        <CloseButton onClose={onClose} />
      </div>
      <div className="inspector-body">
        {comments.map((comment, index) => (
          <CommentField
            key={index}
            label={
              asText(comment?.creatorName)
                ? `Written by ${asText(comment?.creatorName)}`
                : `Comment ${index + 1}`
            }
            text={asText(comment?.content)}
            disabled={blocked !== null}
            onChange={(content) =>
              setComments(comments.map((one, at) => (at === index ? { ...one, content } : one)))
            }
          />
        ))}
        <div className="actions start">
          <button
            type="button"
            className="button small"
            disabled={blocked !== null}
            title={blocked ?? undefined}
            onClick={() =>
              setComments([...comments, { content: "", creationTime: new Date().toISOString() }])
            }
          >
            Add a comment
          </button>
          <button
            type="button"
            className="button danger quiet small"
            disabled={blocked !== null}
            title={blocked ?? undefined}
            onClick={() => {
              onClose();
              onEdit([{ op: "removeComment", commentBoxID }]);
            }}
          >
            <TrashIcon />
            Remove note
          </button>
        </div>
      </div>
    </aside>
  );
}

function CommentField({
  label,
  text,
  disabled,
  onChange,
}: {
  label: string;
  text: string;
  disabled: boolean;
  onChange: (text: string) => void;
}) {
  const [draft, setDraft] = useState(text);
  useEffect(() => setDraft(text), [text]);
  return (
    <label className="field">
      <span>{label}</span>
      <textarea
        rows={3}
        value={draft}
        disabled={disabled}
        onChange={(event) => setDraft(event.currentTarget.value)}
        onBlur={() => {
          if (draft !== text) onChange(draft);
        }}
      />
    </label>
  );
}
