"""The text of a commit's one statement and its arguments, as they are written (commit.py)."""

from __future__ import annotations

from typing import Any

from turnback.store.rows import Commit


class Statement:
    """SQL text and its arguments, written side by side. An argument is there when it is named."""

    def __init__(self, commit: Commit) -> None:
        self.commit = commit
        self.args: list[Any] = []
        self.sets: list[str] = []
        self.ctes: list[str] = []
        self._named: dict[str, str] = {}

    def arg(self, value: Any, type_: str) -> str:
        self.args.append(value)
        return f"${len(self.args)}::{type_}"

    def row(self, *values: tuple[Any, str]) -> str:
        return ", ".join(self.arg(value, type_) for value, type_ in values)

    def add(self, name: str, sql: str) -> None:
        self.ctes.append(f"{name} as ({sql})")

    def _once(self, name: str, value: Any, type_: str) -> str:
        if name not in self._named:
            self._named[name] = self.arg(value, type_)
        return self._named[name]

    @property
    def root(self) -> str:
        return self._once("root", self.commit.key.root_id, "uuid")

    @property
    def session(self) -> str:
        return self._once("session", self.commit.key.id, "uuid")

    @property
    def now(self) -> str:
        return self._once("now", self.commit.now, "timestamptz")

    @property
    def node(self) -> str:
        return self._once("node", self.commit.node_id, "uuid")

    @property
    def who(self) -> str:
        return self._once("who", self.commit.principal, "text")
