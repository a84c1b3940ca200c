"""Revert and redo, from the command to the head change."""

from __future__ import annotations

import time
from itertools import count

import orjson

from bench import floors
from bench.measure import Act, Row, against, in_turn
from bench.wire import Http, Socket
from bench.world import World, serving
from turnback.store.rows import SessionKey

WHAT = (
    "From the command sent on a socket of a `turnback serve` process to its head-change frame, "
    "with the 50 KB workflow in it. E is a bare WebSocket with the same bytes in and the same "
    "number out."
)
HEAD_CHANGE = b'"WsServerHeadChangeEvent"'
_requests = count(1)


async def measure(world: World) -> list[Row]:
    """Revert and redo of the last turn, after 10 steps and after 10,000."""
    async with world.long() as (store, long):
        short = await store.session()
        await store.seed(short, turns=1, steps=9)
        async with serving(store.url) as server, floors.row(store.url) as floor:
            ends = {
                steps: await End.of(server.port, key)
                for steps, key in ((10, short), (10_000, long))
            }
            size = len(await ends[10].change(ends[10].revert))
            await ends[10].change(ends[10].redo)
            async with floors.echo(ends[10].revert, size) as echo:
                series = await in_turn(
                    {
                        "F": floor,
                        "E": echo,
                        **{
                            f"{name} at {steps:,}": end.act(command)
                            for steps, end in ends.items()
                            for name, command in (("revert", end.revert), ("redo", end.redo))
                        },
                    },
                    times=25,
                )
            for end in ends.values():
                end.socket.close()
    floor_series = series["F"] + series["E"]
    return [
        against(f"{name} steps", taken, floor_series, at_most=2, of="(F + E)")
        for name, taken in series.items()
        if name not in "FE"
    ]


class End:
    """A client at the end of a session, to take its last turn back and put it on again."""

    def __init__(self, socket: Socket, turn_id: str) -> None:
        self.socket = socket
        self.revert = orjson.dumps({"type": "WsClientRevertCommand", "messageId": turn_id})
        self.redo = orjson.dumps({"type": "WsClientRedoCommand"})

    @classmethod
    async def of(cls, port: int, key: SessionKey) -> End:
        """Connect to the session; its last turn is asked of the server."""
        http = await Http.connect(port)
        _, body = await http.request("GET", f"/sessions/{key.id}/steps?limit=1")
        http.close()
        [last] = orjson.loads(body)["steps"]
        socket = await Socket.connect(port, f"/sessions/{key.id}/ws", subprotocol="turnback.v1")
        await socket.until(b'"WsServerSnapshotEvent"')
        return cls(socket, last["turn_id"])

    @property
    def acts(self) -> tuple[Act, Act]:
        """A revert, and the redo that undoes it."""
        return self.act(self.revert), self.act(self.redo)

    async def change(self, command: bytes) -> bytes:
        """Send the command; the head change that answers it."""
        self.socket.send(command)
        return await self.socket.until(HEAD_CHANGE)

    def act(self, command: bytes) -> Act:
        """The same, timed."""

        async def run() -> float:
            began = time.perf_counter()
            await self.change(command)
            return time.perf_counter() - began

        return run
