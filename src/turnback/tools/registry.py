"""The registry: every tool from outside, its contract, and what became of that (undo.md 1).

A tool is known by its connection and its name. A contract counts only while the tool is what it
was written for; whatever is wrong with it makes the tool irreversible, and `why` says so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

from pydantic import ConfigDict

from turnback.core.contracts import checks, choose, fitting, together, version
from turnback.core.contracts.model import (
    READ_ONLY,
    UNDECLARED,
    Contract,
    Key,
    Part,
    parse,
    parse_as,
)
from turnback.core.effects import EffectClass, worst
from turnback.core.errors import ContractRefused
from turnback.tools.connection import Listed

META_KEY = "turnback/contract"
"""Where an MCP tool states a contract of its own, in its `_meta`."""

MAX_NAME = 64  # characters of a tool's name that every model takes


class Front(StrEnum):
    """Through which front a tool's contract came."""

    PYTHON = "python"
    OVERLAY = "overlay"
    META = "meta"


class Pinned(StrEnum):
    """Whether a tool is the one that its contract was meant for.

    `SAME`: its hash is the one that was pinned. `NEW`: it was not seen before, and is pinned as it
    is. `CHANGED`: it says something else of itself than when it was pinned.
    """

    SAME = "same"
    NEW = "new"
    CHANGED = "changed"


