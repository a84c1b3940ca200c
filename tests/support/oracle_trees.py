"""Forks of the pure core: trees that begin with the prefix that they inherit, without a store.

Which fork is refused is the store's to say; here only those are made that are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from oracle import Asked, How, Refused
from oracle_histories import Histories, Route, Seen, Shown

from turnback.core.errors import TurnbackError
from turnback.core.lineage import ROOT, Position, Stub, held, segments_at, source_at, unfolded
from turnback.core.tree import EndReason, Event, Limits, NewIds, Step, Tree


class Trees:
    """One tree for each session; they share branches only as the rows of a store do."""

    max_depth = 128
    max_redo = 4

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._ids = count(1)

    def close(self) -> None:
        pass

    def forget(self) -> None:
        """Make every tree again of its parts."""
        for id_, tree in self._trees.items():
            read = self._new_tree(id_, tree.initial)
            read.state, read.head, read.redo_stack = tree.state, tree.head, list(tree.redo_stack)
            read.adopt(
                branches=tree.branches.values(),
                turns=tree.turns.values(),
                steps=tree.steps.values(),
            )
            assert (read.children, read.newest, read.turn_keys, read.running) == (
                tree.children, tree.newest, tree.turn_keys, tree.running,
            )  # fmt: skip
            self._trees[id_] = read

    # -- commands

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"

    def create(self, name: str, document: str) -> str:
        del name
        id_ = self.new_id()
        self._trees[id_] = self._new_tree(id_, document)
        return id_

    def prompt(self, session: str, text: str, key: str | None) -> tuple[str, str]:
        del text
        tree, ids = self._trees[session], self._new()
        if key is not None and key in tree.turn_keys:
            turn = tree.turns[tree.turn_keys[key]]
            return turn.id, turn.first.step_id
        self._do(session, lambda t: t.prompt(ids, by="local", key=key))
        return ids.turn, ids.step

    def answer(
        self, session: str, text: str, document: str, end: str | None, calls: int, tokens: int
    ) -> str:
        del text, calls, tokens
        step = self.new_id()
        self._do(session, lambda t: t.append(step, document, EndReason(end) if end else None))
        return step

    def stop(self, session: str) -> None:
        self._do(session, Tree.stop)

    def edit(self, session: str, document: str, by: str) -> tuple[str | None, str]:
        ids = self._new()

        def edited(tree: Tree) -> tuple[Event, ...]:
            events = tree.edit(ids, document, by=by)
            return events if document != tree.workflow else ()

        self._do(session, edited)
        head = self._trees[session].head.step_id
        return (ids.turn if head == ids.step else None), head

    def revert_turn(self, session: str, turn: str, how: How) -> How:
        self._do(session, lambda t: t.revert(turn))
        return how

    def revert_step(self, session: str, step: str, how: How) -> How:
        self._do(session, lambda t: t.revert_step(step))
        return how

    def redo(self, session: str, *, all_: bool) -> None:
        self._do(session, lambda t: t.redo(all_=all_))

    def checkout(self, session: str, step: str) -> None:
        self._do(session, lambda t: t.checkout(step))

    def fork_at(self, id_: str, source: str, seq: int) -> None:
        """A tree that begins with the first `seq` steps that `source` shows."""
        parent = self._trees[source]
        steps = list(parent.path())[::-1][:seq]
        cutoff = ROOT
        if steps:
            branch = source_at(parent.branches, parent.head, seq)
            cutoff = Position(branch, seq, steps[-1].id)
        stubs = [
            Stub(b.id, b.session_id, b.cutoff, b.below, b.segment_count)
            for segment in segments_at(parent.branches, cutoff)
            for b in [held(parent.branches, segment.source)]
        ]
        child = self._new_tree(id_, parent.initial)
        child.head = cutoff
        # A turn's key is its own session's, as the store reads a prefix.
        turns = {s.turn_id: replace(parent.turns[s.turn_id], key=None) for s in steps}
        child.adopt(branches=unfolded(stubs[::-1]), turns=turns.values(), steps=steps)
        self._trees[id_] = child

    def fork(self, id_: str, asked: Asked) -> bool:
        raise NotImplementedError("a store's")

    # -- what is seen

    def seen(self, session: str) -> Seen:
        tree = self._trees[session]
        path = list(tree.path())[::-1]
        segments = list(segments_at(tree.branches, tree.head))[::-1]
        places = {(step.branch_id, step.seq): step.id for step in tree.steps.values()}
        read = [places[g.source, n] for g in segments for n in range(g.lo + 1, g.hi + 1)]
        assert read == [step.id for step in path]
        assert {step.id for step in tree.steps.values() if tree.is_visible(step)} == set(read)
        turns = list(dict.fromkeys(step.turn_id for step in path))
        return Seen(
            head=tree.head.step_id,
            state=tree.state,
            document=tree.workflow,
            redo=(len(tree.redo_stack), tree.redo_stack[-1].step_id if tree.can_redo else None),
            path=[step.id for step in path],
            turns=[(turn, tree.turns[turn].effective_index) for turn in turns],
            is_stored=False,
        )

    def shown(self, session: str, limit: int) -> list[Route]:
        del limit
        tree = self._trees[session]
        return [Route([self._shown(tree, step) for step in tree.path()][::-1])]

    def _shown(self, tree: Tree, step: Step) -> Shown:
        return Shown(
            repr(step).encode(),
            {
                "id": step.id,
                "turn": step.turn_id,
                "kind": tree.turns[step.turn_id].kind,
                "role": step.role,
                "parent": step.parent_id,
                "seq": step.seq,
                "index": step.index,
                "document": step.after,
                "end": step.end_reason,
                "writer": tree.branches[step.branch_id].session_id,
            },
        )

    # -- parts

    def _new(self) -> NewIds:
        return NewIds(self.new_id(), self.new_id(), self.new_id())

    def _new_tree(self, id_: str, initial: str) -> Tree:
        return Tree(id_, initial, Limits(max_redo_depth=self.max_redo))

    def _do(self, session: str, act: Callable[[Tree], tuple[Event, ...]]) -> None:
        tree = self._trees[session]
        try:
            tree.apply(act(tree))
        except TurnbackError as error:
            raise Refused(error.code) from error


class TreeHistories(Histories):
    """Histories of trees. The oracle says where a fork is cut."""

    product: Trees
    make = Trees

    def _fork(self, child: str, asked: Asked) -> None:
        try:
            self.oracle.fork(child, asked)
        except Refused:
            return
        self.product.fork_at(child, asked.source, len(self.oracle.sessions[child].path))
