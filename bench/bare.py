"""The floor E: Starlette with nothing in it, under the same server with the same options.

`/echo/N` answers every frame with one of N bytes. `/all` sends every frame that one socket sends to
all of them.
"""

from __future__ import annotations

import gc
import socket

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from turnback.api.protocol import WebSocketProtocol
from turnback.serve import GC_THRESHOLD

_all: set[WebSocket] = set()


async def echo(websocket: WebSocket) -> None:
    """Answer each frame by one of as many bytes as the path says."""
    await websocket.accept()
    text = "x" * websocket.path_params["size"]
    try:
        while True:
            await websocket.receive_text()
            await websocket.send_text(text)
    except WebSocketDisconnect:
        pass


async def broadcast(websocket: WebSocket) -> None:
    """Send each frame to all sockets, one after the other."""
    await websocket.accept()
    _all.add(websocket)
    try:
        while True:
            text = await websocket.receive_text()
            for each in tuple(_all):
                await each.send_text(text)
    except WebSocketDisconnect:
        _all.discard(websocket)


app = Starlette(
    routes=[WebSocketRoute("/echo/{size:int}", echo), WebSocketRoute("/all", broadcast)]
)


def main() -> None:
    """Serve on any free port of loopback, and print the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        ws=WebSocketProtocol,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
    )
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
