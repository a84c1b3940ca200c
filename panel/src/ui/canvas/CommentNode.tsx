// A comment box on the canvas: its comments, oldest first.

import type { NodeProps } from "@xyflow/react";
import { memo } from "react";

import type { CommentFlowNode } from "./flow";

export const CommentNode = memo(function CommentNode({ data }: NodeProps<CommentFlowNode>) {
  const comments = data.box.comments ?? [];
  return (
    <div className="comment">
      {comments.length === 0 && <p className="comment-empty">Empty note</p>}
      {comments.map((comment, index) => (
        <div key={index}>
          <p>{comment.content}</p>
          {comment.creatorName && <span>{comment.creatorName}</span>}
        </div>
      ))}
    </div>
  );
});
