"""Install the rivals' environment once, give each the same work, and ours beside them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from bench import workload
from bench.rivals import ours
from bench.world import World

HERE = Path(__file__).parent
PYTHON = HERE / ".venv" / "bin" / "python"
STAMP = HERE / ".venv" / "installed"
NAMES = {"langgraph": "LangGraph with its Postgres checkpointer", "adk": "Google ADK"}
ROUNDS = 3
STEPS = 200


async def measure(world: World) -> dict[str, list[dict[str, float]]]:
    """By name, one result a round, all in turn; only ours where nothing can be installed."""
    results: dict[str, list[dict[str, float]]] = {"turnback": []}
    with TemporaryDirectory() as folder:
        work = Path(folder) / "work.json"
        work.write_bytes(orjson.dumps(_work()))
        others = list(NAMES) if install() else []
        for _ in range(ROUNDS):
            results["turnback"].append(await ours.measure(world, STEPS))
            for name in others:
                async with world.database(template="template1") as url:
                    found = await asyncio.to_thread(_answer, HERE / f"{name}_rival.py", url, work)
                results.setdefault(name, []).append(found)
    return results


async def forks(world: World, records: Sequence[int]) -> dict[int, float]:
    """How many milliseconds LangGraph takes to fork a thread of so many messages.

    Nothing where it cannot be installed.
    """
    if not install():
        return {}
    async with world.database(template="template1") as url:
        arguments: list[Path | str] = [HERE / "langgraph_forks.py", url, *map(str, records)]
        found = await asyncio.to_thread(_answer, *arguments)
    return {int(count): taken for count, taken in found.items()}


def install() -> bool:
    """Whether the rivals' environment is there; installed from the lock if it is not."""
    lock = HERE / "requirements.lock"
    if STAMP.exists() and STAMP.read_bytes() == lock.read_bytes():
        return True
    pip = (PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input")
    try:
        subprocess.run([sys.executable, "-m", "venv", PYTHON.parents[1]], check=True)
        subprocess.run([*pip, "--require-hashes", "-r", lock], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        print("rivals: left out, their environment cannot be installed here", file=sys.stderr)
        return False
    STAMP.write_bytes(lock.read_bytes())
    return True


def _answer(*arguments: Path | str) -> dict[str, float]:
    """What a script prints that runs in the rivals' environment."""
    done = subprocess.run([PYTHON, *arguments], check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = orjson.loads(done.stdout.splitlines()[-1])
    return found


def _work() -> dict[str, Any]:
    """The workflow, and for each step the two operators that it changes, whole."""
    before = workload.workflow()
    first, steps = before.content(), []
    for _ in range(STEPS):
        after = workload.step(before).after
        steps.append([o for name, o in after.operators.items() if o is not before.operators[name]])
        before = after
    return {"workflow": first, "steps": steps}
