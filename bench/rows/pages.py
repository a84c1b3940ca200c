"""Reads over HTTP: the newest page, a transcript, and the same again unchanged."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

from bench import floors
from bench.measure import Act, Row, against, in_turn
from bench.wire import Http
from bench.world import ByHand, Store, World, serving
from turnback.core.principal import LOCAL
from turnback.sessions.commands import Asked, RevertTurn
from turnback.store.rows import SessionKey

WHAT = (
    "Over one kept HTTP connection to a `turnback serve` process. Q reads the same rows by "
    "asyncpg in the measuring process. The page is of the newest 50 steps, of a straight "
    "session and of one whose path has parted 128 times; the transcript has 1,000 records."
)
RECORDS = """select id, branch_id, seq, parent_id, turn_id, step_index, role, before_hash,
    after_hash, end_reason, event_seq, principal, created_at, payload from records
where root_id = $1::uuid and branch_id = (select head_branch from sessions where id = $1::uuid)
order by seq desc limit $2"""
PARTINGS = 128


async def measure(world: World) -> list[Row]:
    """Pages against each other, the transcript and its 304 against Q."""
    async with world.store() as store, AsyncExitStack() as entered:
        straight, parted = await store.session(), await store.session()
        await store.seed(straight, turns=100, steps=9)
        await _part(store, parted)
        server = await entered.enter_async_context(serving(store.url))
        http = await Http.connect(server.port)
        rows = await entered.enter_async_context(
            floors.rows(store.url, RECORDS, straight.id, 1_000)
        )
        transcript = f"/sessions/{straight.id}/transcript?limit=1000"
        await _get(http, transcript)
        etag = http.headers["etag"]
        page, parted_page = (f"/sessions/{key.id}/steps?limit=50" for key in (straight, parted))
        series = await in_turn(
            {
                "Q": rows,
                "transcript": _act(http, transcript),
                "unchanged": _act(http, transcript, status=304, etag=etag),
                "page": _act(http, page),
                "parted": _act(http, parted_page),
            }
        )
        http.close()
    return [
        against(
            "transcript of 1,000 records", series["transcript"], series["Q"], at_most=1.5, of="Q"
        ),
        against("the same unchanged: 304", series["unchanged"], series["Q"], at_most=1.5, of="Q"),
        against(
            f"newest page of 50, parted {PARTINGS} times",
            series["parted"],
            series["page"],
            at_most=1.5,
            of="one never parted",
        ),
    ]


async def _part(store: Store, key: SessionKey) -> None:
    """A path that leaves a branch again and again: each second turn is taken back."""
    hand = ByHand()
    async with store.actor(key, hand.start) as actor:
        for n in range(2 * PARTINGS):
            run = await hand.prompt(actor)
            await hand.step(actor, run, last=True)
            if n % 2:
                await actor.ask(Asked(RevertTurn(run.turn_id), LOCAL))


async def _get(http: Http, path: str, status: int = 200, **headers: str) -> bytes:
    found, body = await http.request("GET", path, b"", **headers)
    if found != status:
        raise RuntimeError(f"GET {path} answered {found}, not {status}: {body[:200]!r}")
    return body


def _act(http: Http, path: str, *, status: int = 200, etag: str | None = None) -> Act:
    headers = {} if etag is None else {"If_None_Match": etag}

    async def run() -> float:
        began = time.perf_counter()
        await _get(http, path, status, **headers)
        return time.perf_counter() - began

    return run
