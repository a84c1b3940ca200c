// A person's own edits: how the page shows one at once, and the edit that takes it back.
//
// The server decides; this only anticipates it, so that a dragged operator stays where it was put.

import { own } from "./loose";
import type { CommentBox, Edit, Link, Operator, Workflow } from "./types";

/** The workflow with the edits made; an edit that does not fit is passed over. */
export function applyEdits(workflow: Workflow, edits: readonly Edit[]): Workflow {
  return edits.reduce(applyEdit, workflow);
}

function applyEdit(workflow: Workflow, edit: Edit): Workflow {
  const operators = workflow.operators ?? [];
  const links = workflow.links ?? [];
  const comments = workflow.commentBoxes ?? [];
  const positions = workflow.operatorPositions ?? {};
  switch (edit.op) {
    case "addOperator": {
      const id = edit.operator.operatorID;
      if (operators.some((operator) => operator.operatorID === id)) return workflow;
      return {
        ...workflow,
        operators: [...operators, edit.operator],
        ...(edit.position ? { operatorPositions: { ...positions, [id]: edit.position } } : {}),
      };
    }
    case "changeOperator":
      return {
        ...workflow,
        operators: operators.map((operator) =>
          operator.operatorID === edit.operatorID
            ? (changed(operator, edit.set, edit.unset) as Operator)
            : operator,
        ),
      };
    case "removeOperator": {
      const { [edit.operatorID]: _gone, ...rest } = positions;
      return {
        ...workflow,
        operators: operators.filter((operator) => operator.operatorID !== edit.operatorID),
        links: links.filter((link) => !touchesOperator(link, edit.operatorID)),
        ...(workflow.operatorPositions ? { operatorPositions: rest } : {}),
      };
    }
    case "moveOperator":
      return {
        ...workflow,
        operatorPositions: { ...positions, [edit.operatorID]: edit.position },
      };
    case "addLink":
      if (links.some((link) => link.linkID === edit.link.linkID)) return workflow;
      return { ...workflow, links: [...links, edit.link] };
    case "changeLink":
      return {
        ...workflow,
        links: links.map((link) =>
          link.linkID === edit.linkID ? (changed(link, edit.set) as Link) : link,
        ),
      };
    case "removeLink":
      return { ...workflow, links: links.filter((link) => link.linkID !== edit.linkID) };
    case "addComment":
      if (comments.some((box) => box.commentBoxID === edit.comment.commentBoxID)) return workflow;
      return { ...workflow, commentBoxes: [...comments, edit.comment] };
    case "changeComment":
      return withComment(workflow, edit.commentBoxID, (box) => changed(box, edit.set) as CommentBox);
    case "removeComment":
      return {
        ...workflow,
        commentBoxes: comments.filter((box) => box.commentBoxID !== edit.commentBoxID),
      };
    case "moveComment":
      return withComment(workflow, edit.commentBoxID, (box) => ({
        ...box,
        commentBoxPosition: edit.position,
      }));
    case "changeSettings":
      return {
        ...workflow,
        settings: changed(workflow.settings ?? {}, edit.set, edit.unset) as Workflow["settings"] & {},
      };
    case "replaceWorkflow":
      return edit.workflow;
  }
}

/** The edits that take `edits`, made on `workflow`, back; null when that cannot be said. */
export function invert(workflow: Workflow, edits: readonly Edit[]): Edit[] | null {
  const inverse: Edit[] = [];
  let before = workflow;
  for (const edit of edits) {
    const one = invertOne(before, edit);
    if (!one) return null;
    inverse.unshift(...one);
    before = applyEdit(before, edit);
  }
  return inverse;
}

