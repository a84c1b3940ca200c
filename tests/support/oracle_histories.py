"""Random histories of sessions and forks, carried out by a product and by the oracle.

After every command everything that can be seen of every session is compared, records to the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from as_found import AS_FOUND
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from oracle import ROOT, Asked, How, Kind, Oracle, Origin, Refused, Session, Sum

MAX_SESSIONS = 9


@dataclass
class Shown:
    """A record as shown: its bytes, and what those say, by the names of `oracle.Note`."""

    bytes: bytes
    fields: dict[str, Any]


@dataclass
class Route:
    """A transcript read to its end. `holes`: of which places (after, until) it says `purged`."""

    records: list[Shown] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Seen:
    """What a product says of a session. `turns` are the visible ones with their places.

    Of a path that was purged in part, `path` and `turns` are what is left at HEAD's end.

    `redo` is how many moves can be redone, and where the first of them leads. Of the rest, None:
    this product cannot say. `pending` is what a fork was made for: mode, draft, turn key. `family`
    are the sessions above it, from its parent on, and those that were forked from it, newest first.
    """

    head: str
    state: str
    document: str
    redo: tuple[int, str | None]
    path: list[str]
    turns: list[tuple[str, int]] | None = None
    origin: Origin | None = None
    is_stored: bool = True
    name: str | None = None
    archived: bool | None = None
    pending: tuple[str, str, str] | None = None
    family: tuple[list[str], list[str]] | None = None
    visible: Sum | None = None
    spent: Sum | None = None


class Product(Protocol):
    """What is tested. Every command raises `Refused` with the code of its refusal."""

    max_depth: int
    max_redo: int

    def create(self, name: str, document: str) -> str: ...
    def prompt(self, session: str, text: str, key: str | None) -> tuple[str, str]:
        """The turn and its first step, as they are or were."""
        ...

    def answer(
        self, session: str, text: str, document: str, end: str | None, calls: int, tokens: int
    ) -> str: ...
    def stop(self, session: str) -> None: ...
    def edit(self, session: str, document: str, by: str) -> tuple[str | None, str]:
        """The edit's turn and step; no turn where nothing was changed."""
        ...

    def revert_turn(self, session: str, turn: str, how: How) -> How:
        """As asked, with the turn and the step of the edit that was made again."""
        ...

    def revert_step(self, session: str, step: str, how: How) -> How: ...
    def redo(self, session: str, *, all_: bool) -> None: ...
    def checkout(self, session: str, step: str) -> None: ...
    def fork(self, id_: str, asked: Asked) -> bool:
        """Whether this has made it, and not an earlier one."""
        ...

    def new_id(self) -> str: ...
    def rename(self, session: str, name: str) -> None: ...
    def archive(self, session: str, archived: bool) -> None: ...
    def delete(self, session: str) -> None: ...
    def forget(self) -> None:
        """Drop what memory holds of sessions without a run; go on in another process."""
        ...

    def purge(self, session: str) -> None: ...
    def sweep(self) -> set[str]:
        """Remove for good the deleted sessions that nothing living comes from; which those were."""
        ...

    def seen(self, session: str) -> Seen: ...
    def shown(self, session: str, limit: int) -> list[Route]:
        """The transcript by each route that there is, in pages of `limit`."""
        ...

    def close(self) -> None: ...


SESSION = st.integers(0, MAX_SESSIONS - 1)
PLACE = st.tuples(st.sampled_from(["seen", "seen", "seen", "known", "any"]), st.integers(0, 40))
DOCUMENT = st.integers(0, 5).map(lambda n: f"w{n}")
TEXT = st.sampled_from(["add a scan", "and now?", 'Zoë’s \\ "quotes" \n 🙂', "no"])
END = st.sampled_from(["complete", "complete", "stopped", "failed", "limit", "interrupted"])
LIMIT = st.sampled_from([1, 2, 3, 7, 200])
SOMEBODY = st.sampled_from(["local", "local", "ann"])


Kinds = dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]]
Command = tuple[str, dict[str, Any]]

