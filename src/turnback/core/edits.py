"""The edits that can be made of a workflow, in the form they have on the wire, and in words.

Each is one gesture on the canvas, or one part of what an agent's tool does (protocol.md 1,
`WsClientEditWorkflowCommand`). What an edit does and when it is refused: `workflow.apply`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field

from turnback.core.values import shown

JsonObject = dict[str, Any]

# Far outside any canvas; the page's own arithmetic stays exact.
Coordinate = Annotated[
    Annotated[int, Field(strict=True, ge=-1_000_000_000, le=1_000_000_000)]
    | Annotated[
        float, Field(strict=True, ge=-1_000_000_000, le=1_000_000_000, allow_inf_nan=False)
    ],
    Field(description="Pixels on the canvas."),
]


class _Wire(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True
    )


class Position(_Wire):
    """Where an operator or a comment box stands."""

    x: Coordinate
    y: Coordinate


class _Edit(_Wire):
    def model_post_init(self, context: Any, /) -> None:
        # So that `op` is written with `exclude_unset` too, however the edit was made.
        self.__pydantic_fields_set__.add("op")


class AddOperator(_Edit):
    """A new operator, of a known type and with an operatorID that is not in use."""

    op: Literal["addOperator"] = "addOperator"
    operator: JsonObject
    position: Position | None = None


class ChangeOperator(_Edit):
    """Members of an operator set as given, or taken away; never its operatorID."""

    op: Literal["changeOperator"] = "changeOperator"
    operator_id: str = Field(alias="operatorID")
    values: JsonObject = Field(default_factory=dict, alias="set")
    unset: tuple[str, ...] = ()


class RemoveOperator(_Edit):
    """An operator gone, with its links and its position, and nothing else."""

    op: Literal["removeOperator"] = "removeOperator"
    operator_id: str = Field(alias="operatorID")


class MoveOperator(_Edit):
    """An operator at another place."""

    op: Literal["moveOperator"] = "moveOperator"
    operator_id: str = Field(alias="operatorID")
    position: Position


class AddLink(_Edit):
    """A new link between ports that exist; without a `linkID` it is given one."""

    op: Literal["addLink"] = "addLink"
    link: JsonObject


class ChangeLink(_Edit):
    """Members of a link set as given; never its linkID."""

    op: Literal["changeLink"] = "changeLink"
    link_id: str = Field(alias="linkID")
    values: JsonObject = Field(alias="set")


class RemoveLink(_Edit):
    """A link gone."""

    op: Literal["removeLink"] = "removeLink"
    link_id: str = Field(alias="linkID")


class AddComment(_Edit):
    """A new comment box, with a commentBoxID that is not in use."""

    op: Literal["addComment"] = "addComment"
    comment: JsonObject


class ChangeComment(_Edit):
    """Members of a comment box set as given; never its commentBoxID."""

    op: Literal["changeComment"] = "changeComment"
    comment_id: str = Field(alias="commentBoxID")
    values: JsonObject = Field(alias="set")


class RemoveComment(_Edit):
    """A comment box gone."""

    op: Literal["removeComment"] = "removeComment"
    comment_id: str = Field(alias="commentBoxID")


class MoveComment(_Edit):
    """A comment box at another place."""

    op: Literal["moveComment"] = "moveComment"
    comment_id: str = Field(alias="commentBoxID")
    position: Position


class ChangeSettings(_Edit):
    """Settings set as given, or taken away."""

    op: Literal["changeSettings"] = "changeSettings"
    values: JsonObject = Field(default_factory=dict, alias="set")
    unset: tuple[str, ...] = ()


class ReplaceWorkflow(_Edit):
    """Another document in place of the whole workflow: what opening a file is."""

    op: Literal["replaceWorkflow"] = "replaceWorkflow"
    workflow: JsonObject


Edit = Annotated[
    AddOperator
    | ChangeOperator
    | RemoveOperator
    | MoveOperator
    | AddLink
    | ChangeLink
    | RemoveLink
    | AddComment
    | ChangeComment
    | RemoveComment
    | MoveComment
    | ChangeSettings
    | ReplaceWorkflow,
    Field(discriminator="op"),
]


def describe(edits: Sequence[Edit]) -> str:
    """The edits as a short phrase: "Moved 2 operators", "Added Filter `op2`, removed a link"."""
    grouped: dict[str, list[Edit]] = {}
    for edit in edits:
        grouped.setdefault(edit.op, []).append(edit)
    text = ", ".join(_phrase(same) for same in grouped.values()) or "changed nothing"
    return text[0].upper() + text[1:]


def _phrase(edits: Sequence[Edit]) -> str:
    """What several edits with the same `op` did."""
    match edits[0]:
        case AddOperator(operator=operator):
            one = f"added {_text(operator, 'operatorType')} `{_text(operator, 'operatorID')}`"
            return one if len(edits) == 1 else f"added {len(edits)} operators"
        case ChangeOperator():
            return f"changed {_operators(edits)}"
        case RemoveOperator():
            return f"removed {_operators(edits)}"
        case MoveOperator():
            return f"moved {_operators(edits)}"
        case AddLink(link=link):
            if len(edits) > 1:
                return f"added {len(edits)} links"
            ends = (link.get("source"), link.get("target"))
            names = (_text(end if isinstance(end, dict) else {}, "operatorID") for end in ends)
            return "linked `{}` to `{}`".format(*names)
        case ChangeLink():
            return f"changed {_count(edits, 'a link', 'links')}"
        case RemoveLink():
            return f"removed {_count(edits, 'a link', 'links')}"
        case AddComment():
            return f"added {_count(edits, 'a comment', 'comments')}"
        case ChangeComment():
            return f"changed {_count(edits, 'a comment', 'comments')}"
        case RemoveComment():
            return f"removed {_count(edits, 'a comment', 'comments')}"
        case MoveComment():
            return f"moved {_count(edits, 'a comment', 'comments')}"
        case ChangeSettings():
            return "changed the settings"
        case ReplaceWorkflow():
            return "opened another workflow"
        case unreachable:
            assert_never(unreachable)


def _operators(edits: Iterable[Edit]) -> str:
    names = {
        edit.operator_id
        for edit in edits
        if isinstance(edit, ChangeOperator | RemoveOperator | MoveOperator)
    }
    return f"`{shown(names.pop())}`" if len(names) == 1 else f"{len(names)} operators"


def _count(edits: Iterable[Edit], one: str, many: str) -> str:
    names = {
        getattr(edit, "link_id", None) or getattr(edit, "comment_id", None) or id(edit)
        for edit in edits
    }
    return one if len(names) == 1 else f"{len(names)} {many}"


def _text(members: JsonObject, name: str) -> str:
    value = members.get(name)
    return shown(value) if isinstance(value, str) else "?"
