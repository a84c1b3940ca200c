"""The OpenAPI document holds for the running server: schemathesis asks, and finds nothing.

Twice: with whatever ids it makes up or is given, and with a session that has steps in every path.
It asks with a key, and tries that no route but those that are open answers without.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from processes import Process, process

CONFIG = Path(__file__).parents[1] / "contracts/schemathesis.toml"
SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"


@pytest.fixture
async def running(fresh_database: str, tmp_path: Path) -> AsyncIterator[Process]:
    """A server in a process of its own: no traceback may be in what it logs."""
    many = {"bad_credentials_per_minute": 1_000_000}
    async with process(tmp_path, fresh_database, offline_delay_ms=0, **many) as server:
        made = await server.http.post("/keys", json={"principal": "alice", "role": "owner"})
        server.http.headers["authorization"] = f"Bearer {made.json()['key']}"
        yield server


async def asked(server: Process, folder: Path, config: str, *options: str) -> None:
    """Let schemathesis ask; what it finds is in the message."""
    path = folder / "schemathesis.toml"
    path.write_text(config)
    running = await asyncio.create_subprocess_exec(
        *(SCHEMATHESIS, "--config-file", path, "run", f"{server.url}/openapi.json"),
        *("--checks", "all", "--exclude-checks", NOT_ASKED),
        *("--suppress-health-check", "all", "--no-color"),
        *("--header", f"Authorization: {server.http.headers['authorization']}"),
        *options,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await running.communicate()
    assert running.returncode == 0, output.decode()
    assert "No issues found" in output.decode(), output.decode()


async def with_a_session(server: Process) -> str:
    """The configuration under which every path leads to a session that has steps."""
    session = await server.session()
    shown = {"authorization": server.http.headers["authorization"]}
    async with server.connect(session, additional_headers=shown) as client:
        await client.snapshot()
        await client.prompt("add a CSVFileScan")
        step = client.head
    named = {"session_id": session, "agent_id": session, "step_id": step}
    parameters = "".join(f'"path.{name}" = "{value}"\n' for name, value in named.items())
    return f"{CONFIG.read_text()}\n[parameters]\n{parameters}"


NOT_ASKED = "ensure_resource_availability"
"""What is not found may be the step or the turn that a frame or a query names; and a POST with an
`Idempotency-Key` of before answers as before, though its session has been deleted since."""

LIVE = ("--include-path-regex", "{", "--exclude-method", "DELETE", "--phases", "fuzzing")


async def test_schemathesis_finds_nothing(running: Process, tmp_path: Path) -> None:
    few = ("--generation-deterministic", "-n", "5")
    await asked(running, tmp_path, CONFIG.read_text(), *few)
    await asked(running, tmp_path, await with_a_session(running), *LIVE, *few)


@pytest.mark.soak
async def test_schemathesis_finds_nothing_in_many_examples(
    running: Process, tmp_path: Path
) -> None:
    await asked(running, tmp_path, CONFIG.read_text(), "-n", "100")
    await asked(running, tmp_path, await with_a_session(running), *LIVE, "-n", "100")