CORE: Kinds = {
    "create": (1, {"name": st.sampled_from(["X", "Y (branch)", "n" * 200]), "document": DOCUMENT}),
    "prompt": (2, {"n": SESSION, "text": TEXT, "key": st.sampled_from([None, None, "k1", "k2"])}),
    "whole_turn": (5, {
        "n": SESSION,
        "text": TEXT,
        "documents": st.lists(DOCUMENT, min_size=1, max_size=4),
        "end": END,
    }),
    "answer": (2, {
        "n": SESSION, "document": DOCUMENT, "end": st.none() | END, "much": st.integers(0, 9),
    }),
    "stop": (1, {"n": SESSION}),
    "edit": (3, {"n": SESSION, "document": DOCUMENT}),
    "revert_turn": (3, {"n": SESSION, "place": PLACE}),
    "revert_step": (4, {"n": SESSION, "place": PLACE}),
    "redo": (2, {"n": SESSION, "all_": st.booleans()}),
    "checkout": (3, {"n": SESSION, "place": PLACE, "root": st.integers(0, 5)}),
    "fork": (9, {
        "n": SESSION,
        "place": PLACE,
        "side": st.sampled_from([None, "before", "before", "after", "after"]),
        "mode": st.sampled_from([None, None, "edit", "rerun"]),
        "draft": st.sampled_from([None, "another"]),
        "name": st.sampled_from([None, "Mine"]),
    }),
    "forget": (2, {"limit": LIMIT}),
}  # fmt: skip
OF_SOMEBODY = {"who": SOMEBODY, "kind": st.sampled_from(["plain", "plain", "confirm", "keep"])}

STORED: Kinds = {
    "edit": (4, CORE["edit"][1] | {"who": SOMEBODY}),
    "revert_turn": (4, CORE["revert_turn"][1] | OF_SOMEBODY),
    "revert_step": (4, CORE["revert_step"][1] | OF_SOMEBODY),
    "fork_again": (2, {"n": SESSION, "other": st.integers(0, 4)}),
    "rename": (1, {"n": SESSION, "name": st.sampled_from(["P", "Q (branch)"])}),
    "archive": (1, {"n": SESSION, "archived": st.sampled_from([True, False, False])}),
    "delete": (2, {"n": SESSION}),
    "purge": (1, {"n": SESSION}),
    "lose": (3, {"n": SESSION, "up": st.integers(0, 2)}),
    "sweep": (1, {}),
}
"""The commands, by name: how often each is to come, and what of."""


def commands(kinds: Kinds) -> st.SearchStrategy[Command]:
    """A command. Not a rule for each: of those some histories would have few."""
    names = [name for name, (weight, _) in kinds.items() for _ in range(weight)]
    return st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), st.fixed_dictionaries(kinds[name][1]))
    )


