"""A store that copies on fork: what sessions and their forks must look like.

Each session has everything in lists of its own. A fork copies the steps it begins with, one by one,
and from then on nobody knows that they were ever another's. There are no branches, no segments, no
positions and nothing shared, so that it can be seen to be right. Where a product differs from it,
the product is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Literal

ROOT = "step-initial"
SUFFIX = " (branch)"


class Refused(Exception):
    """A command that must be refused, with this code; it changes nothing."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Note:
    """One step, as one session has it.

    `document` is the workflow after it, `before` the one before it. `end` is set on the last step
    of its turn. `bytes` is how its record was first shown, which is how it must be shown everywhere
    and for ever; once it is `purged`, that it was is all that is shown.
    """

    id: str
    turn: str
    kind: str
    role: str
    parent: str
    seq: int
    index: int
    text: str
    document: str
    before: str
    writer: str
    by: str
    end: str | None = None
    calls: int = 0
    tokens: int = 0
    bytes: bytes = b""
    purged: bool = False


@dataclass
class Asked:
    """A fork as it was asked for."""

    source: str
    turn: str | None = None
    side: str | None = None
    mode: str | None = None
    draft: str | None = None
    name: str | None = None


Kind = Literal["plain", "confirm", "keep"]


@dataclass(frozen=True)
class How:
    """Who reverts, and whether people's edits go unasked, go confirmed, or are made again.

    `turn` and `step` are those of the edit that is made again, where there is one.
    """

    by: str
    kind: Kind = "plain"
    turn: str | None = None
    step: str = ""


@dataclass(frozen=True)
class Origin:
    """Where a fork comes from: what it says of that for ever."""

    parent: str
    turn: str | None
    side: str | None
    inherited: int
    depth: int


@dataclass(frozen=True)
class Sum:
    """What steps come to."""

    turns: int
    steps: int
    model_calls: int
    tool_calls: int
    tokens: int


