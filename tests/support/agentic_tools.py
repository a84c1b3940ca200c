"""A desk that can only be talked to: what it has booked is offset by an agent that asks it."""

from __future__ import annotations

from typing import Any

from outside_tools import arrived, behaves

from turnback.tools.decorator import tool

PROMPT = "Cancel the booking by asking the desk for it. Say when it is done."


def by_agent(**bounds: float) -> dict[str, Any]:
    usual: dict[str, Any] = {"calls": 2, "tokens": 50_000, "seconds": 30}
    agent = {"tools": ["ask_desk"], "prompt": PROMPT} | usual | bounds
    return {"cases": [{"class": "compensable", "residue": "left", "agentic": agent}]}


@tool(connection="desk", contract={"cases": [{"class": "irreversible"}]})
async def ask_desk(at: str, text: str) -> dict[str, Any]:
    """Ask the desk for something, in words."""
    arrived(at, "ask_desk")
    await behaves(at, lambda: None)
    return {"answer": f"we have read: {text}"}


@tool(connection="desk", contract=by_agent())
async def book(at: str, room: str) -> dict[str, Any]:
    """Book a room."""
    arrived(at, "book")
    return {"booked": room}


@tool(connection="desk", contract=by_agent(tokens=10))
async def book_for_words(at: str, room: str) -> dict[str, Any]:
    """Book a room, of which few words may be made."""
    arrived(at, "book_for_words")
    return {"booked": room}


@tool(connection="desk", contract=by_agent(seconds=0.5))
async def book_in_haste(at: str, room: str) -> dict[str, Any]:
    """Book a room, of which there is no time to talk."""
    arrived(at, "book_in_haste")
    return {"booked": room}
