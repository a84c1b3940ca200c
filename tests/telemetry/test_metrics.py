"""`/metrics` of a real server: what moves when something happens, and by how much."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from flaky import flaky
from processes import process
from scrape import Samples, scrape
from scripted_provider import CUT, Pause, Refusal, ScriptedProvider, call, text, usage
from serving import Server, serving
from structlog.testing import capture_logs
from wire import Client

from turnback.core import errors
from turnback.core.principal import LOCAL
from turnback.sessions.broadcast import Reply, Subscriber
from turnback.sessions.commands import Asked, Stop
from turnback.telemetry import metrics


class Moved:
    """What has moved since it was entered, by name and labels without `turnback_`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def start(self) -> Moved:
        self._before = await scrape(self._server)
        return self

    async def by(self) -> Samples:
        now = await scrape(self._server)
        moved = {name: value - self._before.get(name, 0.0) for name, value in now.items()}
        return {
            name.removeprefix("turnback_"): by
            for name, by in moved.items()
            if by and "_bucket" not in name
        }


async def test_each_metric_moves_with_what_it_counts(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    moved = await Moved(server).start()
    session = await server.session()
    hold = asyncio.Event()
    provider.will(
        [call("getWorkflow", {}), usage(7, 5)],
        [text("so "), Pause(hold), text("it is"), usage(20, 3)],
    )
    async with server.connect(session) as client, server.connect(session, v1=False) as base:
        await client.snapshot()
        await base.snapshot()
        await client.send("Prompt", content="what is there")
        await client.wait(lambda f: f["type"] == "WsServerDeltaEvent" and f.get("text") == "so ")
        now = await moved.by()
        assert (now['sockets{dialect="v1"}'], now['sockets{dialect="base"}']) == (1, 1)
        assert (now["runs"], now["live_sessions"]) == (1, 1)
        assert now['openings_total{with="snapshot"}'] == 2
        hold.set()
        await client.wait(lambda f: f.get("state") == "AVAILABLE", since=1)
        await client.ask("Revert", messageId=client.path[-1]["messageId"])
        await client.ask("Redo")
        assert (await client.ask("Redo"))["code"] == "nothing_to_redo"
        await client.ask("Checkout", stepId="step-initial")
        revision = client.durable[-1]["eventSeq"]
        epoch = (await client.snapshot())["streamEpoch"]
    await server.http.patch(f"/sessions/{session}", json={"name": "another"})
    assert (await server.http.get("/sessions/none")).status_code == 404
    query = f"?since={revision - 3}&epoch={epoch}"
    async with server.connect(session, query=query) as back:
        await back.wait(lambda f: f.get("eventSeq") == revision + 1)
    query = f"?since={revision}&epoch=another"
    async with server.connect(session, query=query) as back:
        assert (await back.snapshot())["reset"] is True
    now = await moved.by()
    assert "runs" not in now
    assert not any(name.startswith("sockets{") for name in now)
    counts = {
        'runs_ended_total{end="complete"}': 1,
        "step_seconds_count": 2,
        'model_call_seconds_count{outcome="ok"}': 2,
        "model_first_piece_seconds_count": 2,
        'model_tokens_total{direction="input"}': 27,
        'model_tokens_total{direction="output"}': 8,
        'tool_call_seconds_count{outcome="ok"}': 1,
        'errors_total{code="nothing_to_redo"}': 1,
        'errors_total{code="session_not_found"}': 1,
        'openings_total{with="replay"}': 1,
        'openings_total{with="reset"}': 1,
        "replayed_frames_total": 4,
        "events_total": revision + 1,
        "command_seconds_count": 5,
    }
    for kind in ("prompt", "step", "end", "revert", "redo", "checkout", "change"):
        counts[f'commit_seconds_count{{kind="{kind}"}}'] = 1
    assert {name: now.get(name) for name in counts} == counts
    assert 0 < now['commit_seconds_sum{kind="prompt"}'] < 30


async def test_runs_and_calls_are_told_apart_by_how_they_ended(
    scripted: tuple[Server, ScriptedProvider],
) -> None:
    server, provider = scripted
    session = await server.session()
    async with server.connect(session) as client:
        await client.snapshot()
        moved = await Moved(server).start()
        provider.will([text("cut "), CUT])
        await client.prompt("one")
        provider.will(Refusal(500))
        await client.prompt("two")
        provider.will([call("deleteOperator", {"operatorId": "none", "summary": "s"})], [text(".")])
        await client.prompt("three")
        await stop_in_the_middle(client, provider)
        now = await moved.by()
    counts = {
        'runs_ended_total{end="failed"}': 2,
        'runs_ended_total{end="stopped"}': 1,
        'runs_ended_total{end="complete"}': 1,
        'model_call_seconds_count{outcome="failed"}': 2,
        'model_call_seconds_count{outcome="stopped"}': 1,
        'model_call_seconds_count{outcome="ok"}': 2,
        'tool_call_seconds_count{outcome="failed"}': 1,
        'commit_seconds_count{kind="stop"}': 1,
    }
    assert {name: now.get(name) for name in counts} == counts


async def stop_in_the_middle(client: Client, provider: ScriptedProvider) -> None:
    provider.will([text("and so on"), Pause()])
    seen = len(client.frames)
    await client.send("Prompt", content="four")
    await client.wait(lambda f: f["type"] == "WsServerDeltaEvent", since=seen)
    await client.send("Stop")
    await client.wait(lambda f: f.get("state") == "AVAILABLE", since=seen)


async def test_a_database_that_is_away_and_slow_readers_are_counted(
    fresh_database: str, tmp_path: Path
) -> None:
    quick = {"db_connect_timeout": 1.0, "db_statement_timeout": 1.0, "poll_interval": 5.0}
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url, **quick) as server:
        session = await server.session()
        async with server.connect(session):
            moved = await Moved(server).start()
            wire.cut()
            wire.fall_silent()
            assert (await server.http.get("/readyz")).status_code == 503
            assert (await server.http.get("/healthz")).status_code == 200
            now = await moved.by()
            wire.speak()
    assert now["db_unavailable_total"] >= 1
    assert now['errors_total{code="database_unavailable"}'] >= 1


