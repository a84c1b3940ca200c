"""Overlays: an administrator's contracts for MCP servers, in YAML files of one folder (undo.md 1).

They are read when the service starts. A folder that a tool server is configured to work in is
refused: a tool could write its own contract there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field

from turnback.core.contracts.checks import check, refuse
from turnback.core.contracts.model import (
    MAX_PARTS,
    READ_ONLY,
    Contract,
    Name,
    Part,
    Resource,
    Templates,
    ToolName,
    parse,
    parse_as,
)
from turnback.core.contracts.together import read_by, server_contradictions
from turnback.core.errors import ContractRefused
from turnback.core.values import shown
from turnback.settings import McpServer

MAX_FILES = 200
MAX_BYTES = 1_000_000  # of one file
MAX_TOOLS = 1_000  # of one server


def _inside(name: str) -> str:
    if ".." in name.split("/"):
        raise ValueError("a file of a sandbox lies in its folder")
    return name


Pin = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


FileName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_./-]*$"), AfterValidator(_inside)
]


class Sample(Part):
    """A call that `turnback tools check` makes in the sandbox, and then takes back."""

    call: ToolName
    args: dict[str, Any] = Field(default_factory=dict)


class Sandbox(Part):
    """A throw-away instance of the server: how it is started, and what is tried in it.

    `files` are written into a new folder first, then the programs of `setup` are run there, each a
    list of words. The folder is the working directory, and `{folder}` in all of these and in the
    samples' arguments; `{python}` is the program that runs Turnback. `samples` are made in order.
    Tools in Python have no `command`: they are imported with the variables of `env`, which keep
    them off the real world.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    files: Annotated[dict[FileName, str], Field(max_length=MAX_PARTS)] = Field(default_factory=dict)
    setup: Annotated[
        tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...], Field(max_length=MAX_PARTS)
    ] = ()
    samples: Annotated[tuple[Sample, ...], Field(max_length=MAX_PARTS)] = ()


class ServerPart(Part):
    """What an overlay says of one server; `tools` are contracts without the resources.

    `reads` are tools that change nothing; those by which things are read or found are among them.
    """

    one_at_a_time: Templates = ()
    resources: dict[Name, Resource] = Field(default_factory=dict)
    reads: tuple[ToolName, ...] = ()
    tools: Annotated[dict[ToolName, dict[str, Any]], Field(max_length=MAX_TOOLS)] = Field(
        default_factory=dict
    )
    sandbox: Sandbox | None = None


class Overlay(Part):
    """One file."""

    contract: Literal[1]
    servers: dict[str, ServerPart]


@dataclass(frozen=True, slots=True)
class ServerContracts:
    """The contracts of one server's tools, the hashes they are pinned to, and its sandbox."""

    contracts: Mapping[str, Contract]
    pins: Mapping[str, frozenset[str]] = field(default_factory=dict)
    sandbox: Sandbox | None = None
    file: str = ""

    @property
    def is_of_python(self) -> bool:
        """Whether its sandbox is one of tools in Python, which nothing has to start."""
        return self.sandbox is not None and self.sandbox.command is None


Overlays = Mapping[str, ServerContracts]


def load(folder: Path) -> dict[str, ServerContracts]:
    """Every overlay of a folder, by server.

    Raises `ContractRefused`, which names the file, for one that cannot be read or contradicts
    itself, and for two that are about the same server.
    """
    found: dict[str, ServerContracts] = {}
    for file in files(folder):
        for name, contracts in read(file).items():
            if name in found:
                raise ContractRefused(
                    f"`{file.name}` and `{found[name].file}` are both about the server `{name}`:"
                    " put them together"
                )
            found[name] = contracts
    return found


def files(folder: Path) -> list[Path]:
    """The overlay files of a folder, in the order of their names."""
    if not folder.is_dir():
        raise ContractRefused(f"There is no folder of contracts `{folder}`: see its setting")
    found = sorted(file for file in folder.iterdir() if file.suffix in (".yaml", ".yml"))
    if len(found) > MAX_FILES:
        raise ContractRefused(f"`{folder}` has more than {MAX_FILES} overlays")
    return found


