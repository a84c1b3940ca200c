"""The service in this process, whole: its live sessions, its routes, its agent's loop, its log.

Only two things are ours. The model says what a trial's script has it say; and connections to the
world are added and taken away while it runs. What it does with them is the product's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    RetryPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from turnback.agent.models import ChatModel
from turnback.api.auth import Callers
from turnback.api.person import Person, new_token
from turnback.app import create_app, opened
from turnback.core.contracts.model import Contract
from turnback.core.effects import Effect, EffectClass, Json
from turnback.core.principal import LOCAL
from turnback.sessions.commands import Asked, Prompt
from turnback.sessions.registry import Sessions
from turnback.settings import Settings
from turnback.store.dao import Dao
from turnback.tools.catalog import Catalog
from turnback.tools.connection import Connection
from turnback.tools.registry import Registry, visible_name

SETTINGS: dict[str, Any] = {
    "approval": "never",
    "demo": False,
    "undo_backoff": 0.002,
    "read_lag": 0,
    "undo_backoff_max": 0.01,
    "max_tool_calls_per_step": 200,
    "poll_interval": 5.0,
    "wakeup_interval": 5.0,
}
"""A person waits for nothing here, and nobody waits for a person."""

MOST_PLANNED = 100
"""Effects of a session that one look at it names."""

NAMED = re.compile(r"script \d+")

ToolCalls = Sequence[tuple[str, Mapping[str, Json]]]


class Script:
    """What the model says: to a prompt that names a script, its calls at once, then a word."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._said: dict[str, list[tuple[str, str]]] = {}

    def will(self, connection: str, calls: ToolCalls) -> str:
        """The prompt to which it makes these calls of a connection."""
        prompt = f"script {next(self._numbers)}"
        self._said[prompt] = [
            (visible_name(connection, name), orjson.dumps(dict(args)).decode())
            for name, args in calls
        ]
        return prompt

    async def stream(
        self, messages: list[ModelMessage], _: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        """As a model of pydantic-ai."""
        script, answered = _script(messages)
        calls = [] if answered else self._said[script]  # asked again, it says the same again
        yield "done"
        for n, (name, args) in enumerate(calls, start=1):
            yield {n: DeltaToolCall(name=name, json_args=args)}


def _script(messages: Sequence[ModelMessage]) -> tuple[str, bool]:
    """The script that the last prompt names, and whether its calls have been answered."""
    named, answered = "", False
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, UserPromptPart) and (found := NAMED.findall(str(part.content))):
                named, answered = found[-1], False
            elif isinstance(part, ToolReturnPart | RetryPromptPart):
                answered = True
    return named, answered


class _Scripted(Sessions):
    """The live sessions, whose every model is the script."""

    def __init__(self, dao: Dao, settings: Settings, catalog: Catalog, script: Script) -> None:
        self._script = ChatModel(
            name="script",
            model=FunctionModel(stream_function=script.stream, model_name="script"),
            counts_tokens=False,
        )
        super().__init__(dao, settings, catalog)

    async def model(self, name: str) -> ChatModel:
        return self._script


@dataclass(frozen=True)
class Undone:
    """An undo that was asked for: the plan that was shown, and the report when it was over."""

    plan: Mapping[str, Any]
    report: Mapping[str, Any]


@dataclass(frozen=True)
class Reached:
    """The world as the service reaches it: connections, and what is declared of their tools."""

    registry: Registry
    overlays: dict[str, Mapping[str, Contract]]
    connections: dict[str, Connection]


class Service:
    """The service, for trials that share it."""

    def __init__(
        self, sessions: Sessions, http: httpx.AsyncClient, script: Script, reached: Reached
    ) -> None:
        self._sessions = sessions
        self._http = http
        self._script = script
        self._reached = reached

    @asynccontextmanager
    async def connected(
        self, connection: Connection, contracts: Mapping[str, Contract]
    ) -> AsyncIterator[None]:
        """With a connection, of whose tools this is declared."""
        name, reached = connection.name, self._reached
        reached.overlays[name] = contracts
        reached.connections[name] = connection
        try:
            yield
        finally:
            del reached.connections[name], reached.overlays[name]
            reached.registry.drop(name)

    def reads(self, connection: str) -> frozenset[str]:
        """The tools of a connection that change nothing, as they are declared."""
        tools = (tool for tool in self._reached.registry.all() if tool.connection == connection)
        return frozenset(tool.name for tool in tools if tool.classes == {EffectClass.READ})

    def refused(self, connection: str) -> list[str]:
        """Why contracts of a connection do not count; none of them may."""
        return [t.why for t in self._reached.registry.all() if t.connection == connection and t.why]

    async def session(self) -> str:
        """A new session's id."""
        return str((await self._ask("POST", "/sessions", {}))["id"])

    async def turn(self, session: str, connection: str, calls: ToolCalls) -> str:
        """A turn in which the agent makes these calls, once it is over; its id."""
        actor = await self._sessions.get(LOCAL, session)
        prompt = self._script.will(connection, calls)
        done = await actor.ask(Asked(Prompt(prompt), LOCAL))
        if actor.runs.run is not None:
            await actor.runs.run.ended.wait()
        assert done.turn_id is not None
        return done.turn_id

    async def effects(self, session: str) -> list[Effect]:
        """What the log has of a session, in order; with what a report speaks of in words."""
        key = await self._sessions.dao.key(LOCAL, session)
        logged = await self._sessions.dao.effects.of_session(key, limit=MOST_PLANNED)
        return [one.effect for one in logged]

    async def undo(self, session: str, **asked: Any) -> Undone | None:
        """Plan, click, wait for the end and read the report; None where nothing stands.

        It is asked for as a person asks who wants all of it, and what depends on it.
        """
        body = {"with_dependents": True, "policy": "independent"} | asked
        plan = await self._ask("POST", f"/sessions/{session}/undo-plan", body)
        undo_id = await self.click(session, plan["plan_id"])
        if undo_id is None:
            return None
        actor = await self._sessions.get(LOCAL, session)
        if actor.runs.undo is not None:
            await actor.runs.undo.ended.wait()
        report = await self._ask("GET", f"/sessions/{session}/undos/{undo_id}")
        assert report["status"] == "ended", report["status"]
        return Undone(plan, report)

    async def click(self, session: str, plan_id: str) -> str | None:
        """Have a plan run; the undo's id."""
        started = await self._ask("POST", f"/sessions/{session}/undos", {"plan_id": plan_id})
        undo_id: str | None = started["undo_id"]
        return undo_id

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._http.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[Service]:
    """The service over the migrated database at `url`, until left."""
    settings, script = Settings(**SETTINGS), Script()
    overlays: dict[str, Mapping[str, Contract]] = {"none": {}}  # the registry takes no empty one
    reached = Reached(Registry(overlays=overlays), overlays, {})
    async with opened(settings, url) as dao:
        catalog = Catalog(reached.registry, reached.connections, trusted=frozenset(), pins=dao.pins)
        sessions = _Scripted(dao, settings, catalog, script)
        await sessions.start()
        app = create_app(settings, url)
        app.state.sessions = sessions
        person = Person(new_token())
        app.state.callers = Callers(sessions, person)
        transport = httpx.ASGITransport(app=app)
        try:
            async with httpx.AsyncClient(
                transport=transport,
                base_url="http://127.0.0.1",
                headers={"authorization": f"Bearer {person.token}"},
            ) as http:
                yield Service(sessions, http, script, reached)
        finally:
            await sessions.drain()
            await sessions.close()
