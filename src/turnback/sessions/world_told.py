"""A world note in the words of the model: a block of data, which says nothing to be done."""

from __future__ import annotations

from typing import Any

import orjson

from turnback.agent.prompt import OUTSIDE_OPENS
from turnback.core.undo.plan import OPEN_STANDINGS


def told(entries: list[dict[str, Any]]) -> str:
    """A note as the model is told it: data, in the brackets of what Turnback itself says."""
    still = [_told(entry) for entry in entries if entry["standing"] in OPEN_STANDINGS]
    gone = [_told(entry) for entry in entries if entry["standing"] not in OPEN_STANDINGS]
    said = {"notTakenBack": still, "namedAboveAndNoLongerSo": gone}
    block = orjson.dumps({name: value for name, value in said.items() if value}).decode()
    return f"{OUTSIDE_OPENS}{block}]"


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in ("tool", "standing", "things", "people")}
