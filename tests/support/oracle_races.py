"""A writer that writes what happened down, and forks made meanwhile, each held against that."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Self

from stored import NOW, Story

from turnback.core.errors import TurnbackError
from turnback.core.lineage import Boundary, Fork, Side
from turnback.core.principal import LOCAL
from turnback.core.tree import EndReason, Step
from turnback.store.dao import Dao
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey

Path = tuple[Step, ...]

ENDS = [EndReason.COMPLETE, EndReason.COMPLETE, EndReason.STOPPED, EndReason.FAILED]


class Written(Story):
    """A session whose every state is kept: the whole visible path after each commit."""

    moments: list[Path]

    @classmethod
    async def started(cls, dao: Dao) -> Self:
        story = await cls.begin(dao)
        story.moments = [()]
        return story

    async def _commit(self, *args: Any, **more: Any) -> None:
        await super()._commit(*args, **more)
        self.moments.append(tuple(self.tree.path())[::-1])

    async def write(self, rng: random.Random, commits: int) -> None:
        """Prompt, edit, revert, redo and check out, for so many commits."""
        until = len(self.moments) + commits
        while len(self.moments) < until:
            tree = self.tree
            path = list(tree.path())
            match rng.choice("ppppeerrsdc"):
                case "p":
                    await self.prompt(*"abc"[: rng.randint(1, 3)], end=rng.choice(ENDS))
                case "e":
                    await self.edit()
                case "r" if path:
                    await self.move(tree.revert(rng.choice(path).turn_id))
                case "s" if path:
                    await self.move(tree.revert_step(rng.choice(path[:4]).id))
                case "d" if tree.can_redo:
                    await self.move(tree.redo())
                case "c":
                    await self.move(tree.checkout(rng.choice([*tree.steps, "step-initial"])))
                case _:
                    pass


@dataclass
class Made:
    """A fork that was asked for: between which two moments, and what came of it."""

    asked: Fork
    since: int
    until: int
    inherited: int = 0
    refused: str | None = None


async def fork_meanwhile(dao: Dao, story: Written, rng: random.Random) -> Made:
    """Fork the session at some turn of it, wherever that is by now; or at HEAD."""
    turns = list(story.tree.turns)
    boundary = None
    if turns and rng.random() < 0.8:
        turn = turns[-1 - min(int(rng.expovariate(0.4)), len(turns) - 1)]
        boundary = Boundary(turn, rng.choice(list(Side)))
    made = Made(Fork(story.key.id, new_id(), boundary), len(story.moments) - 1, 0)
    try:
        fork = await dao.fork(LOCAL, made.asked, now=NOW, max_depth=128)
        assert fork.is_new
        made.inherited = fork.lineage.inherited_turn_count
    except TurnbackError as error:
        made.refused = error.code
    made.until = len(story.moments)  # a commit may be made whose answer is still under way
    return made


async def check_forks(dao: Dao, story: Written, forks: list[Made]) -> None:
    """Assert that each fork is what copying would have given at one of its moments, or no fork."""
    for made in forks:
        possible = [
            _copied(path, made.asked) for path in story.moments[made.since : made.until + 1]
        ]
        if made.refused is not None:
            assert made.refused in possible, (made, possible)
            continue
        child = await Story.of(dao, made.asked.child_id)
        path = tuple(child.tree.path())[::-1]
        assert path in possible, made
        key = SessionKey(story.key.root_id, made.asked.child_id)
        ids = [step.id for step in path]
        assert made.inherited == len({step.turn_id for step in path})
        assert child.tree.workflow == (path[-1].after if path else story.tree.initial)
        page = await dao.transcripts.page(
            LOCAL, key, head=None, after=0, limit=len(ids) + 1, held=None
        )
        assert page.ids == ids
        last = path[-1].turn_id if path else None
        ends = {step.turn_id for step in path if step.end_reason is not None}
        if made.asked.boundary is None or made.asked.boundary.position is Side.AFTER:
            assert last is None or last in ends, "its last turn is not complete"


def _copied(path: Path, asked: Fork) -> Path | str:
    """What a copy of this path up to the boundary is, or the code of its refusal."""
    if asked.boundary is None:
        return "turn_incomplete" if path and path[-1].end_reason is None else path
    turn = [at for at, step in enumerate(path) if step.turn_id == asked.boundary.turn_id]
    if not turn:
        return "not_on_path"
    if asked.boundary.position is Side.BEFORE:
        return path[: turn[0]]
    return path[: turn[-1] + 1] if path[turn[-1]].end_reason else "turn_incomplete"
