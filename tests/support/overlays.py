"""The tests' own overlay, and observations from answers made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from turnback.core.contracts import choose, states
from turnback.core.contracts.model import Contract
from turnback.tools import overlays

FOLDER = Path(__file__).parents[1] / "data" / "overlays"
FILE = FOLDER / "graph_and_files.yaml"


def contract(server: str, tool: str) -> Contract:
    """A contract of the tests' overlay."""
    return _read()[server].contracts[tool]


@cache
def _read() -> Mapping[str, overlays.ServerContracts]:
    return overlays.read(FILE)


def observed(of: Contract, args: Mapping[str, Any], *answers: Any) -> choose.Before:
    """What was read before a call: an answer for each resource, or one for all.

    An answer that is a text is an error.
    """
    keys = choose.touched(of, "here", args)
    given = answers if len(answers) != 1 else answers * len(keys)
    return choose.Before(
        tuple(
            (key, states.observe(of, key, is_error=True, text=answer))
            if isinstance(answer, str)
            else (key, states.observe(of, key, is_error=False, text="", structured=answer))
            for key, answer in zip(keys, given, strict=True)
        )
    )
