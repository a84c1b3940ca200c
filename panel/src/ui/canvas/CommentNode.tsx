// A comment box on the canvas: its comments, oldest first.

import type { NodeProps } from "@xyflow/react";
import { memo } from "react";

import { asText, commentsOf } from "../../client/loose";
import type { CommentFlowNode } from "./flow";

export const CommentNode = memo(function CommentNode({ data }: NodeProps<CommentFlowNode>) {
  const comments = commentsOf(data.box);
  return (
    <div className="comment" data-mark={data.mark ?? undefined} dir="auto">
      {comments.length === 0 && <p className="comment-empty">Empty note</p>}
      {comments.map((comment, index) => (
        <div key={index}>
          <p>{asText(comment?.content)}</p>
          {asText(comment?.creatorName) && <span>{asText(comment?.creatorName)}</span>}
        </div>
      ))}
    </div>
  );
});
