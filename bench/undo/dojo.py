"""AgentDojo's suites: their tasks with ground-truth calls, and an environment as a tool server.

What is compared is an environment's whole dump without the suite's own views of it, its list of
what its checks leave out, and the log of pages that were asked for, which reading writes.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import cache
from typing import Any

import orjson
from agentdojo.functions_runtime import Function, FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from pydantic import BaseModel

from turnback.core.contracts.model import Key
from turnback.core.effects import Json
from turnback.core.errors import Lost, NotSent
from turnback.tools.connection import KEY, Listed, Reply

VERSION = "v1.2.2"
"""Of the benchmark: the newest set of tasks of the release that is locked."""

Path = tuple[str, ...]
Leaves = dict[Path, Json]
ToolCall = tuple[str, Mapping[str, Json]]

LEFT_OUT: frozenset[Path] = frozenset(
    {
        ("inbox", "initial_emails"),
        ("inbox", "sent"),
        ("inbox", "received"),
        ("inbox", "drafts"),
        ("calendar", "initial_events"),
        ("cloud_drive", "initial_files"),
        ("web", "web_requests"),
    }
)

SETS = frozenset({"users"})
"""Lists of names, of which the order says nothing; a user's channels too."""

BY_ID = frozenset({"transactions", "scheduled_transactions"})


@dataclass(frozen=True)
class Task:
    """One task: a fresh environment, and the calls that solve it."""

    suite: str
    name: str
    make: Callable[[], Any]
    calls: Callable[[Any], Sequence[FunctionCall]]
    functions: Sequence[Function[Any, Any]]

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.name}"

    def truth(self, environment: Any) -> list[ToolCall]:
        """The calls that solve it, with plain arguments."""
        return [(call.function, _plain(call.args)) for call in self.calls(environment)]


def tasks() -> list[Task]:
    """All tasks of all suites."""
    found = []

    @cache  # to read an environment takes longer than to copy it
    def of_suite(name: str) -> Any:
        return get_suites(VERSION)[name].load_and_inject_default_environment({})

    def make(name: str, task: Any) -> Callable[[], Any]:
        return lambda: task.init_environment(copy.deepcopy(of_suite(name)))

    for suite_name, suite in get_suites(VERSION).items():
        for name, task in suite.user_tasks.items():
            found.append(
                Task(
                    suite_name,
                    name,
                    make(suite_name, task),
                    task.ground_truth,
                    suite.tools,
                )
            )
    return found


class Fault(StrEnum):
    """What goes wrong with a call."""

    REFUSED = "refused for good"
    ERROR_BODY = "an error in the body of a success"
    TRANSIENT = "not now: 503"
    NOT_SENT = "not sent"
    LOST_BEFORE = "timed out before it acted"
    LOST_AFTER = "timed out after it acted"
    LIES = "says done and does nothing"


@dataclass(frozen=True)
class Arrived:
    """A call that reached the world, and whether it did there what it is for."""

    tool: str
    args: str
    key: str | None
    acted: bool