function invertOne(workflow: Workflow, edit: Edit): Edit[] | null {
  switch (edit.op) {
    case "addOperator":
      return [{ op: "removeOperator", operatorID: edit.operator.operatorID }];
    case "changeOperator": {
      const operator = operatorOf(workflow, edit.operatorID);
      if (!operator) return null;
      return [{ op: "changeOperator", operatorID: edit.operatorID, ...restore(operator, edit) }];
    }
    case "removeOperator": {
      const operator = operatorOf(workflow, edit.operatorID);
      if (!operator) return null;
      const position = own(workflow.operatorPositions ?? {}, edit.operatorID);
      const links = (workflow.links ?? []).filter((link) => touchesOperator(link, edit.operatorID));
      return [
        { op: "addOperator", operator, ...(position ? { position } : {}) },
        ...links.map((link): Edit => ({ op: "addLink", link })),
      ];
    }
    case "moveOperator": {
      // An operator that had no place of its own cannot be given none again: it stays where it was
      // shown, which is what the person saw.
      const position = own(workflow.operatorPositions ?? {}, edit.operatorID);
      return position ? [{ op: "moveOperator", operatorID: edit.operatorID, position }] : null;
    }
    case "addLink":
      return [{ op: "removeLink", linkID: edit.link.linkID }];
    case "changeLink": {
      const link = workflow.links?.find((known) => known.linkID === edit.linkID);
      return link ? [{ op: "changeLink", linkID: edit.linkID, set: restore(link, edit).set }] : null;
    }
    case "removeLink": {
      const link = workflow.links?.find((known) => known.linkID === edit.linkID);
      return link ? [{ op: "addLink", link }] : null;
    }
    case "addComment":
      return [{ op: "removeComment", commentBoxID: edit.comment.commentBoxID }];
    case "changeComment": {
      const box = commentOf(workflow, edit.commentBoxID);
      if (!box) return null;
      return [{ op: "changeComment", commentBoxID: edit.commentBoxID, set: restore(box, edit).set }];
    }
    case "removeComment": {
      const comment = commentOf(workflow, edit.commentBoxID);
      return comment ? [{ op: "addComment", comment }] : null;
    }
    case "moveComment": {
      const position = commentOf(workflow, edit.commentBoxID)?.commentBoxPosition;
      return position ? [{ op: "moveComment", commentBoxID: edit.commentBoxID, position }] : null;
    }
    case "changeSettings": {
      const { set, unset } = restore(workflow.settings ?? {}, edit);
      return [{ op: "changeSettings", set: set as never, ...(unset ? { unset } : {}) }];
    }
    case "replaceWorkflow":
      return [{ op: "replaceWorkflow", workflow }];
  }
}

type Members = Record<string, unknown>;

function changed(target: Members, set: Members, unset: readonly string[] = []): Members {
  const next = { ...target, ...set };
  for (const member of unset) delete next[member];
  return next;
}

function restore(
  target: Members,
  edit: { set: Members; unset?: string[] },
): { set: Members; unset?: string[] } {
  const members = [...Object.keys(edit.set), ...(edit.unset ?? [])];
  const kept = members.filter((member) => Object.hasOwn(target, member));
  const unset = members.filter((member) => !Object.hasOwn(target, member));
  const set = Object.fromEntries(kept.map((member) => [member, target[member]]));
  return unset.length ? { set, unset } : { set };
}

function touchesOperator(link: Link, operatorID: string): boolean {
  return link.source.operatorID === operatorID || link.target.operatorID === operatorID;
}

function operatorOf(workflow: Workflow, operatorID: string): Operator | undefined {
  return workflow.operators?.find((operator) => operator.operatorID === operatorID);
}

function commentOf(workflow: Workflow, commentBoxID: string): CommentBox | undefined {
  return workflow.commentBoxes?.find((box) => box.commentBoxID === commentBoxID);
}

function withComment(
  workflow: Workflow,
  commentBoxID: string,
  change: (box: CommentBox) => CommentBox,
): Workflow {
  const boxes = workflow.commentBoxes ?? [];
  return {
    ...workflow,
    commentBoxes: boxes.map((box) => (box.commentBoxID === commentBoxID ? change(box) : box)),
  };
}
