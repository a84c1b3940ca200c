"""Tool servers as programs: real processes, whose bad manners end in a typed error each."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from processes import eventually
from tool_servers import alive, served_elsewhere, server

from turnback.core.contracts.model import Key
from turnback.core.errors import Lost, NotSent, ToolServerFailed
from turnback.settings import McpServer, Settings
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection


@pytest.fixture
async def good() -> AsyncIterator[McpConnection]:
    async with server("good") as connection:
        yield connection


async def test_a_tool_is_named_with_its_schema_hints_and_meta(good: McpConnection) -> None:
    (act,) = await good.tools()
    assert act.name == "act"
    assert act.description == "Does something."
    assert act.schema["properties"] == {"how": {"type": "string"}}
    assert act.annotations == {"readOnlyHint": False}
    assert act.meta == {"turnback/contract": {"contract": 1}}


async def test_a_call_brings_its_arguments_and_key_and_has_its_reply(good: McpConnection) -> None:
    reply = await good.call("act", {"n": [1, {"deep": None}]}, timeout=5, key="f:1")
    assert not reply.is_error
    assert reply.text == "done"
    assert reply.structured == {"args": {"n": [1, {"deep": None}]}, "key": "f:1"}
    assert (await good.call("act", {}, timeout=5)).structured == {"args": {}, "key": None}
    named = Key(arg="idempotency_key", honoured=60)
    keyed = await good.call("act", {}, timeout=5, key="f:2", where=named)
    assert keyed.structured == {"args": {"idempotency_key": "f:2"}, "key": None}
    assert (await good.call("act", {"how": "json"}, timeout=5)).document == {"in": "text"}


async def test_what_a_tool_calls_an_error_is_a_reply(good: McpConnection) -> None:
    failed = await good.call("act", {"how": "fails"}, timeout=5)
    assert (failed.is_error, failed.text) == (True, "it went wrong")
    refused = await good.call("act", {"how": "refuses"}, timeout=5)
    assert (refused.is_error, refused.text) == (True, "no such thing")
    # What a server says itself is never taken for a call that was not sent.
    assert (await good.call("act", {"how": "pretends"}, timeout=5)).is_error


async def test_calls_overlap(good: McpConnection) -> None:
    replies = await asyncio.gather(*(good.call("act", {"n": n}, timeout=5) for n in range(50)))
    assert [reply.structured["args"]["n"] for reply in replies] == list(range(50))  # type: ignore[index,call-overload]


async def test_a_server_gets_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNBACK_SECRET_KEY", "ours")
    monkeypatch.setenv("OPENAI_API_KEY", "the model's")
    async with server("good") as connection:
        reply = await connection.call("act", {"how": "environment"}, timeout=5)
    assert isinstance(reply.structured, dict)
    assert not {"TURNBACK_SECRET_KEY", "OPENAI_API_KEY"} & set(reply.structured)
    assert reply.structured["PATH"] == os.environ["PATH"]


async def test_a_server_that_dies_in_a_call_is_started_again_and_the_call_is_not_made_twice(
    tmp_path: Path,
) -> None:
    async with server("good", str(tmp_path / "calls")) as connection:
        before = connection.generation
        with pytest.raises(Lost, match="ended with the code 3") as lost:
            await connection.call("act", {"how": "dies"}, timeout=5)
        assert lost.value.data == {"connection": "odd", "reason": "died"}
        assert (await connection.call("act", {}, timeout=5)).text == "done"
        assert connection.generation > before
    assert (tmp_path / "calls").read_text() == "dies\n\n"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("huge", "max_tool_message"),
        ("endless", "max_tool_message"),
        ("chatters", "max_tool_chatter"),
        ("odd", "not as MCP has it"),
        ("half", "ended with the code 0"),
        ("half a character", "cannot be read"),
        ("number", "what JSON cannot"),
        ("infinity", "what JSON cannot"),
        ("sleeps", "in time"),
    ],
)
async def test_a_call_whose_reply_is_of_no_use_is_lost_and_the_next_one_is_answered(
    how: str, said: str
) -> None:
    limits = {"max_tool_chatter": 3_000_000, "tool_start_timeout": 2.0}
    async with server("good", **limits) as connection:
        await connection.tools()
        with pytest.raises(Lost, match=said):
            await connection.call("act", {"how": how}, timeout=0.5 if how == "sleeps" else 5)
        await asyncio.sleep(0)
        if how == "sleeps":  # it answers nobody: found out by asking it, and started again
            generation = connection.generation
            await eventually(lambda: connection.generation > generation)
        assert (await connection.call("act", {}, timeout=5)).text == "done"


async def test_lines_that_are_no_messages_are_passed_over(good: McpConnection) -> None:
    reply = await good.call("act", {"how": "junk"}, timeout=5)
    assert reply.text == "after the junk"


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("exits", "ended with the code 4"),
        ("floods", "max_tool_message"),
        ("babbles", "max_tool_chatter"),
        ("deaf", "not ready in time"),
        ("many", "max_server_tools"),
        ("nameless", "not name its tools as MCP has it"),
        ("hangs on tools", "not name its tools in time"),
    ],
)
async def test_a_server_that_never_gets_ready_says_why_and_no_call_reaches_it(
    manner: str, said: str
) -> None:
    async with server(manner, tool_start_timeout=1.0, tool_end_timeout=0.1) as connection:
        with pytest.raises(ToolServerFailed, match=said) as failed:
            await connection.tools()
        assert failed.value.data["connection"] == "odd"
        with pytest.raises(NotSent, match=said):
            # Nobody waits for it a second time.
            await asyncio.wait_for(connection.call("act", {}, timeout=5), 0.5)


async def test_a_tool_whose_name_hides_something_or_is_none_is_passed_over() -> None:
    async with server("odd names") as connection:
        named = [tool.name for tool in await connection.tools()]
    assert named == ["act", "ünï co.de/é", "y" * 128]


async def test_a_server_that_keeps_dying_is_waited_for_once() -> None:
    async with server("good", tool_restart_delay=0.3) as connection:
        for again in (1, 2):
            with pytest.raises(Lost, match="ended with the code 3"):
                await connection.call("act", {"how": "dies"}, timeout=5)
            if again == 1:
                assert (await connection.call("act", {}, timeout=5)).text == "done"
        with pytest.raises(NotSent, match="ended with the code 3"):
            await connection.call("act", {}, timeout=5)


async def test_a_command_that_is_not_there_is_said() -> None:
    limits = ToolLimits.of(Settings(tool_restart_delay=0.05))
    connection = McpConnection("none", McpServer(command="no-such-program"), limits)
    connection.start()
    with pytest.raises(ToolServerFailed, match="`command` cannot be started"):
        await connection.tools()
    await connection.close()


async def test_a_server_that_shouts_on_its_standard_error_is_heard_out_and_not_quoted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with server("shouts") as connection:
        assert (await connection.call("act", {}, timeout=5)).text == "done"
    assert "secret" not in "".join(capfd.readouterr())


async def test_a_changed_list_of_tools_is_a_new_generation(good: McpConnection) -> None:
    await good.tools()
    before = good.generation
    await good.call("act", {"how": "changes"}, timeout=5)
    await eventually(lambda: good.generation > before)
    assert [tool.name for tool in await good.tools()] == ["act"]


async def test_a_server_ends_with_the_connection_and_so_does_what_it_has_started() -> None:
    async with server("stays") as connection:
        child = int((await connection.call("act", {"how": "a child"}, timeout=5)).text)
        assert alive(child)
    assert not alive(child)


async def test_nothing_is_left_of_a_server_when_the_service_is_killed() -> None:
    async with served_elsewhere("stays", "a child") as (ours, child):
        assert alive(child)
        os.kill(ours, signal.SIGKILL)
        await eventually(lambda: not alive(child))
