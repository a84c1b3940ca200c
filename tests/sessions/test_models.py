"""The model that a session names, when the server no longer has it."""

from __future__ import annotations

import pytest
from scripted_provider import Pause, ScriptedProvider, text
from serving import serving
from wire import is_status


async def test_a_session_whose_model_is_no_longer_configured_says_so_in_a_step(
    fresh_database: str, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with serving(fresh_database, model_base_url=provider.url) as server:
        session = await server.session(model="openai:scripted")
    async with serving(fresh_database) as server, server.connect(session) as client:
        await client.snapshot()
        await client.prompt("hello")
        last = client.path[-1]
        assert last["content"].startswith("Error: ")
        assert "TURNBACK_MODEL_API_KEY" in last["content"]
        assert last["endReason"] == "failed"


async def test_more_models_than_the_limit_are_refused_while_all_of_them_carry_runs(
    fresh_database: str, provider: ScriptedProvider
) -> None:
    provider.will([text("One"), Pause()], [text("Two")], [text("Three")])
    async with serving(fresh_database, model_base_url=provider.url, max_models=1) as server:
        session = await server.session(model="openai:one")
        async with server.connect(session) as client:
            await client.snapshot()
            await client.send("Prompt", content="hello")
            await client.wait(lambda f: f["type"] == "WsServerDeltaEvent")
            refused = await server.http.post("/sessions", json={"model": "openai:two"})
            assert refused.json()["code"] == "queue_full"
            await server.session(model="openai:one")
            await client.ask("Stop")
            await client.wait(is_status("AVAILABLE"))
            other = await server.session(model="openai:two")
            async with server.connect(other) as second:
                await second.snapshot()
                await second.prompt("hello")
                assert second.path[-1]["content"] == "Two"
            await client.prompt("again")
            assert client.path[-1]["content"] == "Three"
            assert list(server.app.state.sessions._models) == ["openai:one"]


async def test_a_model_that_cannot_be_used_is_refused_when_the_session_is_made(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as server:
        refused = await server.http.post("/sessions", json={"model": "nonsense"})
        assert (refused.status_code, refused.json()["code"]) == (422, "model_not_configured")
