"""Undos and what they left: reports in the reader's language, residues, acknowledging (undo.md 6).

Names of people, drafts and values are for who has the right `run`. Who may only read is told ids,
states and counts, as in frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.cursors import bad_cursor
from turnback.api.rest.reading import UtcOffset, calendar, language
from turnback.api.rest.request import actor_of, page_size, principal_of, sessions_of, setting
from turnback.core.drift import LeafValues
from turnback.core.effects import LeafPath, ResourceKey
from turnback.core.principal import Right
from turnback.core.undo import account
from turnback.core.undo.outcome import counts
from turnback.core.undo.report import Draft, ReportItem, ReportResidue
from turnback.core.undo.reporting import report_of, residue_of
from turnback.core.undo.rows import Claim, ResidueStatus
from turnback.core.undo.words import Language, headline
from turnback.sessions.commands import Acknowledge, Asked
from turnback.store.ids import ID, is_id
from turnback.store.rows import SessionKey
from turnback.store.undos import Undo

PAGE = 50
"""Undos, or residues, in a page where no `limit` is named."""

router = APIRouter(responses=PROBLEMS)

StandingName = Literal["in_force", "reverted", "compensated", "cancelled", "in_doubt", "partly"]
VerbName = Literal["revert", "compensate", "cancel", "acknowledge"]
OutcomeName = Literal["fully_reverted", "partially_reverted", "not_reverted"]
StatusName = Literal["open", "acknowledged", "settled"]
Cursor = Annotated[str | None, Query(json_schema_extra={"pattern": ID.pattern})]
PageLimit = Annotated[int | None, Query(ge=1, json_schema_extra=setting("page_limit"))]


class LeafBody(BaseModel):
    """One value of a thing in the world: `path` leads to the value in it.

    The thing is named by the `connection` that reaches it, its `kind` and its `key` there, the
    members in the contract's order; `thing` is that in words.
    """

    thing: str
    connection: str
    kind: str
    key: list[str | int | float | bool]
    path: list[str]


class ValuesBody(LeafBody):
    """A value that somebody else has changed.

    `goal` is what was to be put back, `now` what is there, `expected` what our last write had
    left. One that is not there is null, and its `has_` is false.
    """

    expected: Any
    now: Any
    goal: Any
    has_expected: bool
    has_now: bool
    has_goal: bool


class ClaimBody(LeafBody):
    """A value that a residue accounts for; without a `path`, the whole thing, which was never read.

    `theirs`: it is not ours either, but somebody else's.
    """

    theirs: bool


class DraftBody(BaseModel):
    """A message that a person may send; nobody else does. `date` is in ms."""

    to: list[str]
    subject: str
    date: int
    body: str


class ItemBody(BaseModel):
    """One effect of an undo; `said` is what came of it, in words."""

    effect_id: str
    tool: str
    what: str
    verb: VerbName
    state: str
    reason: str | None
    said: str
    standing: StandingName | None
    people: list[str]
    values: list[ValuesBody]


class ResidueBody(BaseModel):
    """What is left of one effect, in the reader's words. Times in ms.

    `what` is left, `saw` who has seen it, `settles` when it will be certain, `how` what can be
    done and by whom (`fix`).
    """

    residue_id: str
    effect_id: str
    verb: VerbName
    what: str
    who: list[str]
    saw: str
    since: int
    settles_at: int | None
    settles: str | None
    fix: Literal["you", "people", "administrator", "later_undo", "nobody"]
    how: str
    draft: DraftBody | None
    status: StatusName
    leaves: list[ClaimBody]


class SpentBody(BaseModel):
    """What has been used: calls that change something, reads, tokens."""

    calls: int
    reads: int
    tokens: int


class BudgetBody(SpentBody):
    """What a run may use; `run_ms` of wall clock."""

    run_ms: int


class UndoBody(BaseModel):
    """An undo as listed: no names in it. `open_residues` are those that nobody has acknowledged.

    `headline` names first what needs a person, and never says more than the report. `outcome` is
    null as long as it goes on. Times in ms.
    """

    undo_id: str
    plan_id: str
    revision: int
    generation: int
    status: Literal["running", "ended"]
    stopped: bool
    by: str
    turn_ids: list[str]
    started_at: int
    ended_at: int | None
    outcome: OutcomeName | None
    headline: str
    counts: dict[str, int]
    open_residues: int
    spent: SpentBody
    budget: BudgetBody


class ReportBody(UndoBody):
    """What came of an undo, in `language`."""

    language: Literal["en", "de"]
    items: list[ItemBody]
    residues: list[ResidueBody]


class UndoList(BaseModel):
    """A page of undos, newest first; `next_cursor` is null on the last."""

    undos: list[UndoBody]
    next_cursor: str | None


class ResidueList(BaseModel):
    """A page of residues, newest first; `next_cursor` is null on the last."""

    language: Literal["en", "de"]
    residues: list[ResidueBody]
    next_cursor: str | None


@router.get("/sessions/{session_id}/undos", response_model=UndoList)
async def list_undos(
    request: Request, session_id: str, cursor: Cursor = None, limit: PageLimit = None
) -> Response:
    """The session's undos: what each came to, in one line."""
    limit = page_size(request, limit, usual=PAGE)
    key, said = await _key(request, session_id, Right.READ), language(request)
    dao = sessions_of(request).dao
    undos = await dao.undos.of_session(key, before=_place(cursor), limit=limit + 1)
    page = undos[:limit]
    return json_answer(
        {
            "undos": [_undo(undo, said) for undo in page],
            "next_cursor": page[-1].run.id if len(undos) > limit else None,
        }
    )


