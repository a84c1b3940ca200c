"""Who is calling. Every call of the store takes one (protocol.md 4)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: its id, and the project it acts in (the tenancy boundary)."""

    id: str
    project_id: str


LOCAL = Principal(id="local", project_id="local")
"""The one principal while no keys exist: whoever reaches the loopback address."""