class Histories(RuleBasedStateMachine):
    """Commands for any session of a family or of another one. `make` makes the product."""

    make: ClassVar[Callable[[], Product]]

    def __init__(self) -> None:
        super().__init__()
        self.product = type(self).make()
        self.oracle = Oracle(max_depth=self.product.max_depth, max_redo=self.product.max_redo)
        self.limit = 7

    def teardown(self) -> None:
        self.product.close()

    # -- picking

    @property
    def sessions(self) -> list[Session]:
        return list(self.oracle.sessions.values())

    def pick(self, n: int) -> Session:
        """A session; the newest for 0, so that chains grow; a deleted one seldom."""
        alive = [session for session in self.sessions if not session.deleted]
        found = alive if alive and n < MAX_SESSIONS - 1 else self.sessions
        return found[-1 - n % len(found)]

    def step(self, session: Session, place: tuple[str, int]) -> str:
        """A step: one that is seen, one that the session knows, or one of any session."""
        where, n = place
        known = list(session.notes)
        everywhere = [id_ for other in self.sessions for id_ in other.notes]
        found = {"seen": session.path[::-1], "known": known, "any": everywhere}[where]
        return found[n % len(found)] if found else self.product.new_id()

    def turn(self, session: Session, place: tuple[str, int]) -> str:
        """A turn, in the same way."""
        step = self.step(session, place)
        notes = [other.notes[step].turn for other in self.sessions if step in other.notes]
        return notes[0] if notes else step

    def running(self) -> list[Session]:
        return [session for session in self.sessions if session.running is not None]

    # -- doing

    def both(self, act: Callable[[], Any], follow: Callable[[Any], Any]) -> Any:
        """Carry out a command; the oracle follows with what that has answered."""
        refused = expected = answer = None
        try:
            answer = act()
        except Refused as error:
            refused = error.code
        try:
            told = follow(answer)
        except Refused as error:
            expected, told = error.code, None
        assert refused == expected, f"{refused=}, {expected=}"
        return told

    def _prompt(self, session: Session, text: str, key: str | None) -> None:
        def follow(begun: tuple[str, str] | None) -> None:
            if key is not None and key in session.keys and not session.deleted:
                assert begun is not None
                assert begun[0] == session.keys[key]
            else:
                turn, step = begun or (self.product.new_id(), self.product.new_id())
                session.prompt(turn, step, text, key, "local")

        self.both(lambda: self.product.prompt(session.id, text, key), follow)

    def _answer(self, session: Session, document: str, end: str | None, much: int) -> None:
        said = self.said(session, document, end, much)
        session.answer(self.product.answer(session.id, *said), *said)

    def said(
        self, session: Session, document: str, end: str | None, much: int
    ) -> tuple[str, str, str | None, int, int]:
        """What is answered: a text, the workflow that it leads to, an end, calls, tokens."""
        return f"answer {len(session.notes)}", document, end, much % 3, much

    # -- the rules

    @initialize(documents=st.lists(DOCUMENT, min_size=3, max_size=9), depth=st.integers(0, 2))
    def begin(self, documents: list[str], depth: int) -> None:
        """A session of some turns, so that there is something to fork; and forks of forks of it."""
        self.create("Orders", documents[0])
        for at in range(0, len(documents), 3):
            self.whole_turn(0, "begin", documents[at : at + 3], "complete")
        for _ in range(depth):
            self._fork(self.product.new_id(), Asked(self.sessions[-1].id))
            self.whole_turn(0, "more", documents[:1], "complete")

    @rule(command=commands(CORE))
    def carry_out(self, command: Command) -> None:
        """One command."""
        kind, arguments = command
        getattr(self, kind)(**arguments)

    def create(self, name: str, document: str) -> None:
        if len(self.sessions) < MAX_SESSIONS:
            self.oracle.create(self.product.create(name, document), name, document)

    def prompt(self, n: int, text: str, key: str | None) -> None:
        self._prompt(self.pick(n), text, key)

    def whole_turn(self, n: int, text: str, documents: list[str], end: str) -> None:
        session = self.pick(n)
        if session.running is None:
            self._prompt(session, text, None)
        if session.running is not None:
            for at, document in enumerate(documents, 1):
                self._answer(session, document, end if at == len(documents) else None, at)

    def answer(self, n: int, document: str, end: str | None, much: int) -> None:
        if running := self.running():
            self._answer(running[n % len(running)], document, end, much)

    def stop(self, n: int) -> None:
        self.halt(self.pick(n))

    def halt(self, session: Session) -> None:
        def follow(_: object) -> None:
            if session.deleted:
                raise Refused("session_not_found")
            session.stop()

        self.both(lambda: self.product.stop(session.id), follow)

    def edit(self, n: int, document: str, who: str = "local") -> None:
        session = self.pick(n)
        self.both(
            lambda: self.product.edit(session.id, document, who),
            lambda made: session.edit(*(made or ("", "")), document, who),
        )

    def revert_turn(
        self, n: int, place: tuple[str, int], who: str = "local", kind: Kind = "plain"
    ) -> None:
        session = self.pick(n)
        turn, how = self.turn(session, place), How(who, kind)
        self.both(
            lambda: self.product.revert_turn(session.id, turn, how),
            lambda made: session.revert_turn(turn, made or how),
        )

    def revert_step(
        self, n: int, place: tuple[str, int], who: str = "local", kind: Kind = "plain"
    ) -> None:
        session = self.pick(n)
        step, how = self.step(session, place), How(who, kind)
        self.both(
            lambda: self.product.revert_step(session.id, step, how),
            lambda made: session.revert_step(step, made or how),
        )

    def redo(self, n: int, all_: bool) -> None:
        session = self.pick(n)
        self.both(
            lambda: self.product.redo(session.id, all_=all_),
            lambda _: session.redo_all() if all_ else session.redo_once(),
        )

    def checkout(self, n: int, place: tuple[str, int], root: int) -> None:
        session = self.pick(n)
        step = self.step(session, place) if root else ROOT
        self.both(lambda: self.product.checkout(session.id, step), lambda _: session.checkout(step))

    def fork(
        self,
        n: int,
        place: tuple[str, int],
        side: str | None,
        mode: str | None,
        draft: str | None,
        name: str | None,
    ) -> None:
        if len(self.sessions) == MAX_SESSIONS:
            return
        source = self.pick(n)
        asked = Asked(source.id, name=name)
        if side is not None:
            asked = replace(asked, turn=self.turn(source, place), side=side)
        if side == "before" and mode is not None:
            asked = replace(asked, mode=mode, draft=draft)
        self._fork(self.product.new_id(), asked)

    def _fork(self, child: str, asked: Asked) -> None:
        is_new = self.both(
            lambda: self.product.fork(child, asked),
            lambda made: (made, self.oracle.fork(child, asked)),
        )
        assert is_new is None or is_new[0] is is_new[1]

    def forget(self, limit: int) -> None:
        self.product.forget()
        self.limit = limit

    # -- comparing

    @invariant()
    def agree(self) -> None:
        for session in self.sessions:
            if session.deleted:
                with suppress(Refused):
                    raise AssertionError(self.product.seen(session.id))
                with suppress(Refused):
                    raise AssertionError(self.product.shown(session.id, self.limit))
            else:
                self._compare(session, self.product.seen(session.id))
                for route in self.product.shown(session.id, self.limit):
                    _compare_records(session, route, self.limit)

    def _compare(self, session: Session, seen: Seen) -> None:
        remaining = [note.id for note in session.remaining()]
        assert seen.path == remaining
        assert (seen.head, seen.document) == (session.head, session.document)
        assert seen.state == session.state
        redone = session.redo[-1] if session.redo else None
        top = None if redone is None else (redone[-1] if redone else ROOT)
        assert seen.redo == (len(session.redo), top)
        left = {note.turn for note in session.remaining()}
        turns = [(turn, at) for at, turn in enumerate(session.visible_turns()) if turn in left]
        assert seen.turns in (None, turns)
        if seen.is_stored:
            assert seen.origin == session.origin
            assert seen.pending == session.pending
        assert seen.family in (None, self.oracle.family(session.id))
        assert seen.name in (None, session.name)
        assert seen.archived in (None, session.archived)
        if seen.is_stored:
            whole = session.is_whole
            assert seen.visible == (session.visible_sum() if whole else None)
            assert seen.spent == (session.spent_sum() if whole else None)