async def test_wake_ups_are_counted_and_what_only_the_poll_has_found(fresh_database: str) -> None:
    async with (
        serving(fresh_database, poll_interval=30.0) as one,
        serving(fresh_database, poll_interval=30.0) as other,
    ):
        session = await one.session()
        async with other.connect(session) as client:
            await client.snapshot()
            moved = await Moved(one).start()
            await one.http.patch(f"/sessions/{session}", json={"name": "another"})
            await client.wait(lambda f: f["type"] == "WsServerSessionEvent")
            now = await moved.by()
            assert (now['wakeups_total{way="sent"}'], now['wakeups_total{way="heard"}']) == (1, 1)
            one.app.state.sessions.dao.wakeups.written = lambda session_id: None
            await one.http.patch(f"/sessions/{session}", json={"name": "a third"})
            await other.app.state.sessions._poll()
            await client.wait(lambda f: f.get("name") == "a third")
            assert (await moved.by())["poll_heals_total"] == 1


async def test_what_waits_is_counted_over_all_queues_and_in_the_longest(server: Server) -> None:
    sessions = [await server.session() for _ in range(2)]
    actors = [await server.app.state.sessions.get(LOCAL, session) for session in sessions]
    hold = asyncio.Event()
    held = [asyncio.create_task(actor.queue.do(hold.wait)) for actor in actors]
    await asyncio.sleep(0.01)
    stop = Asked(Stop(), LOCAL)
    waiting = [asyncio.create_task(a.ask(stop)) for a in (actors[0], actors[1], actors[1])]
    waiting += [asyncio.create_task(a.refresh()) for a in actors]  # no commands
    for actor, frames in zip(actors, (1, 2), strict=True):
        actor.hub.join(Subscriber(lambda message: "frame", LOCAL, frames=9, size=99))
        for _ in range(frames):
            actor.hub.tell(Reply("frame"))
    await asyncio.sleep(0.01)
    now = await scrape(server)
    assert (now["turnback_commands_waiting"], now["turnback_command_queue_longest"]) == (3, 2)
    assert (now["turnback_frames_waiting"], now["turnback_send_queue_longest"]) == (3, 2)
    hold.set()
    await asyncio.gather(*held, *waiting)
    now = await scrape(server)
    assert (now["turnback_commands_waiting"], now["turnback_frames_waiting"]) == (0, 3)


async def test_a_run_taken_over_from_a_process_that_died_is_counted_and_logged(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    provider.will([text("and so on"), Pause()])
    async with process(tmp_path, fresh_database, **provider.settings) as killed:
        session = await killed.session()
        async with killed.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="go on for ever")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            killed.kill()
            await client.until_closed()
    with capture_logs() as logged:
        async with serving(fresh_database) as server:
            moved = await Moved(server).start()
            async with server.connect(session) as client:
                if (await client.snapshot())["state"] != "AVAILABLE":
                    await client.wait(lambda f: f.get("state") == "AVAILABLE", since=1)
                last = client.path[-1]
                assert last["endReason"] == "interrupted"
            now = await moved.by()
    assert now["takeovers_total"] == 1
    (line,) = [line for line in logged if line["event"] == "run taken over"]
    assert (line["session"], line["turn"]) == (session, last["messageId"])
    assert now['commit_seconds_count{kind="interrupt"}'] == 1


async def test_a_reader_that_is_closed_as_slow_is_counted(standing: Server) -> None:
    moved = await Moved(standing).start()
    slow = Subscriber(lambda message: b"frame", LOCAL, frames=1, size=100)
    for _ in range(3):
        slow.put(Reply(b"frame"))
    assert (await moved.by())["slow_readers_total"] == 1


async def test_the_process_and_its_database_are_there_to_be_read(standing: Server) -> None:
    await standing.session()
    await asyncio.sleep(2 * metrics.LAG_EVERY)
    now = await scrape(standing)
    assert now["process_open_fds"] > 0
    assert now["process_resident_memory_bytes"] > 2**20
    assert now["turnback_loop_lag_seconds_count"] > 0
    assert now['turnback_db_connections{state="idle"}'] >= 1
    assert [name for name in now if name.startswith("turnback_info")]


def test_no_label_can_have_more_values_than_are_named() -> None:
    codes = {kind.code for kind in every(errors.TurnbackError)}
    named = {
        "version", "dialect", "with", "kind", "end", "outcome", "direction", "state", "le", "code",
        "way",
    }  # fmt: skip
    for family in metrics.REGISTRY.collect():
        for sample in family.samples:
            assert sample.labels.keys() <= named, sample
            assert sample.labels.get("code", "internal") in codes


def every(kind: type[errors.TurnbackError]) -> list[type[errors.TurnbackError]]:
    return [kind, *(below for sub in kind.__subclasses__() for below in every(sub))]


@pytest.mark.parametrize("host", ["example.com", "192.0.2.1"])
async def test_metrics_are_behind_the_same_guard_as_all_the_rest(
    standing: Server, host: str
) -> None:
    async with httpx.AsyncClient(base_url=standing.url) as http:
        answer = await http.get("/metrics", headers={"host": host})
    assert (answer.status_code, answer.json()["code"]) == (421, "host_refused")
