"""A real HTTP server on loopback that speaks streaming chat completions, scripted per test.

Each request takes the next answer of the script; what was asked is kept in `requests`. An answer is
a list of items, sent one by one:

- `text("…")`, `call(name, args, …)`, `call_piece(…)`, `usage(…)`, `finish(…)`, or any chunk
- `bytes`: sent as they are
- `Pause(event)`: waits for an `asyncio.Event`; `Pause()` waits until the client hangs up
- `CUT`: the connection is dropped without an end

followed by a finish reason and `[DONE]`, unless a finish reason or `CUT` is among them, or it is an
`Answer(…, whole=False)`. Or it is a `Refusal` with a status, or `HANG`, which answers nothing.
What it was asked is in `requests`, and byte for byte in `bodies`.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Chunk = dict[str, Any]


class _Cut:
    """Drops the connection."""


CUT = _Cut()


@dataclass(frozen=True)
class Pause:
    """Waits for `until`; without it, until the client hangs up."""

    until: asyncio.Event | None = None


class _Hang:
    """Never answers."""


HANG = _Hang()


@dataclass(frozen=True)
class Refusal:
    """A plain HTTP answer with a status. The client is told not to try again unless `retry`.

    Its body is an error of `message` as JSON, or `body` as it is.
    """

    status: int
    message: str = "no"
    retry: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


Item = Chunk | bytes | Pause | _Cut


@dataclass(frozen=True)
class Answer:
    """A streamed answer; see the module."""

    items: Sequence[Item]
    whole: bool = True
    content_type: str = "text/event-stream"


def text(piece: str) -> Chunk:
    return {"choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]}


def call_piece(
    *, index: int = 0, id: str | None = None, name: str | None = None, args: Any = None
) -> Chunk:
    function = {k: v for k, v in {"name": name, "arguments": args}.items() if v is not None}
    piece: Chunk = {"index": index, "function": function}
    if id is not None:
        piece |= {"id": id, "type": "function"}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}


def call(name: str, args: Any, *, id: str = "call_1", index: int = 0) -> Chunk:
    """A whole call; `args` that are no text are sent as JSON text."""
    encoded = args if isinstance(args, str) else json.dumps(args)
    return call_piece(index=index, id=id, name=name, args=encoded)


def usage(prompt: int, completion: int) -> Chunk:
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return {"choices": [], "usage": counts}


def finish(reason: str) -> Chunk:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


@dataclass
class ScriptedProvider:
    """The running server. `url` is the base URL for `TURNBACK_MODEL_BASE_URL`."""

    url: str
    script: list[Answer | Refusal | _Hang] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    streaming: int = 0
    improvise: Callable[[], Answer | Refusal | _Hang] | None = None
    server: uvicorn.Server | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What makes it a server's model."""
        return {"model": "openai:scripted", "model_base_url": self.url}

    @property
    def connections(self) -> int:
        """Clients that are connected."""
        return len(self.server.server_state.connections) if self.server else 0

    def will(self, *answers: Iterable[Item] | Answer | Refusal | _Hang) -> None:
        """Set the script, and forget what was asked before."""
        self.script = [
            answer if isinstance(answer, Answer | Refusal | _Hang) else Answer(list(answer))
            for answer in answers
        ]
        self.requests.clear()
        self.bodies.clear()
        self.headers.clear()
        self.asked.clear()
        self.hung_up.clear()

    async def answer(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        self.requests.append(json.loads(self.bodies[-1]))
        self.asked.set()
        self.headers.append(dict(request.headers))
        if self.script:
            step = self.script.pop(0)
        elif self.improvise is not None:
            step = self.improvise()
        else:
            return JSONResponse({"error": {"message": "the script is over"}}, status_code=410)
        if isinstance(step, Refusal):
            return Response(
                json.dumps({"error": {"message": step.message}})
                if step.body is None
                else step.body,
                status_code=step.status,
                headers={
                    "content-type": "application/json",
                    "x-should-retry": "true" if step.retry else "false",
                    **step.headers,
                },
            )
        if isinstance(step, _Hang):
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.hung_up.set()
            return Response()
        return StreamingResponse(self._stream(step), media_type=step.content_type)

    async def _stream(self, answer: Answer) -> AsyncIterator[bytes]:
        self.streaming += 1
        ended = False
        try:
            for item in answer.items:
                match item:
                    case bytes():
                        yield item
                    case Pause(until=None):
                        yield b": waiting\n\n"
                        await asyncio.Event().wait()
                    case Pause(until=asyncio.Event() as event):
                        await event.wait()
                    case _Cut():
                        # Uvicorn closes a chunked response that ends in an error without its end.
                        raise ConnectionAbortedError
                    case dict():
                        ended = ended or bool(
                            item["choices"] and item["choices"][0].get("finish_reason")
                        )
                        yield _event(item)
            if answer.whole:
                if not ended:
                    yield _event(finish("stop"))
                yield b"data: [DONE]\n\n"
        except (asyncio.CancelledError, GeneratorExit):
            self.hung_up.set()
            raise
        finally:
            self.streaming -= 1


def _event(chunk: Chunk) -> bytes:
    envelope = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "scripted",
    }
    return b"data: " + json.dumps(envelope | chunk).encode() + b"\n\n"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals stay pytest's."""
        yield


@asynccontextmanager
async def scripted_provider() -> AsyncIterator[ScriptedProvider]:
    """Serves on a free port of loopback while the context is open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        provider = ScriptedProvider(url=f"http://127.0.0.1:{port}/v1")
        app = Starlette(
            routes=[Route("/v1/chat/completions", provider.answer, methods=["POST"])],
        )
        server = _Server(
            uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        )
        provider.server = server
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.ready.wait()
        try:
            yield provider
        finally:
            server.should_exit = True
            await serving
