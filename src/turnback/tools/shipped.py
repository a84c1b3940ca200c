"""The overlays that come with Turnback, for the servers whose settings ask for one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from turnback.settings import McpServer
from turnback.tools.overlays import ServerContracts, parsed
from turnback.tools.servers import DEMO


def shipped(servers: Mapping[str, McpServer]) -> dict[str, ServerContracts]:
    """The contracts of each server that has an `overlay`, by the server's own name.

    The demo world has its own contracts, and an overlay that says where they are tried out.
    """
    named = {name: DEMO if name == DEMO else server.overlay for name, server in servers.items()}
    return {name: contracts(overlay) for name, overlay in named.items() if overlay is not None}


def contracts(overlay: str) -> ServerContracts:
    """One of the overlays that come with Turnback."""
    file = f"{overlay}.yaml"
    text = (resources.files("turnback.overlays") / file).read_text()
    return parsed(text, of=file)[overlay]