@router.get("/sessions/{session_id}/undos/{undo_id}", response_model=ReportBody)
async def get_undo(
    request: Request, session_id: str, undo_id: str, utc_offset: UtcOffset = 0
) -> Response:
    """The report of an undo: what came of each effect, and what is left."""
    said = language(request)
    when = calendar(said, utc_offset)
    key = await _key(request, session_id, Right.RUN)
    undo = await sessions_of(request).dao.undos.get(key, undo_id)
    report = report_of(
        undo.run,
        undo.members,
        undo.residues,
        undo.effects,
        language=said,
        when=when,
        secret=undo.secret,
    )
    return json_answer(
        _undo(undo, said)
        | {
            "language": said,
            "items": [_item(item) for item in report.items],
            "residues": [_residue(residue) for residue in report.residues],
        },
        headers={"content-language": said},
    )


@router.get("/sessions/{session_id}/residues", response_model=ResidueList)
async def list_residues(
    request: Request,
    session_id: str,
    status: StatusName | None = None,
    cursor: Cursor = None,
    limit: PageLimit = None,
    utc_offset: UtcOffset = 0,
) -> Response:
    """What the session's undos have left, all or those of one `status`."""
    limit, said = page_size(request, limit, usual=PAGE), language(request)
    when = calendar(said, utc_offset)
    key = await _key(request, session_id, Right.RUN)
    found = await sessions_of(request).dao.undos.residues(
        key,
        status=None if status is None else ResidueStatus(status),
        before=_place(cursor),
        limit=limit + 1,
    )
    page = [residue_of(id_, row, language=said, when=when) for id_, row in found[:limit]]
    return json_answer(
        {
            "language": said,
            "residues": [_residue(residue) for residue in page],
            "next_cursor": page[-1].residue_id if len(found) > limit else None,
        },
        headers={"content-language": said},
    )


@router.post("/sessions/{session_id}/residues/{residue_id}/acknowledge", response_model=ResidueBody)
async def acknowledge_residue(
    request: Request, session_id: str, residue_id: str, utc_offset: UtcOffset = 0
) -> Response:
    """Take note of a residue. It raises no outcome, and again it changes nothing."""
    said = language(request)
    when = calendar(said, utc_offset)
    asked, actor = (
        Asked(Acknowledge(residue_id), principal_of(request)),
        await actor_of(request, session_id),
    )
    await actor.ask(asked)
    undo = await sessions_of(request).dao.undos.of_residue(actor.key, residue_id)
    residue = residue_of(residue_id, undo.residues[residue_id], language=said, when=when)
    return json_answer(_residue(residue))


async def _key(request: Request, session_id: str, right: Right) -> SessionKey:
    return await sessions_of(request).dao.living(principal_of(request), session_id, right=right)


def _place(cursor: str | None) -> str | None:
    if cursor is not None and not is_id(cursor):
        raise bad_cursor()
    return cursor


def _undo(undo: Undo, said: Language) -> dict[str, Any]:
    run, progress = undo.run, undo.progress()
    open_ = [row for row in undo.residues.values() if row.status is ResidueStatus.OPEN]
    return {
        "undo_id": run.id,
        "plan_id": run.plan_id,
        "revision": undo.revision,
        "generation": run.generation,
        "status": run.status,
        "stopped": run.stopped,
        "by": undo.by,
        "turn_ids": progress.turn_ids,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "outcome": run.outcome,
        "headline": headline(run.outcome, counts(undo.members), said),
        "counts": progress.counts,
        "open_residues": len(open_),
        "spent": asdict(run.spent),
        "budget": asdict(run.budget),
    }


def _item(item: ReportItem) -> dict[str, Any]:
    return {
        "effect_id": item.effect_id,
        "tool": item.tool,
        "what": item.what,
        "verb": item.verb,
        "state": item.state,
        "reason": item.reason,
        "said": item.said,
        "standing": item.standing,
        "people": item.people,
        "values": [_values(leaf) for leaf in item.values],
    }


def _values(leaf: LeafValues) -> dict[str, Any]:
    return {
        **_leaf(leaf.cell.resource, leaf.cell.path),
        "expected": leaf.expected,
        "now": leaf.now,
        "goal": leaf.goal,
        "has_expected": leaf.is_expected,
        "has_now": leaf.is_now,
        "has_goal": leaf.is_goal,
    }


def _leaf(resource: ResourceKey, path: LeafPath) -> dict[str, Any]:
    return {
        "thing": account.thing(resource),
        "connection": resource.connection,
        "kind": resource.kind,
        "key": resource.key,
        "path": path,
    }


def _residue(residue: ReportResidue) -> dict[str, Any]:
    return {
        "residue_id": residue.residue_id,
        "effect_id": residue.effect_id,
        "verb": residue.verb,
        "what": residue.what,
        "who": residue.who,
        "saw": residue.saw,
        "since": residue.since,
        "settles_at": residue.settles_at,
        "settles": residue.settles,
        "fix": residue.fix,
        "how": residue.how,
        "draft": _draft(residue.draft),
        "status": residue.status,
        "leaves": _claims(residue.leaves),
    }


def _draft(draft: Draft | None) -> Mapping[str, Any] | None:
    return None if draft is None else asdict(draft)


def _claims(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    return [{**_leaf(claim.resource, claim.path), "theirs": claim.theirs} for claim in claims]
