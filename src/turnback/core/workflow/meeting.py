"""Whether an edit meets what somebody else has changed since the version it was made on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import assert_never

from turnback.core.edits import (
    AddComment,
    AddLink,
    AddOperator,
    ChangeComment,
    ChangeLink,
    ChangeOperator,
    ChangeSettings,
    Edit,
    MoveComment,
    MoveOperator,
    RemoveComment,
    RemoveLink,
    RemoveOperator,
    ReplaceWorkflow,
)
from turnback.core.errors import InvalidWorkflow
from turnback.core.values import DEEPEST
from turnback.core.workflow.diff import Touch, diff, link_touch
from turnback.core.workflow.document import Workflow, load
from turnback.core.workflow.shape import Json, link_ends


def touches(edits: Sequence[Edit], workflow: Workflow) -> frozenset[Touch]:
    """What the edits touch when they are made of `workflow`: at least what `diff` would show.

    An edit that `apply` would refuse may touch less than it says.
    """
    touched: set[Touch] = set()
    links = {link["linkID"]: link for link in workflow.links}
    removed: set[str] = set()
    touch = touched.add
    for edit in edits:
        match edit:
            case AddOperator(operator=operator):
                name = str(operator.get("operatorID"))
                touched |= {("operator", name), ("position", name)}
            case ChangeOperator(operator_id=name):
                touch(("operator", name))
            case RemoveOperator(operator_id=name):
                touched |= {("operator", name), ("position", name)}
                removed.add(name)
            case MoveOperator(operator_id=name):
                touch(("position", name))
            case AddLink(link=link):
                if _has_ends(link):
                    touch(link_touch(link))
                    links[str(link.get("linkID"))] = link
            case ChangeLink(link_id=name, values=values):
                if name in links and _has_ends(link := {**links[name], **values}):
                    touched |= {link_touch(links[name]), link_touch(link)}
                    links[name] = link
            case RemoveLink(link_id=name):
                if name in links:
                    touch(link_touch(links.pop(name)))
            case AddComment(comment=comment):
                touch(("comment", str(comment.get("commentBoxID"))))
            case (
                ChangeComment(comment_id=name)
                | RemoveComment(comment_id=name)
                | MoveComment(comment_id=name)
            ):
                touch(("comment", name))
            case ChangeSettings(values=values, unset=unset):
                touched |= {("setting", name) for name in (*values, *unset)}
            case ReplaceWorkflow(workflow=document):
                touched |= _everything(workflow)
                try:
                    opened = load(document, max_bytes=sys.maxsize, max_depth=DEEPEST)
                except InvalidWorkflow:
                    continue  # `apply` refuses it
                touched |= _everything(opened)
                links = {link["linkID"]: link for link in opened.links}
            case unreachable:
                assert_never(unreachable)
    ends = (*workflow.links, *links.values()) if removed else ()
    return frozenset(touched | {link_touch(link) for link in ends if removed & _at(link)})


def conflicts(edits: Sequence[Edit], *, base: Workflow, head: Workflow) -> frozenset[Touch]:
    """What the edits, made on `base`, touch that has changed since; empty: apply them at `head`.

    The rule of lineage.md 6: "equal content at HEAD, or nothing it touches has changed". A link
    that somebody drew to an operator that the edits remove counts as touched, and so does an
    operator that somebody removed and the edits link.
    """
    theirs = diff(base, head)
    if not theirs:
        return frozenset()
    if any(isinstance(edit, ReplaceWorkflow) for edit in edits):
        return theirs.touched | {("workflow", "")}
    removed = {edit.operator_id for edit in edits if isinstance(edit, RemoveOperator)}
    drawn = [link for edit in edits if isinstance(edit, AddLink) and _has_ends(link := edit.link)]
    new_there = {*theirs.links.added, *theirs.links.changed}
    return frozenset(
        {
            *(touches(edits, base) & theirs.touched),
            *(
                link_touch(link)
                for link in head.links
                if link["linkID"] in new_there and removed & _at(link)
            ),
            *(
                ("operator", name)
                for link in drawn
                for name in _at(link) & theirs.operators.removed.keys()
            ),
        }
    )


def _has_ends(link: Json) -> bool:
    """Whether a link that nobody has checked yet is of the right form."""
    return all(
        isinstance(end, dict) and isinstance(end.get("operatorID"), str)
        for end in (link.get("source"), link.get("target"))
    )


def _at(link: Json) -> set[str]:
    source, _, target, _ = link_ends(link)
    return {source, target}


def _everything(workflow: Workflow) -> set[Touch]:
    return {
        *(("operator", name) for name in workflow.operators),
        *(("position", name) for name in (*workflow.operators, *workflow.positions)),
        *(link_touch(link) for link in workflow.links),
        *(("comment", box["commentBoxID"]) for box in workflow.comments),
        *(("setting", name) for name in workflow.settings or ()),
        *(("member", name) for name in workflow.other),
    }
