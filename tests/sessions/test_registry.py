"""Live sessions come and go: the limit on them, and who holds one that is gone."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from processes import eventually
from serving import Server, serving

from turnback.core.errors import QueueFull
from turnback.core.principal import LOCAL
from turnback.sessions.broadcast import DELETED, EVICTED


async def test_sessions_opened_at_the_same_instant_keep_to_the_limit(fresh_database: str) -> None:
    async with serving(fresh_database, max_live_sessions=3) as server:
        sessions = [await server.session() for _ in range(12)]
        asked = [server.http.get(f"/sessions/{session}/workflow") for session in sessions]
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*asked))
        assert statuses == [200] * 3 + [429] * 9


async def test_a_tool_that_somebody_has_looked_at_elsewhere_is_so_within_a_poll(
    standing: Server,
) -> None:
    sessions = standing.app.state.sessions
    await sessions.dao.pins.looked("crm", "get_contact", "sha256:0")
    pins = sessions.outside._catalog.registry._pins
    await eventually(lambda: ("crm", "get_contact") in sessions.outside._catalog.registry._pins)
    assert pins is not sessions.outside._catalog.registry._pins


async def test_who_joins_a_session_just_deleted_is_told_so(standing: Server) -> None:
    session = await standing.session()
    actor = await standing.app.state.sessions.get(LOCAL, session)
    assert (await standing.http.delete(f"/sessions/{session}")).status_code == 204
    subscriber, _ = actor.join(lambda message: None, principal=LOCAL)
    assert await asyncio.wait_for(subscriber.get(), 5) == DELETED


async def test_who_holds_a_session_that_left_memory_is_told_to_try_again(standing: Server) -> None:
    session = await standing.session()
    live = standing.app.state.sessions
    actor = await live.get(LOCAL, session)
    await live._evict(older_than=-1)
    with pytest.raises(QueueFull, match="try again"):
        await actor.refresh()
    subscriber, _ = actor.join(lambda message: None, principal=LOCAL)
    assert await asyncio.wait_for(subscriber.get(), 5) == EVICTED
    async with standing.connect(session) as client:
        await client.snapshot()


async def test_two_who_need_room_at_once_evict_each_session_once(standing: Server) -> None:
    live = standing.app.state.sessions
    for _ in range(5):
        await live.get(LOCAL, await standing.session())
    await asyncio.gather(live._evict(older_than=-1), live._evict(older_than=-1))
    assert not live._actors


async def test_what_an_evicted_session_held_is_freed_at_once(standing: Server) -> None:
    session = await standing.session()
    live = standing.app.state.sessions
    async with standing.connect(session) as client:
        await client.snapshot()
        await client.prompt("hello")
    held = weakref.ref(await live.get(LOCAL, session))
    gc.disable()  # a collection would hide a cycle, and in a server it comes seldom
    try:
        await eventually(lambda: len(held().hub) == 0)
        await live._evict(older_than=-1)
        await eventually(lambda: held() is None)
    finally:
        gc.enable()
