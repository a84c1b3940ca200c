"""Two calls on one thing: in a row, with a stranger in between, and of two sessions at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from bench.undo.dojo import Task, ToolCall, differing
from bench.undo.scene import Scene, Tier, scene
from bench.undo.service import Service
from bench.undo.trial import Act, Expected, Trial, taken_back

SLOW = 0.3
"""Seconds that a call takes while another session's is on its way."""


@dataclass(frozen=True)
class Pair:
    """Two calls of one tool on one thing, the `other` session's call, and a stranger's `act`.

    The stranger writes what both calls do. `back`: the second can be put back around what the
    other session writes.
    """

    what: str
    task: str
    first: ToolCall
    second: ToolCall
    other: ToolCall
    act: Act
    back: bool


def _scheduled(world: Any) -> Any:
    return next(one for one in world.bank_account.scheduled_transactions if one.id == 7)


def _page(world: Any) -> None:
    world.web.web_content["www.true-informations.com"] = "theirs"


def _file(world: Any) -> None:
    file = world.cloud_drive.files["19"]
    file.content = "theirs"
    file.size = len(file.content)


PAY, SELF, POST = "update_scheduled_transaction", "update_user_info", "post_webpage"
URL = {"url": "www.true-informations.com"}

OWN = (
    Pair(
        "a payment",
        "banking/user_task_2",
        (PAY, {"id": 7, "amount": 1}),
        (PAY, {"id": 7, "amount": 2}),
        (PAY, {"id": 7, "subject": "other"}),
        lambda w: setattr(_scheduled(w), "amount", 77.0),
        back=True,
    ),
    Pair(
        "an address",
        "banking/user_task_13",
        (SELF, {"street": "One 1"}),
        (SELF, {"street": "Two 2"}),
        (SELF, {"city": "Other"}),
        lambda w: setattr(w.user_account, "street", "Theirs 7"),
        back=True,
    ),
    Pair(
        "a page",
        "slack/user_task_4",
        (POST, URL | {"content": "one"}),
        (POST, URL | {"content": "two"}),
        (POST, URL | {"content": "other"}),
        _page,
        back=False,
    ),
)
"""With the suites' own tools."""

APPEND, HOTEL, WIDEN = "append_to_file", "reserve_hotel", "add_calendar_event_participants"
DAYS = {"start_day": "2031-01-01", "end_day": "2031-01-02"}

ADAPTED = (
    *OWN,
    Pair(
        "a file",
        "workspace/user_task_29",
        (APPEND, {"file_id": "19", "content": "one"}),
        (APPEND, {"file_id": "19", "content": "two"}),
        (APPEND, {"file_id": "19", "content": "other"}),
        _file,
        back=False,
    ),
    Pair(
        "a reservation",
        "travel/user_task_0",
        (HOTEL, DAYS | {"hotel": "City Hub"}),
        (HOTEL, DAYS | {"hotel": "Le Marais Boutique"}),
        (HOTEL, DAYS | {"hotel": "Good Night"}),
        lambda w: setattr(w.reservation, "title", "theirs"),
        back=False,
    ),
)
"""With the adapters."""


async def trials(service: Service, tier: Tier, pair: Pair, task: Task) -> list[Trial]:
    """All of one pair."""
    return [
        await in_a_row(service, tier, pair, task),
        await between_calls(service, tier, pair, task),
        await between_inverses(service, tier, pair, task),
        await at_once(service, tier, pair, task),
    ]


async def in_a_row(service: Service, tier: Tier, pair: Pair, task: Task) -> Trial:
    async with scene(service, task, tier) as one:
        await one.make(pair.first, pair.second, pair.first)
        return await taken_back(one, f"{pair.what}, written three times")


async def between_calls(service: Service, tier: Tier, pair: Pair, task: Task) -> Trial:
    async with scene(service, task, tier) as one:
        await one.make(pair.first)
        one.stranger(pair.act)
        await one.make(pair.second)
        return await taken_back(
            one, f"{pair.what}, written by a stranger between", expects=Expected.REVIEW
        )


async def between_inverses(service: Service, tier: Tier, pair: Pair, task: Task) -> Trial:
    """Right after the first inverse has acted, a stranger writes the same; then the rest."""
    async with scene(service, task, tier) as one:
        await one.make(pair.first, pair.second)
        has_acted = False

        def late(writes: int, _: str) -> None:
            nonlocal has_acted
            if writes == 1 and not has_acted:
                has_acted = True
                one.stranger(pair.act)

        name = f"{pair.what}, written by a stranger between two inverses"
        first = await taken_back(one, name, late=late, disturbed=True)
        if first.broken:
            return first
        return await taken_back(one, f"{name}: the rest", disturbed=True)


async def at_once(service: Service, tier: Tier, pair: Pair, task: Task) -> Trial:
    """A session writes to a thing before another one's call has answered; that one is undone."""
    async with (
        scene(service, task, tier) as one,
        scene(service, task, tier, shared=one) as other,
    ):
        tool = pair.first[0]
        await _begin(one, other, pair, tool)
        return await taken_back(
            one,
            f"{pair.what}, written by two sessions at once",
            expects=Expected.BACK if pair.back else Expected.REVIEW,
        )


async def _begin(one: Scene, other: Scene, pair: Pair, tool: str) -> None:
    """Both calls, one on its way when the other comes; what the other one changes is theirs."""
    dojo, sent = one.dojo, asyncio.Event()
    dojo.slow, arrivals = {tool: SLOW}, []

    def late(name: str) -> None:
        if name == tool:
            arrivals.append(dojo.leaves)
            sent.set()

    async def meanwhile() -> None:
        await sent.wait()
        await asyncio.sleep(SLOW / 10)
        await other.make(pair.other)

    dojo.late = late
    await asyncio.gather(one.make(pair.first), meanwhile())
    dojo.slow, dojo.late = {}, lambda _: None
    [_, before] = arrivals
    after = dojo.leaves
    one.theirs = {path: after.get(path) for path in differing(before, after)}
