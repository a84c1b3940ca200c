"""Frames between a page and its server that wait on their way until the test lets them through."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from processes import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.async_api import Page, WebSocketRoute


@dataclass
class Way:
    """One direction: frames of the type `stops` wait, and whatever comes behind them, in order."""

    stops: str | None
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def take(self, message: str | bytes, send: Callable[[str | bytes], None]) -> None:
        if self.waiting or json.loads(message)["type"] == self.stops:
            self.waiting.append(lambda: send(message))
        else:
            send(message)

    async def let_one(self) -> None:
        """The one that has waited longest, once there is one."""
        await eventually(lambda: self.waiting)
        self.waiting.pop(0)()

    def open(self) -> None:
        """Those that wait, and all that come from now on."""
        self.stops = None
        while self.waiting:
            self.waiting.pop(0)()


@dataclass
class Gate:
    """Both directions of every socket that a page opens from now on."""

    from_page: Way
    to_page: Way

    @classmethod
    async def before(
        cls, page: Page, *, from_page: str | None = None, to_page: str | None = None
    ) -> Gate:
        gate = cls(Way(from_page), Way(to_page))
        await page.route_web_socket(re.compile(r"/ws(\?|$)"), gate._through)
        return gate

    def _through(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()
        route.on_message(lambda message: self.from_page.take(message, server.send))
        server.on_message(lambda message: self.to_page.take(message, route.send))
