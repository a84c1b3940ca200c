"""Pointers written in Python: `args.id` is the text `$.args.id`, and nothing is run (undo.md 1).

    before.contact[0].phone            {$1: "$.before.contact[0].phone"}
    result.entities.each.name          {$: "$.result.entities[*].name"}
    now.rows.where("@.id == $.key.id")  {$: "$.now.rows[?@.id == $.key.id]"}
    before.contact[0].phone.given(args.phone)   left out unless the second finds something

A pointer that may find several is a list by itself; `.all` makes one of any other.
"""

from __future__ import annotations

import json
import re
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Path:
    """A pointer that is being written; immutable."""

    __slots__ = ("_companions", "_list", "_text")

    def __init__(
        self, text: str, *, many: bool = False, companions: dict[str, Any] | None = None
    ) -> None:
        self._text = text
        self._list = many
        self._companions = companions or {}

    def template(self) -> dict[str, Any]:
        """The pointer as a contract has it."""
        if self._list:
            return {"$": self._text}
        return {"$1": self._text, **self._companions}

    def __getattr__(self, name: str) -> Path:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._below(name)

    def __getitem__(self, step: str | int) -> Path:
        return self._below(step)

    def _below(self, step: str | int) -> Path:
        if isinstance(step, int):
            return Path(f"{self._text}[{step}]", many=self._list)
        if _NAME.fullmatch(step):
            return Path(f"{self._text}.{step}", many=self._list)
        return Path(f"{self._text}[{json.dumps(step)}]", many=self._list)

    @property
    def each(self) -> Path:
        """Every element of a list, or every member of an object."""
        return Path(f"{self._text}[*]", many=True)

    @property
    def all(self) -> Path:
        """The list of what it finds, also where that is one value or none."""
        return Path(self._text, many=True)

    def where(self, filter_: str) -> Path:
        """The elements for which a filter of RFC 9535 holds; `@` is the element."""
        return Path(f"{self._text}[?{filter_}]", many=True)

    def given(self, other: Path) -> Path:
        """Left out of its object or list unless the other pointer finds something."""
        return self._with("if", other)

    def only(self, other: Path, **missing: Any) -> Path:
        """Of the object found the members that the other one has too.

        `else_` is for a member that the object found lacks.
        """
        path = self._with("only", other)
        if "else_" in missing:
            path._companions["else"] = missing["else_"]
        return path

    def _with(self, name: str, other: Path) -> Path:
        return Path(self._text, companions={**self._companions, name: other._text})

    def __repr__(self) -> str:
        return self._text


args = Path("$.args")
before = Path("$.before")
result = Path("$.result")
now = Path("$.now")
key = Path("$.key")
item = Path("$.item")
