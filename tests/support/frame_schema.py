"""The published schema of the frames, held against every frame that a test's client sees."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from turnback.api.definitions import frames

Frame = dict[str, Any]


def check(frame: Frame, *, v1: bool) -> None:
    """The frame is as its schema has it, and it and its steps have no other member."""
    name = frame["type"] if v1 else f"Base{frame['type'].removeprefix('WsServer')}"
    _validator(name).validate(frame)
    assert set(frame) <= _members(name), frame
    for step in frame.get("steps", [frame["step"]] if "step" in frame else []):
        assert set(step) <= _members("StepFrame" if v1 else "BaseStep"), step


@cache
def _definitions() -> Frame:
    definitions: Frame = frames()["$defs"]
    return definitions


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _definitions()})


@cache
def _members(name: str) -> frozenset[str]:
    return frozenset(_definitions()[name]["properties"])
