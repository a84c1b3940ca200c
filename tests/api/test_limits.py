"""Limits of sockets: each has a name in the settings, and a documented way to refuse."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from processes import eventually, process
from raw import CLOSE, CONTINUATION, TEXT, raw
from serving import Server, serving
from wire import is_error

from turnback.api.limits import Rate
from turnback.core.principal import LOCAL

STOP = b'{"type": "WsClientStopCommand", "requestId": "s"}'


async def lives(server: Server, session: str) -> None:
    """The server goes on: another client is served."""
    async with server.connect(session) as client:
        await client.snapshot()
        assert (await client.ask("Stop"))["type"] == "WsServerAckEvent"


# -- messages a minute


@pytest.mark.parametrize(("per_minute", "wait"), [(60, 1.0), (6_000, 0.01)])
def test_a_rate_lets_a_minutes_worth_through_at_once_and_then_so_many_a_minute(
    per_minute: int, wait: float
) -> None:
    rate = Rate(per_minute)
    assert [rate.take(100.0) for _ in range(per_minute)] == [None] * per_minute
    refused = rate.take(100.0)
    assert refused is not None
    assert refused.data["retryAfterMs"] == pytest.approx(wait * 1000, abs=1)
    assert rate.take(100.0 + wait * 0.5) is not None
    assert rate.take(100.0 + wait * 1.01) is None
    assert rate.take(100.0 + wait * 1.01) is not None
    assert [rate.take(1000.0) for _ in range(per_minute)] == [None] * per_minute
    assert rate.take(1000.0) is not None


async def test_a_message_too_many_is_refused_to_its_sender_alone_and_not_carried_out(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, ws_messages_per_minute=15) as server:
        session = await server.session()
        async with server.connect(session) as greedy, server.connect(session) as other:
            await greedy.snapshot()
            await other.snapshot()
            for _ in range(15):
                assert (await greedy.ask("Stop"))["type"] == "WsServerAckEvent"
            refused = await greedy.ask("Prompt", content="one too many")
            assert refused["code"] == "rate_limited"
            assert refused["data"]["limit"] == "ws_messages_per_minute"
            assert 0 < refused["data"]["retryAfterMs"] <= 4000
            await other.prompt("add a CSVFileScan")
            assert "one too many" not in str([step["content"] for step in other.path])
            assert not [frame for frame in other.frames if is_error(frame)]
            await asyncio.sleep(refused["data"]["retryAfterMs"] / 1000)
            assert (await greedy.ask("Stop"))["type"] == "WsServerAckEvent"


async def test_a_base_client_is_told_the_sentence_alone(fresh_database: str) -> None:
    async with (
        serving(fresh_database, ws_messages_per_minute=1) as server,
        server.connect(await server.session(), v1=False) as client,
    ):
        await client.snapshot()
        await client.send("Stop")
        await client.send("Stop")
        error = await client.wait(is_error)
        assert set(error) == {"type", "error"}
        assert "messages a minute" in error["error"]


async def test_whoever_floods_is_read_no_faster_than_it_may_send(fresh_database: str) -> None:
    async with (
        serving(fresh_database, ws_messages_per_minute=600) as server,
        server.connect(await server.session(), close_timeout=0.5) as client,
    ):
        await client.snapshot()
        for _ in range(1000):
            await client.send_raw("null")
        await client.wait(lambda f: f.get("code") == "rate_limited")
        seen, began = len(client.frames), time.monotonic()
        await asyncio.sleep(1)
        told, seconds = len(client.frames) - seen, time.monotonic() - began
        # Ten a second are carried out, and after each one is refused; of the thousand sent.
        assert told < 40 * seconds


# -- sockets of a principal


@pytest.mark.parametrize("v1", [True, False])
async def test_a_socket_too_many_is_told_so_and_closed_and_has_its_place_later(
    fresh_database: str, v1: bool
) -> None:
    async with serving(fresh_database, ws_sockets_per_principal=3) as server:
        sessions = [await server.session() for _ in range(2)]
        first, second, third = (server.connect(sessions[n % 2]) for n in range(3))
        async with first, second:
            async with third:
                for client in (first, second, third):
                    await client.snapshot()
                async with server.connect(sessions[0], v1=v1) as fourth:
                    error = await fourth.wait(is_error)
                    assert await fourth.until_closed() == 1013
                    assert "ws_sockets_per_principal" in error["error"]
                    assert error.get("code") == ("too_many_sockets" if v1 else None)
                    assert len(fourth.frames) == 1
                for client in (first, second, third):
                    assert client.closed is None

            async def again() -> bool:
                async with server.connect(sessions[0], v1=v1) as client:
                    frame = await client.wait(lambda _: True)
                    return bool(frame["type"] == "WsServerSnapshotEvent")

            await eventually(again)


async def test_sockets_that_find_no_session_leave_their_places(fresh_database: str) -> None:
    async with serving(fresh_database, ws_sockets_per_principal=1) as server:
        for _ in range(3):
            async with server.connect("nothing") as client:
                assert (await client.wait(is_error))["code"] == "session_not_found"
                assert await client.until_closed() == 4404
        await lives(server, await server.session())


# -- silence


async def test_a_connection_that_asks_nothing_is_cut_and_one_that_asks_in_time_is_not(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, handshake_timeout=1.0) as server:
        session = await server.session()
        async with raw(server.url) as silent, raw(server.url) as slow, raw(server.url) as asking:
            await asking.shake(f"/sessions/{session}/ws")
            await slow.write(b"GET /healthz HTTP/1.1\r\nHost: local")
            await silent.cut()
            await slow.cut()
            await asyncio.sleep(0.3)
            await asking.send((1000).to_bytes(2, "big"), opcode=CLOSE)
            assert await asking.closed_with() == 1000


async def test_a_client_that_answers_no_ping_is_closed(fresh_database: str) -> None:
    quick = {"ws_ping_interval": 0.1, "ws_ping_timeout": 1.0}
    async with serving(fresh_database, **quick) as server:
        session = await server.session()
        async with raw(server.url) as dead, server.connect(session) as client:
            await client.snapshot()
            await dead.shake(f"/sessions/{session}/ws")
            assert await dead.closed_with() == 1011
            assert client.closed is None  # it has answered


# -- what is no message


@pytest.mark.case(36)
@pytest.mark.parametrize(
    "parts",
    [
        [b"\xff\xfe"],
        [b'{"type": "WsClientPromptCommand", "content": "\xe2\x82"}'],
        [b'{"type": "WsClient', b'StopCommand\xed\xa0\x80"}'],
        [b"\xc0\x80" * 40_000],
    ],
)
async def test_text_that_is_not_utf8_closes_with_1007_and_leaves_no_traceback(
    fresh_database: str, tmp_path: Path, parts: list[bytes]
) -> None:
    async with process(tmp_path, fresh_database) as server:  # which looks at what was logged
        session = await server.session()
        async with raw(server.url) as client:
            await client.shake(f"/sessions/{session}/ws")
            for n, part in enumerate(parts, 1):
                opcode = TEXT if n == 1 else CONTINUATION
                await client.send(part, opcode=opcode, final=n == len(parts))
            assert await client.closed_with() == 1007
        async with server.connect(session) as other:
            await other.snapshot()


async def test_text_in_parts_whose_characters_are_cut_between_them_is_whole(
    standing: Server,
) -> None:
    session = await standing.session()
    prompt = '{"type": "WsClientPromptCommand", "content": "größer"}'.encode()
    async with standing.connect(session) as client, raw(standing.url) as by_hand:
        await client.snapshot()
        await by_hand.shake(f"/sessions/{session}/ws")
        cut = prompt.index(b"\xc3") + 1
        await by_hand.send(prompt[:cut], final=False)
        await by_hand.send(prompt[cut:], opcode=CONTINUATION)
        step = await client.wait(lambda f: f["type"] == "WsServerStepEvent")
        assert step["step"]["content"] == "größer"


async def test_a_binary_frame_is_a_typed_error(standing: Server) -> None:
    async with standing.connect(await standing.session()) as client:
        await client.snapshot()
        await client.send_raw(STOP)
        assert (await client.wait(is_error))["code"] == "invalid_format"
        assert (await client.ask("Stop"))["type"] == "WsServerAckEvent"


@pytest.mark.case(36)
@pytest.mark.parametrize("whole", [True, False])
async def test_a_message_over_the_limit_closes_with_1009_before_it_is_read(
    fresh_database: str, whole: bool
) -> None:
    async with serving(fresh_database, ws_max_size=1000) as server:
        session = await server.session()
        async with raw(server.url) as client:
            await client.shake(f"/sessions/{session}/ws")
            await client.send(b"x" * (1001 if whole else 600), final=whole)
            if not whole:
                await client.send(b"x" * 401, opcode=CONTINUATION)
            assert await client.closed_with() == 1009
        await lives(server, session)


async def test_frames_are_not_compressed_though_a_client_offers_it(standing: Server) -> None:
    session = await standing.session()
    async with raw(standing.url) as client:
        await client.shake(f"/sessions/{session}/ws", Sec_WebSocket_Extensions="permessage-deflate")
        assert b" 101 " in client.header
        assert b"extensions" not in client.header.lower()
        await client.send(STOP, reserved=4)
        assert await client.closed_with() == 1002
    await lives(standing, session)


async def test_a_client_that_leaves_in_the_middle_of_a_frame_is_forgotten(
    standing: Server,
) -> None:
    session = await standing.session()
    async with raw(standing.url) as client:
        await client.shake(f"/sessions/{session}/ws")
        await client.write(b"\x81\xfe\xff\xff\0\0\0\0half")
        actor = await standing.app.state.sessions.get(LOCAL, session)
        await eventually(lambda: len(actor.hub) == 1)
    await eventually(lambda: not len(actor.hub))
    await lives(standing, session)