class Stated(Part):
    """A contract that a tool states of itself: `contract: 1` and the parts of the model."""

    model_config = ConfigDict(extra="allow")

    contract: Literal[1]

    def of(self, name: str) -> Contract:
        """The contract; raises `ContractRefused`."""
        return parse(self.__pydantic_extra__ or {}, of=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool from outside.

    `contract` is what counts: `UNDECLARED` where none does, and then `why` says for what reason.
    `version` is the contract's hash, None of an undeclared one; `pin` the hash of what the tool
    says of itself. A disabled tool is neither offered nor run.
    """

    connection: str
    name: str
    visible: str
    description: str
    schema: Mapping[str, Any]
    contract: Contract
    front: Front | None
    version: str | None
    pin: str
    pinned: Pinned
    disabled: bool
    why: str | None = None

    @property
    def shown(self) -> str:
        """The tool's name for a person."""
        return f"{self.connection}.{self.name}"

    @property
    def classes(self) -> frozenset[EffectClass]:
        """The classes that its calls may have."""
        return choose.classes(self.contract)

    @property
    def worst(self) -> EffectClass:
        """The worst of them, which is what is shown before anything is known of a call."""
        return worst(self.classes)


Pins = Mapping[tuple[str, str], frozenset[str]]
"""By connection and tool, the hashes under which somebody has looked at it."""


class Registry:
    """The tools of every connection, as they were last listed.

    `overlays` are the administrator's contracts by connection and tool; `pins` what was pinned;
    `disabled` the tools, `connection.tool` or `connection.*`, that are neither offered nor run.
    """

    def __init__(
        self,
        *,
        overlays: Mapping[str, Mapping[str, Contract]] | None = None,
        pins: Pins | None = None,
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        self._overlays = overlays or {}
        self._pins = dict(pins or {})
        self._disabled = disabled
        self._tools: dict[str, dict[str, Tool]] = {}
        self._put: dict[str, Callable[[], dict[str, Tool]]] = {}

    def put(
        self,
        connection: str,
        listed: Sequence[Listed],
        *,
        trusted: bool = False,
        contracts: Mapping[str, Contract] | None = None,
    ) -> tuple[Tool, ...]:
        """Take over what a connection lists, in place of what it listed before; its tools.

        `trusted`: whether contracts in `_meta` count. `contracts`: those of tools in Python, whose
        connection this is.
        """

        def made() -> dict[str, Tool]:
            tools = {
                one.name: self._tool(connection, one, trusted=trusted, contracts=contracts)
                for one in listed
            }
            return _together(_reads(tools, listed))

        self._put[connection] = made
        self._tools[connection] = tools = made()
        for tool in tools.values():
            if tool.pinned is Pinned.NEW:
                self._pins[connection, tool.name] = frozenset({tool.pin})
        return tuple(tools.values())

    def repin(self, pins: Pins) -> None:
        """Hold the tools against what is pinned by now; those pinned nowhere stay as they were."""
        before = self._pins
        self._pins = {**before, **pins}
        if self._pins != before:
            self._tools |= {connection: made() for connection, made in self._put.items()}

    @property
    def overlaid(self) -> frozenset[str]:
        """The connections that overlays are about."""
        return frozenset(self._overlays)

    def unlisted(self, connection: str) -> tuple[str, ...]:
        """The tools that an overlay is about, and that its server did not list."""
        listed = self._tools.get(connection)
        if listed is None:
            return ()
        return tuple(sorted(self._overlays.get(connection, {}).keys() - listed.keys()))

    def drop(self, connection: str) -> None:
        """Forget a connection's tools."""
        self._tools.pop(connection, None)
        self._put.pop(connection, None)

    def get(self, connection: str, name: str) -> Tool | None:
        """A tool by its connection and name."""
        return self._tools.get(connection, {}).get(name)

    def visible(self, name: str) -> Tool | None:
        """A tool by the name under which models see it; None of a disabled one."""
        return next((tool for tool in self.offered() if tool.visible == name), None)

    def offered(self) -> tuple[Tool, ...]:
        """The tools that models are offered, in a steady order."""
        return tuple(tool for tool in self.all() if not tool.disabled)

    def all(self) -> tuple[Tool, ...]:
        """Every tool, the disabled ones too, in a steady order."""
        found = (tool for tools in self._tools.values() for tool in tools.values())
        return tuple(sorted(found, key=lambda tool: (tool.connection, tool.name)))

    def _tool(
        self,
        connection: str,
        listed: Listed,
        *,
        trusted: bool,
        contracts: Mapping[str, Contract] | None,
    ) -> Tool:
        pin = version.pin(listed.name, listed.description, dict(listed.schema))
        known = self._pins.get((connection, listed.name))
        pinned = Pinned.NEW if known is None else Pinned.SAME if pin in known else Pinned.CHANGED
        contract, front, why = self._contract(connection, listed, trusted, contracts)
        if front is Front.PYTHON:
            pinned = Pinned.SAME  # it stands in the tool's own source
        elif contract is not None and pinned is Pinned.CHANGED:
            contract, why = (
                None,
                (
                    "what it says of itself has changed since its contract was looked at: compare,"
                    f" then `turnback tools pin {connection}.{listed.name}`"
                ),
            )
        if contract is not None:
            try:
                checks.check(contract, tool=listed.name)
            except ContractRefused as error:
                contract, why = None, error.message
        disabled = {f"{connection}.{listed.name}", f"{connection}.*"} & self._disabled
        return Tool(
            connection=connection,
            name=listed.name,
            visible=visible_name(connection, listed.name),
            description=listed.description,
            schema=listed.schema,
            contract=contract or UNDECLARED,
            front=front,
            version=None if contract is None else version.version(contract),
            pin=pin,
            pinned=pinned,
            disabled=bool(disabled),
            why=why,
        )

    def _contract(
        self,
        connection: str,
        listed: Listed,
        trusted: bool,
        contracts: Mapping[str, Contract] | None,
    ) -> tuple[Contract | None, Front | None, str | None]:
        """The contract that is for a tool, by which front, and why there is none."""
        if contracts is not None:
            own = contracts.get(listed.name)
            return own, Front.PYTHON, None if own is not None else WITHOUT
        stated = listed.meta.get(META_KEY)
        overlay = self._overlays.get(connection, {}).get(listed.name)
        if overlay is not None:
            return _hinted(overlay, listed), Front.OVERLAY, None
        if stated is None:
            return None, None, WITHOUT
        if not trusted:
            return (
                None,
                None,
                (
                    "it states a contract itself, and its server is not trusted to: set"
                    " `trust_contracts`, or write an overlay"
                ),
            )
        of = f"{connection}.{listed.name}"
        try:
            contract = parse_as(Stated, stated, of=of).of(of)
        except ContractRefused as error:
            return None, Front.META, error.message
        return _hinted(_bounded(contract, listed), listed), Front.META, None


WITHOUT = "nothing declares how it could be taken back"
"""Why a tool counts as irreversible that has no contract at all."""


def visible_name(connection: str, name: str) -> str:
    """The name under which models see a tool: `connection__tool`, within what all of them take."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    visible = f"{connection}__{plain}"
    if plain == name and len(visible) <= MAX_NAME:
        return visible
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{visible[: MAX_NAME - 9]}_{mark}"


def _hinted(contract: Contract, listed: Listed) -> Contract:
    """A contract as MCP's hints leave it: they can only make it stricter.

    Only what a server states counts. A tool that states that it is no read is none, whatever its
    contract says.
    """
    if listed.annotations.get("readOnlyHint") is False and EffectClass.READ in (
        case.class_ for case in contract.cases
    ):
        cases = (
            case.model_copy(update={"class_": EffectClass.IRREVERSIBLE})
            if case.class_ is EffectClass.READ
            else case
            for case in contract.cases
        )
        return contract.model_copy(update={"cases": tuple(cases)})
    return contract


def _bounded(contract: Contract, listed: Listed) -> Contract:
    """A tool's own contract: of an open world never better than compensable, reads apart.

    A tool that does not state that its world is closed is of an open one, as MCP has it.
    """
    if listed.annotations.get("openWorldHint") is False or choose.classes(contract) == {
        EffectClass.READ
    }:
        return contract
    floor = worst((contract.at_least, EffectClass.COMPENSABLE))
    return contract.model_copy(update={"at_least": floor})


def _reads(tools: dict[str, Tool], listed: Sequence[Listed]) -> dict[str, Tool]:
    """The tools, those reads that are declared by nothing but the contracts that read by them."""
    declared = {name: tool for name, tool in tools.items() if tool.version is not None}
    reads = together.read_by([tool.contract for tool in declared.values()])
    made = dict(tools)
    for one in listed:
        tool = tools[one.name]
        is_changed = tool.pinned is Pinned.CHANGED
        if one.name in reads and tool.why == WITHOUT and not is_changed:
            contract = _hinted(READ_ONLY, one)
            front = next(
                other.front
                for other in declared.values()
                if one.name in together.read_by([other.contract])
            )
            made[one.name] = replace(
                tool, contract=contract, front=front, version=version.version(contract), why=None
            )
    return made


def _together(tools: dict[str, Tool]) -> dict[str, Tool]:
    """The tools of one server as they are together.

    Those are undeclared whose contracts do not go with the others'.
    """
    contracts = {name: tool.contract for name, tool in tools.items() if tool.version is not None}
    found = list(together.server_contradictions(contracts, tools=tools))
    found += fitting.misfits(contracts, {name: tool.schema for name, tool in tools.items()})
    for name, contract in contracts.items():
        for other in sorted(together.called(contract) & tools.keys()):
            if tools[other].disabled:
                found.append((name, f"it calls `{other}`, which is disabled"))
            elif tools[other].pinned is Pinned.CHANGED:
                found.append((name, f"it calls `{other}`, which has changed since: look at that"))
    wrong: dict[str, str] = {}
    for name, reason in found:
        wrong.setdefault(name, f"The contract of `{name}`: {reason}")
    keys = {name: contract.key for name, contract in contracts.items() if contract.key is not None}
    return {
        name: replace(tool, contract=UNDECLARED, version=None, why=wrong[name])
        if name in wrong
        else _keyed(tool, keys)
        for name, tool in tools.items()
    }


def _keyed(tool: Tool, keys: Mapping[str, Key]) -> Tool:
    """A tool whose contract says which keys its inverses take."""
    if tool.version is None or (contract := tool.contract.keyed(keys)) is tool.contract:
        return tool
    return replace(tool, contract=contract, version=version.version(contract))
