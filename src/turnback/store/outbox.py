"""The outbox: what a session's clients are told, as types and references, never as frames.

One notice is one row of `session_events` and one `eventSeq` (protocol.md 1). What a frame adds to
it (a step's text, a workflow's content) is read from where it is stored.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, assert_never

from turnback.core.approvals import Approval, ApprovalStatus
from turnback.core.effects import CallState, Effect, EffectClass, Standing, Verb
from turnback.core.pending import PendingState
from turnback.core.principal import Visibility
from turnback.core.run_settings import RunSettingsChange
from turnback.core.tree import Cause, State
from turnback.core.undo.budget import Spent
from turnback.core.undo.progress import Check, ItemTold, Phase, Progress, ResidueTold
from turnback.core.undo.rows import CompensationState, Outcome, Reason, ResidueStatus


@dataclass(frozen=True, slots=True)
class Status:
    """The session's state, or what it waits for, has changed.

    `waiting_for` are the questions that wait for a person.
    """

    state: State
    waiting_for: tuple[Approval, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalTold:
    """A call waits for a person, or waits no more: the question, as it stands."""

    approval: Approval


@dataclass(frozen=True, slots=True)
class StepWritten:
    """A step has been written."""

    step_id: str


@dataclass(frozen=True, slots=True)
class OutOfStep:
    """An effect that stands otherwise than the visible path has it."""

    effect_id: str
    standing: Standing


@dataclass(frozen=True, slots=True)
class HeadChanged:
    """HEAD has moved, and the workflow with it (`workflow`: its content address).

    `redo_id` is the step that the next redo lands on, None where there is nothing to redo.
    `out_of_step` are the effects that are not as the path to HEAD has them.
    """

    head_id: str
    workflow: str
    redo_depth: int
    redo_id: str | None
    cause: Cause
    by: str
    out_of_step: tuple[OutOfStep, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """The session has another name, model, settings or visibility, other grants, or was archived,
    unarchived or deleted; or its pending action is another.

    `settings` has those that have changed, `pending` is how its pending action stands now, None
    where it is done, and `turn_key` the key that it is to be sent with. Who has which grants is
    not told: not all may know.
    """

    change: str
    name: str | None = None
    archived: bool | None = None
    model: str | None = None
    settings: RunSettingsChange | None = None
    visibility: Visibility | None = None
    pending: PendingState | None = None
    turn_key: str | None = None


@dataclass(frozen=True, slots=True)
class UndoTold:
    """An undo has gone on, has ended, or what it left has changed: the whole of it."""

    progress: Progress


_PROGRESS = tuple(one.name for one in fields(Progress))


@dataclass(frozen=True, slots=True)
class EffectTold:
    """What is known of an effect has changed outside its step: it is held back, was sent or taken
    back, or a doubt about it was settled. `hold_until` is in ms, None unless it is held.
    """

    effect_id: str
    turn_id: str
    step_id: str
    tool_call_id: str
    tool: str
    state: CallState
    standing: Standing | None
    hold_until: int | None = None

    @classmethod
    def of(cls, effect: Effect) -> EffectTold:
        """What is told of an effect as it is now."""
        return cls(
            effect.id,
            effect.turn_id,
            effect.step_id,
            effect.tool_call_id,
            f"{effect.connection}.{effect.tool}",
            effect.state,
            effect.standing,
            effect.hold_until if effect.state is CallState.HELD else None,
        )


Notice = EffectTold | Status | ApprovalTold | StepWritten | HeadChanged | SessionChanged | UndoTold


def to_row(notice: Notice, commit_id: str) -> tuple[str, dict[str, Any]]:
    """The `type` and `data` of a notice's row, which names its commit too.

    Data is what orjson writes as the JSON that `from_row` reads; dataclasses stand in it as they
    are, since a copy of all that is told of an undo would take longer than its commit.
    A commit that writes a step has the step's id: its row need not say it again.
    """
    match notice:
        case Status(state, waiting_for):
            waiting = [asdict(approval) for approval in waiting_for]
            return "status", {"state": state} | ({"waiting": waiting} if waiting else {})
        case ApprovalTold(approval):
            return "approval", asdict(approval)
        case StepWritten(step_id):
            return "step", {} if step_id == commit_id else {"step": step_id}
        case HeadChanged(head_id, workflow, redo_depth, redo_id, cause, by, out_of_step):
            effects = [[one.effect_id, one.standing] for one in out_of_step]
            return "head", ({"effects": effects} if effects else {}) | {
                "head": head_id,
                "workflow": workflow,
                "redo": redo_depth,
                "redo_to": redo_id,
                "cause": cause,
                "by": by,
            }
        case SessionChanged(change, name, archived, model, settings, visibility, pending, key):
            data = {"change": change, "name": name, "archived": archived}
            return "session", data | {
                "model": model,
                "settings": settings,
                "visibility": visibility,
                "pending": pending,
                "turn_key": key,
            }
        case UndoTold(progress):
            return "undo", {name: getattr(progress, name) for name in _PROGRESS}
        case EffectTold():
            return "effect", asdict(notice)
        case _:
            assert_never(notice)


def from_row(type_: str, data: dict[str, Any], commit_id: str) -> Notice:
    """The notice that a row of `session_events` holds; the inverse of `to_row`."""
    match type_:
        case "status":
            waiting = tuple(_approval(members) for members in data.get("waiting", ()))
            return Status(State(data["state"]), waiting)
        case "approval":
            return ApprovalTold(_approval(data))
        case "step":
            return StepWritten(data.get("step", commit_id))
        case "head":
            return HeadChanged(
                data["head"],
                data["workflow"],
                data["redo"],
                data.get("redo_to"),  # absent from rows written before there was `redoId`
                Cause(data["cause"]),
                data["by"],
                tuple(OutOfStep(id_, Standing(now)) for id_, now in data.get("effects", ())),
            )
        case "session":
            return SessionChanged(
                data["change"],
                data["name"],
                data["archived"],
                data.get(
                    "model"
                ),  # absent, as what follows, from rows written before these changed
                data.get("settings"),
                None if data.get("visibility") is None else Visibility(data["visibility"]),
                None if data.get("pending") is None else PendingState(data["pending"]),
                data.get("turn_key"),
            )
        case "undo":
            return UndoTold(_progress(data))
        case "effect":
            standing = data["standing"]
            members = data | {
                "state": CallState(data["state"]),
                "standing": None if standing is None else Standing(standing),
            }
            return EffectTold(**members)
        case _:
            raise ValueError(f"no notice is stored as `{type_}`")


def _approval(data: dict[str, Any]) -> Approval:
    members = data | {
        "class_": EffectClass(data["class_"]),
        "status": ApprovalStatus(data["status"]),
    }
    return Approval(**members)


def _progress(data: dict[str, Any]) -> Progress:
    outcome = data["outcome"]
    members = data | {
        "phase": Phase(data["phase"]),
        "items": tuple(_item(item) for item in data["items"]),
        "spent": Spent(**data["spent"]),
        "outcome": None if outcome is None else Outcome(outcome),
    }
    return Progress(**members)


def _item(data: dict[str, Any]) -> ItemTold:
    reason, standing, residue = data["reason"], data["standing"], data["residue"]
    members = data | {
        "verb": Verb(data["verb"]),
        "state": CompensationState(data["state"]),
        "reason": None if reason is None else Reason(reason),
        "standing": None if standing is None else Standing(standing),
        "check": Check(data["check"]),
    }
    if residue is not None:
        status = ResidueStatus(residue["status"])
        members["residue"] = ResidueTold(**residue | {"status": status})
    return ItemTold(**members)
