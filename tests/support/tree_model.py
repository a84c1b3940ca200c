"""A naive model of the step tree: whole paths copied at every move, nothing shared.

It knows no branches, segments or positions. Where it and `Tree` disagree, `Tree` is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Model:
    """The visible path as a plain list; every path that ever was, by its last step's id."""

    initial: str
    limit: int
    path: list[str] = field(default_factory=list)
    paths: dict[str, list[str]] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    turn_of: dict[str, str] = field(default_factory=dict)
    edits: dict[str, str] = field(default_factory=dict)  # turns of people's edits: who
    redo: list[list[str]] = field(default_factory=list)
    busy: bool = False

    @property
    def workflow(self) -> str:
        return self.after[self.path[-1]] if self.path else self.initial

    def add(self, step: str, turn: str, after: str) -> None:
        self.path = [*self.path, step]
        self.paths[step] = self.path
        self.after[step] = after
        self.turn_of[step] = turn

    def start(self, step: str, turn: str, after: str) -> None:
        self.redo = []
        self.add(step, turn, after)

    def cut(self, step: str) -> None:
        self.redo = [*self.redo, self.path][-self.limit :]
        self.path = self.path[: self.path.index(step)]

    def first_of(self, turn: str) -> str | None:
        mine = [step for step in self.turn_of if self.turn_of[step] == turn]
        return mine[0] if mine and mine[0] in self.path else None

    def turns_from(self, step: str) -> list[tuple[str, int]]:
        """The turns of the visible steps from `step` on, each with how many of those."""
        found: dict[str, int] = {}
        for visible in self.path[self.path.index(step) :]:
            turn = self.turn_of[visible]
            found[turn] = found.get(turn, 0) + 1
        return list(found.items())