def run(histories: type[Histories], *, examples: int, steps: int, shrinks: bool = False) -> None:
    """So many histories of so many commands.

    One that fails is shown as it was found, at once; with `shrinks` the shortest is looked for
    first, which takes minutes.
    """
    run_state_machine_as_test(
        histories,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            report_multiple_bugs=False,
            phases=list(Phase) if shrinks else AS_FOUND,
            suppress_health_check=list(HealthCheck),
        ),
    )


class StoredHistories(Histories):
    """What only a store can be asked as well."""

    @rule(command=commands(CORE | STORED))
    def carry_out(self, command: Command) -> None:
        super().carry_out(command)

    def fork_again(self, n: int, other: int) -> None:
        """A retry of a fork; or another one under an id that is taken."""
        if made := list(self.oracle.forks):
            child = made[n % len(made)]
            asked = self.oracle.forks[child]
            self._fork(child, asked if other else replace(asked, name="Another"))

    def rename(self, n: int, name: str) -> None:
        session = self.pick(n)
        self.both(
            lambda: self.product.rename(session.id, name),
            lambda _: self.oracle.rename(session.id, name),
        )

    def archive(self, n: int, archived: bool) -> None:
        session = self.pick(n)
        self.both(
            lambda: self.product.archive(session.id, archived),
            lambda _: self.oracle.archive(session.id, archived),
        )

    def delete(self, n: int) -> None:
        session = self.pick(n)
        if len(self.sessions) > 2:
            self._delete(session)

    def _delete(self, session: Session) -> None:
        if session.running is None:
            self.both(
                lambda: self.product.delete(session.id),
                lambda _: self.oracle.delete(session.id),
            )

    def purge(self, n: int) -> None:
        """The newest deleted session for 0; one that lives, which is refused, seldom."""
        deleted = [session for session in self.sessions if session.deleted]
        alive = not deleted or n == MAX_SESSIONS - 1
        self._purge(self.pick(n) if alive else deleted[-1 - n % len(deleted)])

    def lose(self, n: int, up: int) -> None:
        """A session that another one comes from is deleted and purged: by chance that is seldom."""
        if above := self.oracle.family(self.pick(n).id)[0]:
            session = self.oracle.sessions[above[up % len(above)]]
            if not session.deleted:
                self._delete(session)
            self._purge(session)

    def _purge(self, session: Session) -> None:
        self.both(
            lambda: self.product.purge(session.id),
            lambda _: self.oracle.purge(session.id),
        )

    def sweep(self) -> None:
        """Nobody who lives may notice."""
        assert self.product.sweep() & self.oracle.sessions.keys() == self.oracle.sweep()


def _compare_records(session: Session, route: Route, limit: int) -> None:
    notes, holes = session.pages(limit)
    assert route.holes == holes
    assert [shown.fields["id"] for shown in route.records] == [note.id for note in notes]
    for note, shown in zip(notes, route.records, strict=True):
        for name, value in shown.fields.items():
            assert getattr(note, name) == value, (name, note, shown)
        note.bytes = note.bytes or shown.bytes
        assert shown.bytes == note.bytes, "a record is shown otherwise than before"