@dataclass
class Dojo:
    """An environment as a connection; `adapters` are further tools, each a function of it.

    `arrived` has the calls that reached it, reads too. A call under a key that it knows acts no
    more, and is answered as it was, a refusal too, as vendors do; one that was put off, or lied
    about, it does not know. `slow` has, by tool, the seconds until a reply. `fault` says what goes
    wrong with a call that is about to be made; `late` is called before each.
    """

    name: str
    environment: Any
    functions: Sequence[Function[Any, Any]]
    adapters: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    fault: Callable[[str], Fault | None] = lambda _: None
    late: Callable[[str], None] = lambda _: None
    arrived: list[Arrived] = field(default_factory=list)
    answered: dict[str, Reply] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    generation: int = 0

    def __post_init__(self) -> None:
        self._runtime = FunctionsRuntime(self.functions)

    async def tools(self) -> list[Listed]:
        own = [
            Listed(one.name, one.description, one.parameters.model_json_schema())
            for one in self.functions
            if one.name not in self.adapters
        ]
        any_ = {"type": "object"}
        return own + [
            Listed(name, (one.__doc__ or "").strip(), any_) for name, one in self.adapters.items()
        ]

    async def call(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        timeout: float,  # noqa: ASYNC109 - the protocol's
        key: str | None = None,
        where: Key = KEY,
    ) -> Reply:
        self.late(tool)
        fault = self.fault(tool)
        if fault is Fault.NOT_SENT:
            raise NotSent("It is not to be reached", connection=self.name)
        known = None if key is None else self.answered.get(key)
        acts = known is None and fault in (None, Fault.LOST_AFTER)
        self.arrived.append(Arrived(tool, spelt(args), key, acts))
        if known is not None:
            return known
        if fault is Fault.LOST_BEFORE:
            raise Lost("No answer", connection=self.name, reason="timeout")
        if fault is Fault.TRANSIENT:
            return Reply(True, "503 Service Unavailable")
        if fault is Fault.LIES:
            return Reply(False, '{"message": "done"}')
        reply = FAILING[fault] if fault in FAILING else self.act(tool, args)
        if key is not None:
            self.answered[key] = reply
        if tool in self.slow:
            await asyncio.sleep(self.slow[tool])
        if fault is Fault.LOST_AFTER:
            raise Lost("No answer", connection=self.name, reason="timeout")
        return reply

    def act(self, tool: str, args: Mapping[str, Json]) -> Reply:
        """Do what a call does, as a stranger would, too."""
        if tool in self.adapters:
            try:
                answer = self.adapters[tool](self.environment, **args)
            except (ValueError, KeyError, IndexError) as error:
                return Reply(True, f"not found: {error}")
        else:
            answer, error_text = self._runtime.run_function(self.environment, tool, args)
            if error_text is not None:
                return Reply(True, error_text)
        return _reply(answer)

    @property
    def leaves(self) -> Leaves:
        """The world, leaf by leaf."""
        return dict(_flat(self.environment.model_dump(mode="json"), ()))


def spelt(args: Mapping[str, Json]) -> str:
    """Arguments in one spelling."""
    return orjson.dumps(dict(args), option=orjson.OPT_SORT_KEYS).decode()


FAILING = {
    Fault.REFUSED: Reply(True, "Not allowed any more"),
    Fault.ERROR_BODY: Reply(False, '{"error": "not allowed any more"}'),
}


def _flat(value: Json, path: Path) -> list[tuple[Path, Json]]:
    if path in LEFT_OUT:
        return []
    if not value and isinstance(value, dict | list):
        return [] if path[0] == "slack" else [(path, value)]
    if isinstance(value, dict):
        return [leaf for name, one in value.items() for leaf in _flat(one, (*path, name))]
    if isinstance(value, list):
        counted: dict[str, int] = {}
        found: list[tuple[Path, Json]] = []
        for index, item in enumerate(value):
            name = str(index)
            if path[-1] in BY_ID and isinstance(item, dict):
                name = str(item["id"])
            elif path[-1] in SETS or path[:2] == ("slack", "user_channels"):
                counted[str(item)] = counted.get(str(item), 0) + 1
                name = str(item) if counted[str(item)] == 1 else f"{item}#{counted[str(item)]}"
            found += _flat(item, (*path, name))
        return found
    return [(path, value)]


def _reply(answer: Any) -> Reply:
    if isinstance(answer, str):
        return Reply(False, answer)
    value = _plain(answer)
    text = orjson.dumps(value).decode()
    return Reply(False, text, value if isinstance(value, dict | list) else None)


def _plain(value: Any) -> Any:
    """An answer as JSON. A time on the minute is written as these tools take it."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, datetime.datetime):
        if value.second or value.microsecond:
            return value.isoformat()
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def differing(one: Leaves, other: Leaves) -> frozenset[Path]:
    """The paths at which two worlds differ."""
    return frozenset(
        path
        for path in one.keys() | other.keys()
        if (path in one) != (path in other) or one[path] != other[path]
    )
