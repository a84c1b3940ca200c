"""Reads over HTTP: transcripts and the newest page, at depth and not, and the same unchanged."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

from bench import bulk, floors
from bench.measure import Act, Row, against, in_turn
from bench.wire import Http
from bench.world import ByHand, Store, World, serving
from turnback.core.principal import LOCAL
from turnback.sessions.commands import Asked, RevertTurn
from turnback.store.rows import SessionKey

WHAT = (
    "Over one kept HTTP connection to a `turnback serve` process. Q reads the same rows by "
    "asyncpg in the measuring process. The transcripts have 1,000 records: of one session, of a "
    "fork, and of the 32nd fork below another, all of which have said as many of them; read first: "
    "by a server that keeps none of them in memory. The page is of the newest 50 steps, of a "
    "straight session, of one whose path has parted 128 times, and of the 128th fork below it, "
    "two steps of each of them."
)
RECORDS = """select id, branch_id, seq, parent_id, turn_id, step_index, role, before_hash,
    after_hash, end_reason, event_seq, principal, created_at, payload, folded from records
where root_id = $1::uuid and branch_id = (select head_branch from sessions where id = $1::uuid)
order by seq desc limit $2"""
COUNT, DEPTHS, DEEP = 1_000, (1, 32), 128
PARTINGS = 128


async def measure(world: World) -> list[Row]:
    """Transcripts and a 304 against Q, pages against each other."""
    async with world.store() as store, AsyncExitStack() as entered:
        parted = await store.session()
        await _part(store, parted)
        async with bulk.writing(store) as write:
            straight = await write.said(await write.session(), turns=COUNT // 10)
            forks = [await _forks(write, depth) for depth in DEPTHS]
            one = await write.said(await write.session(), turns=1, records=50)
            deep = await write.forked(one, depth=DEEP, turns=1)
        served = await entered.enter_async_context(serving(store.url))
        forgetful = await entered.enter_async_context(serving(store.url, transcript_cache=1))
        http, cold = await Http.connect(served.port), await Http.connect(forgetful.port)
        query = floors.rows(store.url, RECORDS, straight.key.id, COUNT)
        rows = await entered.enter_async_context(query)
        transcript = _transcript(straight.key)
        await _get(http, transcript)
        etag = http.headers["etag"]
        series = await in_turn(
            {
                "Q": rows,
                "transcript of 1,000 records": _act(http, transcript),
                **{
                    f"the same at depth {depth}": _act(http, _transcript(key))
                    for depth, key in zip(DEPTHS, forks, strict=True)
                },
                "the same read first": _act(cold, transcript),
                "the same unchanged: 304": _act(http, transcript, status=304, etag=etag),
                "page": _act(http, _page(straight.key)),
                f"newest page of 50, parted {PARTINGS} times": _act(http, _page(parted)),
                f"newest page of 50, depth {DEEP}": _act(http, _page(deep.key)),
            },
            times=20,
        )
        http.close()
        cold.close()
    q, page = series.pop("Q"), series.pop("page")
    return [
        against(name, taken, page, at_most=1.5, of="a straight one")
        if name.startswith("newest")
        else against(name, taken, q, at_most=1.5, of="Q")
        for name, taken in series.items()
    ]


async def _forks(write: bulk.Bulk, depth: int) -> SessionKey:
    """A fork of a fork, so many times, with `COUNT` records of which all have said as many."""
    each = COUNT // (depth + 1) // 2 * 2
    first = await write.said(await write.session(), turns=1, records=COUNT - depth * each)
    last = await write.forked(first, depth=depth, turns=1, records=each)
    assert last.head.seq == COUNT
    return last.key


def _transcript(key: SessionKey) -> str:
    return f"/sessions/{key.id}/transcript?limit={COUNT}"


def _page(key: SessionKey) -> str:
    return f"/sessions/{key.id}/steps?limit=50"


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