def read(file: Path) -> dict[str, ServerContracts]:
    """The overlay of a file, by server; raises `ContractRefused`."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ContractRefused(f"`{file.name}` has more than {MAX_BYTES} bytes")
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ContractRefused(f"The overlay `{file}` cannot be read: {error}") from None
    return parsed(text, of=file.name)


def parsed(text: str, *, of: str) -> dict[str, ServerContracts]:
    """The overlay that YAML says, by server; `of` names it in errors. Raises `ContractRefused`."""
    try:
        given = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise ContractRefused(f"`{of}` is no YAML that can be read: {error}") from None
    overlay = parse_as(Overlay, given, of=of)
    return {name: _server(part, f"{of}, {name}") for name, part in overlay.servers.items()}


def _server(part: ServerPart, of: str) -> ServerContracts:
    contracts: dict[str, Contract] = {}
    pins: dict[str, frozenset[str]] = {}
    for name, given in part.tools.items():
        said = dict(given)
        pinned = said.pop("pin", None)
        if pinned is not None:
            pins[name] = _pins(pinned, f"{of}.{name}")
        if name in part.reads:
            raise ContractRefused(f"`{of}`: `{name}` is in `reads` and in `tools`: leave one out")
        if "resources" in said:
            raise ContractRefused(f"`{of}.{name}`: `resources` are the server's: put them there")
        own = parse(said, of=f"{of}.{name}")
        scopes = own.one_at_a_time
        contract = own.model_copy(
            update={
                "resources": part.resources,
                "one_at_a_time": (*(s for s in part.one_at_a_time if s not in scopes), *scopes),
            }
        )
        check(contract, tool=name, of=f"{of}.{name}")
        contracts[name] = contract
    reads = read_by([Contract(resources=part.resources), *contracts.values()])
    contracts = {**dict.fromkeys([*part.reads, *sorted(reads)], READ_ONLY), **contracts}
    for name, reason in server_contradictions(contracts):
        refuse(f"{of}.{name}", [reason])
    return ServerContracts(contracts, pins, part.sandbox, of.split(",")[0])


class _Pins(Part):
    pin: tuple[Pin, ...]


def _pins(given: Any, of: str) -> frozenset[str]:
    listed = given if isinstance(given, list) else [given]
    return frozenset(parse_as(_Pins, {"pin": listed}, of=of).pin)


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which could make a small file a huge one, and without doubled names."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias (`*`): write it out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [self.construct_object(name, deep=True) for name, _ in node.value]
        for place, name in enumerate(names):
            if not isinstance(name, str):
                written = node.value[place][0].value
                said = shown(written if isinstance(written, str) else str(name))
                raise yaml.YAMLError(f"a name in it, `{said}`, is no text: put it in quotes")
            if name in names[:place]:
                raise yaml.YAMLError(f"it has `{name}` twice: leave one out")
        return super().construct_mapping(node, deep=deep)


# -- whose folder it is


def guard(folder: Path, servers: Mapping[str, McpServer]) -> None:
    """Refuse a folder of contracts that a configured tool server can write to.

    That is one that everybody can write to, or that lies in, holds or is a path that a server is
    configured with: its working directory, an argument, a variable. Raises `ContractRefused`.
    """
    for place in (folder, *files(folder)):
        if place.stat().st_mode & stat.S_IWOTH:
            raise ContractRefused(
                f"Everybody can write to `{place}`: take that right away (`chmod o-w`)"
            )
    real = {place.resolve() for place in (folder, *files(folder))}
    for name, server in servers.items():
        for path in _paths(server):
            if any(_meet(path, one) for one in real):
                raise ContractRefused(
                    f"The tool server `{name}` is configured with `{path}`, by which it could write"
                    f" to the contracts in `{folder}`: keep them elsewhere"
                )


def reaches(server: McpServer, file: Path) -> Path | None:
    """The folder that a server is configured to work in and that holds `file`; None where none."""
    real = file.resolve()
    return next((path for path in _paths(server) if real.is_relative_to(path)), None)


def _meet(path: Path, contracts: Path) -> bool:
    return contracts.is_relative_to(path) or path.is_relative_to(contracts)


_EVERYWHERE = frozenset({"PATH", "HOME", "TMPDIR", "SHELL", "NODE_PATH", "PYTHONPATH"})
"""Variables whose paths say where programs are, not what a server works on."""


def _paths(server: McpServer) -> Iterator[Path]:
    """The paths that a server is configured with, as far as they exist."""
    if server.url is not None:
        return
    base = (server.cwd or Path.cwd()).resolve()
    if server.cwd is not None:
        yield base
    given = list(server.args)
    given += [
        value.get_secret_value() for name, value in server.env.items() if name not in _EVERYWHERE
    ]
    for text in given:
        for part in {text, text.partition("=")[2]} - {""}:
            for one in part.split(os.pathsep):
                path = (base / one).resolve() if "\0" not in one and len(one) < 4096 else base
                if one and path.exists():
                    yield path
