"""What waits for one session: commands in their order, reads together, and who is left waiting."""

from __future__ import annotations

import asyncio

import pytest
from serving import Server

from turnback.core.errors import DatabaseUnavailable
from turnback.core.principal import LOCAL
from turnback.core.tree import State
from turnback.sessions.actor import Actor
from turnback.sessions.commands import Asked, Change, Prompt, Stop


async def actor_of(server: Server) -> Actor:
    actor: Actor = await server.app.state.sessions.get(LOCAL, await server.session())
    return actor


async def test_however_many_read_at_once_a_command_is_taken(standing: Server) -> None:
    actor = await actor_of(standing)
    most = standing.settings.command_queue
    reads = [asyncio.create_task(actor.catch_up()) for _ in range(3 * most)]
    await asyncio.sleep(0)
    commands = [
        asyncio.create_task(actor.ask(Asked(Change(name=str(n)), LOCAL))) for n in range(most)
    ]
    await asyncio.gather(*reads, *commands)
    assert actor.memory.row.name == str(most - 1)
    assert actor.queue.commands == 0


async def test_who_reads_after_a_command_was_asked_reads_what_it_did(standing: Server) -> None:
    actor = await actor_of(standing)
    before = asyncio.create_task(actor.refresh())
    asked = asyncio.create_task(actor.ask(Asked(Prompt("hello"), LOCAL)))
    await asyncio.sleep(0)
    await actor.refresh()
    assert asked.done()
    assert actor.memory.tree.state is State.GENERATING
    await asyncio.gather(before, asked, actor.ask(Asked(Stop(), LOCAL)))


async def test_a_reader_who_leaves_takes_nothing_from_those_who_read_with_it(
    standing: Server,
) -> None:
    actor = await actor_of(standing)
    reads = [asyncio.create_task(actor.catch_up()) for _ in range(3)]
    await asyncio.sleep(0)
    reads[0].cancel()
    await asyncio.gather(*reads[1:])
    with pytest.raises(asyncio.CancelledError):
        await reads[0]


async def test_who_asked_for_what_is_cut_off_is_told_that_it_is_in_doubt(standing: Server) -> None:
    actor = await actor_of(standing)
    asked = asyncio.create_task(actor.ask(Asked(Change(name="Orders"), LOCAL)))
    for _ in range(3):  # fewer turns of the loop than a commit takes
        await asyncio.sleep(0)
    await actor.close()
    with pytest.raises(DatabaseUnavailable) as raised:
        await asked
    assert raised.value.data["in_doubt"]