@dataclass
class Session:
    """One session. `notes` are all steps that it knows, its own and those it was born with.

    `path` are the visible ones, `paths` the way to each, `redo` the paths that redo goes back to.
    `pending` is what a fork was made for: mode, draft, and the key of the turn that it becomes;
    `quotes` the session that wrote that draft, where it is a prompt word for word.
    """

    id: str
    name: str
    initial: str
    max_redo: int
    notes: dict[str, Note] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    paths: dict[str, list[str]] = field(default_factory=lambda: {ROOT: []})
    redo: list[list[str]] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    running: str | None = None
    stopping: bool = False
    archived: bool = False
    deleted: bool = False
    swept: bool = False
    origin: Origin | None = None
    pending: tuple[str, str, str] | None = None
    quotes: str | None = None

    # -- what is seen

    @property
    def head(self) -> str:
        return self.path[-1] if self.path else ROOT

    @property
    def document(self) -> str:
        return self.notes[self.head].document if self.path else self.initial

    @property
    def state(self) -> str:
        if self.running is None:
            return "AVAILABLE"
        return "STOPPING" if self.stopping else "GENERATING"

    def transcript(self) -> list[Note]:
        """The steps that a reader sees, oldest first, and those that were purged among them."""
        return [self.notes[id_] for id_ in self.path]

    def pages(self, limit: int) -> tuple[list[Note], list[tuple[int, int]]]:
        """The transcript in pages: what they show, and between which places they say it was purged.

        A page that meets what was purged shows nothing; the next begins after that.
        """
        notes, shown, holes = self.transcript(), list[Note](), list[tuple[int, int]]()
        at = 0
        while at < len(notes):
            until = min(at + limit, len(notes))
            lost = [n for n in range(at, until) if notes[n].purged]
            if lost:
                until = lost[0]
                while until < len(notes) and notes[until].purged:
                    until += 1
                holes.append((lost[0], until))
            else:
                shown += notes[at:until]
            at = until
        return shown, holes

    def remaining(self) -> list[Note]:
        """The visible steps from HEAD back to the first that was purged, oldest first."""
        notes = self.transcript()
        lost = [at for at, note in enumerate(notes, 1) if note.purged]
        return notes[lost[-1] if lost else 0 :]

    @property
    def is_whole(self) -> bool:
        """Whether nothing that is visible was purged."""
        return not any(note.purged for note in self.transcript())

    def visible_turns(self) -> list[str]:
        """The turns that a reader sees, oldest first, a turn that is cut short among them."""
        return list(dict.fromkeys(note.turn for note in self.transcript()))

    def visible_sum(self) -> Sum:
        return _sum(self.transcript())

    def spent_sum(self) -> Sum:
        """What this session has written itself, whether it is seen or not."""
        return _sum(note for note in self.notes.values() if note.writer == self.id)

    # -- commands

    def prompt(self, turn: str, step: str, text: str, key: str | None, by: str) -> None:
        self._open()
        self._idle()
        self.redo = []
        self._add(turn, step, "prompt", "user", text, self.document, None, by)
        self.running = turn
        if key is not None:
            self.keys[key] = turn

    def answer(
        self,
        step: str,
        text: str,
        document: str,
        end: str | None = None,
        calls: int = 0,
        tokens: int = 0,
    ) -> None:
        turn = self.running
        assert turn is not None, "nobody answers"
        self._add(turn, step, "prompt", "agent", text, document, end, self.notes[self.head].by)
        self.notes[step].calls, self.notes[step].tokens = calls, tokens
        if end is not None:
            self.running, self.stopping = None, False
        if end == "complete":
            self.pending = None

    def stop(self) -> None:
        self.stopping = self.running is not None

    def edit(self, turn: str | None, step: str, document: str, by: str) -> None:
        """A document put in place of the one at HEAD; nothing where it is the same."""
        self._open()
        self._idle()
        if document != self.document:
            assert turn is not None
            self.redo = []
            self._add(turn, step, "edit", "user", "", document, "complete", by)

    def revert_turn(self, turn: str, how: How) -> None:
        self._open()
        self._idle()
        self._cut(self.path.index(self._first(turn)), how)

    def revert_step(self, step: str, how: How) -> None:
        self._open()
        self._idle()
        self._known(step)
        if step not in self.path:
            raise Refused("not_on_path")
        self._cut(self.path.index(step), how)

    def redo_once(self) -> None:
        self._redoable()
        self._reached(self.redo[-1])
        self.path = self.redo.pop()

    def redo_all(self) -> None:
        self._redoable()
        self._reached(self.redo[0])
        self.path, self.redo = self.redo[0], []

    def checkout(self, step: str) -> None:
        self._open()
        self._idle()
        if step != ROOT:
            self._known(step)
        self.path, self.redo = list(self.paths[step]), []

    # -- parts of commands

    def _open(self) -> None:
        if self.deleted:
            raise Refused("session_not_found")
        if self.archived:
            raise Refused("archived")

    def _idle(self) -> None:
        if self.running is not None:
            raise Refused("busy")

    def _redoable(self) -> None:
        self._open()
        self._idle()
        if not self.redo:
            raise Refused("nothing_to_redo")

    def _known(self, step: str) -> None:
        if step not in self.notes:
            raise Refused("unknown_step")
        self._reached([step])

    def _reached(self, path: list[str]) -> None:
        """Refuse to go to the end of a path that was purged."""
        if path and self.notes[path[-1]].purged:
            raise Refused("history_purged")

    def _first(self, turn: str) -> str:
        """The first step of a turn that is seen."""
        known = [note.id for note in self.notes.values() if note.turn == turn]
        if not known:
            raise Refused("unknown_turn")
        self._reached(known[:1])
        if known[0] not in self.path:
            raise Refused("not_on_path")
        return known[0]

    def _cut(self, at: int, how: How) -> None:
        """HEAD to before a place of the path, as a revert by this person and of this kind."""
        self._reached(self.path[:at])
        back = [self.notes[id_] for id_ in self.path[at:]]
        edits = [note for note in back if note.kind == "edit"]
        if how.kind != "confirm" and any(note.purged for note in back):
            raise Refused("history_purged")  # nobody knows whose edits there were
        document = back[0].before
        if how.kind == "keep":
            kept = _made_again(edits, document)
            if kept != document:
                assert how.turn is not None
                self.path, self.redo = self.path[:at], []
                self._add(how.turn, how.step, "edit", "user", "", kept, "complete", how.by)
                return
        elif how.kind == "plain" and any(note.by != how.by for note in edits):
            raise Refused("confirmation_required")
        self.redo = [*self.redo, self.path][-self.max_redo :]
        self.path = self.path[:at]

    def _add(
        self,
        turn: str,
        step: str,
        kind: str,
        role: str,
        text: str,
        document: str,
        end: str | None,
        by: str,
    ) -> None:
        before = self.notes.get(self.head)
        index = before.index + 1 if before is not None and role == "agent" else 0
        self.notes[step] = Note(
            id=step,
            turn=turn,
            kind=kind,
            role=role,
            parent=self.head,
            seq=len(self.path) + 1,
            index=index,
            text=text,
            document=document,
            before=self.document,
            writer=self.id,
            by=by,
            end=end,
        )
        self.path = [*self.path, step]
        self.paths[step] = self.path


