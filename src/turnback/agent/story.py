"""The demo's story: one prompt of the offline model that fans out into twelve calls outside.

Three of them cannot be taken back, two only with notices to people, seven cleanly. What one step
has made is named by what its calls answered, so that a later one uses it by its id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

PROMPT = "organise the launch dinner"
ASKED = re.compile(r"(?:please )?(?:organi[sz]e|arrange|plan) (?:the|a|our) launch dinner[.!]?")
PREFIX = "demo__"

ARE_OFF = (
    "That takes the demo world, which is off here: set `TURNBACK_DEMO` to `true` and start again."
)


@dataclass(frozen=True)
class Made:
    """A call of this turn: its tool, and what it answered; None: it failed or was not run."""

    tool: str
    answer: str | None


Calls = Sequence[tuple[str, Mapping[str, Any]]]


def is_asked(prompt: str) -> bool:
    """Whether a prompt asks for the story."""
    return ASKED.fullmatch(" ".join(prompt.lower().split())) is not None


def next_step(steps: int, made: Sequence[Made], offered: frozenset[str]) -> tuple[str, Calls]:
    """What is said and called after so many steps; without calls it is the last word."""
    if PREFIX + "create_event" not in offered:
        return ARE_OFF, ()
    if steps == 0:
        return "I'll put it into the calendar, the contacts and the chat first.", FIRST
    event, channel = _id(made, "create_event"), _id(made, "create_channel")
    if event is None or channel is None:
        return "The event or its channel could not be made, so I stopped here.", ()
    if steps == 1:
        return "Now the people and the restaurant.", second(event, channel)
    if steps == 2:
        return "Last, what cannot be taken back once it is sent.", THIRD
    done = [call.tool.removeprefix(PREFIX) for call in made if call.answer is not None]
    left = [call.tool.removeprefix(PREFIX) for call in made if call.answer is None]
    said = f"The launch dinner is organised: {len(done)} calls were made outside."
    if left:
        said += f" Not done: {', '.join(f'`{tool}`' for tool in left)}."
    return f"{said} Revert this turn to see how far each can be taken back.", ()


def _id(made: Sequence[Made], tool: str) -> str | None:
    """The id of what a tool made."""
    for call in made:
        if call.tool == PREFIX + tool and call.answer is not None:
            try:
                answer = orjson.loads(call.answer)
            except orjson.JSONDecodeError:
                return None
            found = answer.get("id") if isinstance(answer, dict) else None
            return found if isinstance(found, str) else None
    return None


def _call(tool: str, **args: Any) -> tuple[str, Mapping[str, Any]]:
    return PREFIX + tool, args


FIRST: Calls = (
    _call(
        "create_event",
        fields={
            "title": "Launch dinner",
            "start": "2031-05-08T19:00",
            "end": "2031-05-08T22:00",
            "place": "Trattoria Lina",
        },
    ),
    _call("update_event", id="review", changes={"end": "2031-05-08T17:30"}),
    _call(
        "create_contact",
        fields={"name": "Trattoria Lina", "email": "lina@example.org", "phone": "555-0142"},
    ),
    _call("update_contact", id="ben", changes={"phone": "555-0177"}),
    _call("create_channel", name="launch-dinner", topic="Who comes, who eats what"),
)


def second(event: str, channel: str) -> Calls:
    """The calls about people, who come to this event and talk in this channel."""
    return (
        _call("invite", event=event, emails=["ada@example.org", "ben@example.org"]),
        _call("post_message", channel=channel, text="We dine on Thursday at seven. Who comes?"),
        _call(
            "schedule_email",
            to=["ada@example.org", "ben@example.org", "cara@example.org"],
            subject="Reminder: launch dinner",
            body="Tonight at seven, Trattoria Lina.",
            in_minutes=24 * 60,
        ),
        _call("charge_card", amount=300, to="Trattoria Lina", **{"for": "Deposit"}),
    )


THIRD: Calls = (
    _call(
        "send_email",
        to=["lina@example.org"],
        subject="Table for twelve",
        body="Please keep the long table for us on Thursday at seven.",
    ),
    _call("send_transfer", amount=450, to="Hall of Music", **{"for": "The quartet"}),
    _call("send_text", phone="555-0103", text="Cara, would you hold the speech?"),
)