class Oracle:
    """All sessions, in the order they were made; and of each fork how it was asked for."""

    def __init__(self, *, max_depth: int, max_redo: int) -> None:
        self.sessions: dict[str, Session] = {}
        self.forks: dict[str, Asked] = {}
        self.max_depth = max_depth
        self.max_redo = max_redo

    def create(self, id_: str, name: str, initial: str) -> None:
        self.sessions[id_] = Session(id_, name, initial, self.max_redo)

    def fork(self, id_: str, asked: Asked) -> bool:
        """Copy a session up to a boundary; whether this is new, and no retry."""
        source = self.sessions[asked.source]
        if id_ in self.sessions:
            made = self.sessions[id_]
            if made.swept and source.deleted:
                raise Refused("session_not_found")  # nothing is left that says whose it was
            if self.forks.get(id_) != asked or made.archived or made.deleted:
                raise Refused("lineage_conflict")
            return False
        if source.deleted:
            raise Refused("session_not_found")
        depth = 1 + (source.origin.depth if source.origin else 0)
        if depth > self.max_depth:
            raise Refused("depth_limit")
        path = self._inherited(source, asked)
        child = Session(id_, asked.name or _named_after(source.name), source.initial, self.max_redo)
        for step in path:
            child.notes[step] = deepcopy(source.notes[step])
            child.path = [*child.path, step]
            child.paths[step] = child.path
        inherited = len(child.visible_turns())
        child.origin = Origin(source.id, asked.turn, asked.side, inherited, depth)
        if asked.mode is not None:
            assert asked.turn is not None
            said = next(n for n in source.transcript() if n.turn == asked.turn)
            child.pending = (asked.mode, said.text if asked.draft is None else asked.draft, id_)
            child.quotes = said.writer if asked.draft is None else None
        self.sessions[id_] = child
        self.forks[id_] = replace(asked)
        return True

    def _inherited(self, source: Session, asked: Asked) -> list[str]:
        """The ids of the steps that a fork begins with."""
        if asked.turn is None:
            source._reached(source.path)
            if source.path and source.notes[source.head].end is None:
                raise Refused("turn_incomplete")
            return source.path
        seen = [at for at, note in enumerate(source.transcript()) if note.turn == asked.turn]
        if not seen:
            raise Refused("not_on_path")
        at = seen[0]
        source._reached(source.path[: at + 1])
        if asked.side == "before":
            source._reached(source.path[:at])
        if asked.side == "after":
            rest = source.path[at:]
            ends = [i for i, step in enumerate(rest) if self._ends(source, step, asked.turn)]
            if not ends:
                raise Refused("turn_incomplete")
            return source.path[: at + ends[0] + 1]
        if asked.mode is not None and source.notes[source.path[at]].kind == "edit":
            raise Refused("bad_input")
        return source.path[:at]

    @staticmethod
    def _ends(source: Session, step: str, turn: str) -> bool:
        note = source.notes[step]
        return note.turn == turn and note.end is not None

    def family(self, id_: str) -> tuple[list[str], list[str]]:
        """The sessions above one, from its parent on; and its living forks, newest first."""
        above: list[str] = []
        origin = self.sessions[id_].origin
        while origin is not None:
            above.append(origin.parent)
            origin = self.sessions[origin.parent].origin
        below = [
            other.id
            for other in self.sessions.values()
            if other.origin is not None and other.origin.parent == id_ and not other.deleted
        ]
        return above, below[::-1]

    def rename(self, id_: str, name: str) -> None:
        self._alive(id_).name = name

    def archive(self, id_: str, archived: bool) -> None:
        session = self._alive(id_)
        if archived and not session.archived and session.running is not None:
            raise Refused("busy")
        session.archived = archived

    def delete(self, id_: str) -> None:
        self._alive(id_).deleted = True

    def purge(self, id_: str) -> None:
        """All that a deleted session has written goes, wherever it was copied to."""
        session = self.sessions[id_]
        if session.swept:
            raise Refused("session_not_found")
        if not session.deleted:
            raise Refused("not_deleted")
        for other in self.sessions.values():
            for note in other.notes.values():
                note.purged |= note.writer == id_
            if other.quotes == id_:
                other.pending = None

    def sweep(self) -> set[str]:
        """The deleted sessions that nothing living comes from go for good; which those are."""
        needed: set[str] = set()
        for session in self.sessions.values():
            if not session.deleted:
                needed |= {session.id, *self.family(session.id)[0]}
        gone = {s.id for s in self.sessions.values() if not s.swept} - needed
        for id_ in gone:
            self.sessions[id_].swept = True
        return gone

    def _alive(self, id_: str) -> Session:
        if self.sessions[id_].deleted:
            raise Refused("session_not_found")
        return self.sessions[id_]


def _made_again(edits: list[Note], document: str) -> str:
    """A workflow with edits made again. Each has put one document in place of another."""
    runs: list[tuple[str, str]] = []
    for edit in edits:
        begun = runs.pop()[0] if runs and runs[-1][1] == edit.before else edit.before
        runs.append((begun, edit.document))
    for before, after in runs:
        if document not in (before, after) and before != after:
            raise Refused("edit_conflict")
        document = document if before == after else after
    return document


def _named_after(name: str) -> str:
    return name if name.endswith(SUFFIX) else name[: 200 - len(SUFFIX)] + SUFFIX


def _sum(notes: Iterable[Note]) -> Sum:
    found = list(notes)
    answers = [note for note in found if note.role == "agent"]
    return Sum(
        turns=len({note.turn for note in found}),
        steps=len(found),
        model_calls=sum(note.end in (None, "complete") for note in answers),
        tool_calls=sum(note.calls for note in answers),
        tokens=sum(note.tokens for note in answers),
    )
