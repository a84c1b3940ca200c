"""A naive model of a session: what its durable events mean, and which order of commands they are.

`Model.follow` takes the events one by one and asserts that each may come where it comes; after
each it keeps a whole copy of the visible path and of the redo stack. `Model.judge` takes the
commands that were sent meanwhile, from however many sockets at once, with their answers, and
asserts that some serial order of them explains both the answers and the events: whatever was
acknowledged stands in the log once and was allowed there, whatever was refused was refusable at
some instant between question and answer, and nothing in the log was asked for by nobody.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from client_view import CONTENTS, ROOT, as_base
from naive_canvas import Document, Refused, called, canonical, edited, filled
from naive_merge import Clash, Items, items, merged_items

Frame = dict[str, Any]
Path = tuple[str, ...]

SENTENCES = {  # how the sentences begin that a base client gets instead of codes
    "Cannot revert while the agent is busy": "busy",
    "Cannot redo while the agent is busy": "busy",
    "The agent is busy with another prompt": "busy",
    "The session is busy": "contended",
    "Nothing to redo": "nothing_to_redo",
    "Turn is not on the current conversation path": "not_on_path",
    "Unknown turn: ": "unknown_turn",
    "Message content is required": "content_required",
    "The session is archived": "archived",
    "The server is going down": "draining",
    "The database did not take this; nothing was saved": "database_unavailable",
    "The connection to the database broke off; nothing was saved": "database_unavailable",
    "The database cannot be reached; try again": "database_unavailable",
}
NOT_RUN = ("[ERROR] Not run.", "[ERROR] Not finished: the run ended while it ran.")


@dataclass(frozen=True)
class Moment:
    """The session after the event `seq`."""

    seq: int
    state: str
    path: Path
    redo: tuple[Path, ...]
    name: str
    turn: str | None  # that of the run
    archived: bool = False

    @property
    def head(self) -> str:
        return self.path[-1] if self.path else ROOT


@dataclass(frozen=True)
class Mark:
    """What a command left in the log: the events after `before`, up to and with `seq`."""

    before: int
    seq: int
    what: tuple[Any, ...]
    turn: str | None = None


@dataclass
class Sent:
    """A command and what became of it.

    `lo` and `hi` bound the instant at which it was carried out, as events. `answer` is an ack or
    an error, `{}` for one that was not refused and is not acknowledged by its kind of socket, and
    None where the answer never came, so that nobody knows.
    """

    kind: str
    fields: Frame
    lo: int
    hi: int | None = None
    answer: Frame | None = None

    @property
    def code(self) -> str | None:
        """The code of the refusal, or None."""
        answer = self.answer or {}
        if "error" not in answer:
            return None
        if "code" in answer:
            return str(answer["code"])
        sentence = answer["error"]
        return next(code for begins, code in SENTENCES.items() if sentence.startswith(begins))


def ack_of(answer: Frame) -> tuple[str, int, str | None]:
    """What an acknowledgement says, on the socket or over REST: HEAD, event, turn."""
    turn = answer.get("messageId", answer.get("turnId"))
    return answer["headId"], answer["eventSeq"], turn


@dataclass
class Model:
    """A session as its events tell it. `initial` is its first document."""

    initial: Document
    name: str
    max_redo: int
    processes: int = 1  # that serve the session
    outages: frozenset[str] = frozenset()  # refusals that may meet any command
    max_kept: int = 200
    moments: list[Moment] = field(default_factory=list)
    steps: dict[str, Frame] = field(default_factory=dict)  # in the order they were written
    paths: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # canonical documents after each step
    born: dict[str, int] = field(default_factory=dict)  # steps and turns
    lines: dict[str, list[str]] = field(default_factory=dict)  # what follows a step
    first: dict[str, str] = field(default_factory=dict)  # of a turn
    newest: dict[str, str] = field(default_factory=dict)  # of a branch
    hashes: dict[str, str] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)  # turn keys
    answered: dict[str, tuple[Sent, Frame]] = field(default_factory=dict)  # by requestId
    stops: set[tuple[str, tuple[str, int, str | None]]] = field(default_factory=set)
    keeping: Moment | None = None  # before a revert whose kept edits are still to be told

    def __post_init__(self) -> None:
        self.paths[ROOT] = ()
        self.texts[ROOT] = canonical(self.initial)
        self.moments.append(Moment(0, "AVAILABLE", (), (), self.name, None))

    @property
    def now(self) -> Moment:
        return self.moments[-1]

    def document(self, step_id: str) -> Document:
        """The document after a step, or the initial one; the caller's own copy."""
        document: Document = json.loads(self.texts[step_id])
        return document

    def before(self, step_id: str) -> str:
        """The canonical document before a step."""
        return self.texts[self.steps[step_id]["parentId"]]

    def children(self, step_id: str) -> list[str]:
        """The steps that follow one, in the order they were written."""
        return self.lines.get(step_id, [])

    def tip(self, step_id: str) -> str:
        """The end of the newest line through a step."""
        while following := self.children(step_id):
            step_id = following[-1]
        return step_id

    # -- the events

    def follow(self, frame: Frame, twin: Frame | None) -> None:
        """Follow a durable frame as a v1 client got it; `twin` is the same one for a base client.

        A session event has no twin.
        """
        was = self.now
        assert frame["eventSeq"] == was.seq + 1, (frame, was)
        if twin is not None:
            self._check_twin(frame, twin)
        match frame["type"]:
            case "WsServerStatusEvent":
                self._status(frame["state"], was)
            case "WsServerStepEvent":
                assert twin is not None
                self._step(frame["step"], twin["step"], was)
            case "WsServerHeadChangeEvent":
                self._head(frame, was)
            case "WsServerSessionEvent":
                archived = frame.get("archived", was.archived)
                self._moment(was, name=frame.get("name", was.name), archived=archived)
            case other:
                raise AssertionError(other)

    def _moment(self, was: Moment, **changes: Any) -> None:
        self.moments.append(Moment(**{**was.__dict__, "seq": was.seq + 1, **changes}))

    def _check_twin(self, frame: Frame, twin: Frame) -> None:
        mine = as_base(frame)
        if "step" in mine:
            mine["step"] |= {name: twin["step"][name] for name in CONTENTS}
        assert mine == twin, (mine, twin)

    def _status(self, state: str, was: Moment) -> None:
        allowed = {
            "AVAILABLE": ["GENERATING"],
            "GENERATING": ["STOPPING", "AVAILABLE"],
            "STOPPING": ["AVAILABLE"],
        }
        assert state in allowed[was.state], (state, was)
        if state == "AVAILABLE":
            assert was.turn is None, "AVAILABLE before the turn's last step"
        if state == "STOPPING":
            assert was.turn is not None
            self.marks.append(Mark(was.seq, was.seq + 1, ("stop",)))
        self._moment(was, state=state)

    def _step(self, step: Frame, full: Frame, was: Moment) -> None:
        step_id, turn = step["id"], step["messageId"]
        user = step["role"] == "user"
        assert step_id not in self.steps
        assert step["parentId"] == was.head, (step, was)
        before, after = (canonical(full[name]) for name in CONTENTS)
        assert before == self.texts[was.head]
        for hash_, text in ((step["beforeHash"], before), (step["afterHash"], after)):
            assert self.hashes.setdefault(hash_, text) == text
        assert (before == after) is (step["beforeHash"] == step["afterHash"])
        assert step["isBegin"] is (step["stepId"] < 2)
        assert step["isEnd"] is (user or step["endReason"] is not None)
        assert step["effects"] == []
        self._check_branch(step)
        if user:
            self._check_first(step, was)
            self.first[turn] = step_id
            self.born[turn] = was.seq + 1
        else:
            assert was.state in ("GENERATING", "STOPPING")
            assert turn == was.turn, (step, was)
            assert step["stepId"] == self.steps[was.head]["stepId"] + 1
            assert (step["by"], step["kind"]) == ("agent", "prompt")
            self._check_calls(step, before, after)
        self.steps[step_id] = step
        self.lines.setdefault(step["parentId"], []).append(step_id)
        self.born[step_id] = was.seq + 1
        self.texts[step_id] = after
        self.paths[step_id] = path = (*was.path, step_id)
        running = None if step["endReason"] is not None else turn
        self._moment(was, path=path, redo=() if user else was.redo, turn=running)
        if user and step["kind"] == "prompt":
            what = ("prompt", step["content"], step.get("messageSource"))
            self.marks.append(Mark(was.seq - 1, was.seq + 1, what, turn))

    def _check_first(self, step: Frame, was: Moment) -> None:
        assert step["messageId"] not in self.first
        assert (step["stepId"], was.turn, step["by"]) == (0, None, "local")
        if step["kind"] == "prompt":
            assert was.state == "GENERATING", "a prompt's step comes after GENERATING"
            assert step["beforeHash"] == step["afterHash"]
        else:
            assert (was.state, step["endReason"]) == ("AVAILABLE", "complete")
            assert step["content"].startswith("Kept from a revert: ") is bool(self.keeping)

    def _check_branch(self, step: Frame) -> None:
        parent = self.steps.get(step["parentId"])
        extends = parent is not None and self.newest[parent["branchId"]] == parent["id"]
        if extends:
            assert parent is not None
            assert step["branchId"] == parent["branchId"], (step, parent)
        else:
            assert step["branchId"] not in self.newest, step
        self.newest[step["branchId"]] = step["id"]

    def _check_calls(self, step: Frame, before: str, after: str) -> None:
        start = document = json.loads(before)
        calls, results = step["toolCalls"], step["toolResults"]
        assert [c["toolCallId"] for c in calls] == [r["toolCallId"] for r in results]
        assert len({c["toolCallId"] for c in calls}) == len(calls)
        assert not (calls and step["endReason"]), step
        for call, result in zip(calls, results, strict=True):
            output = result["output"]
            if call["toolName"] == "getWorkflow" and not result["isError"]:
                document = filled(document, json.loads(output), start)
            try:
                made, told = called(document, call["toolName"], call["input"])
            except Refused:
                assert result["isError"], (call, result)
            else:
                if not output.startswith(NOT_RUN):
                    assert (result["isError"], output) == (False, told), (call, result)
                    document = made
            assert output.startswith("[ERROR] ") is result["isError"]
        assert canonical(filled(document, json.loads(after), start)) == after, step

    def _head(self, frame: Frame, was: Moment) -> None:
        to, cause, depth = frame["headId"], frame["cause"], frame["redoDepth"]
        path, redo = self.paths[to], was.redo
        assert was.state == "AVAILABLE"
        match cause:
            case "revert":
                assert len(path) < len(was.path), "a revert that goes nowhere"
                assert was.path[: len(path)] == path
                if depth > 0:
                    redo = (*redo, was.path)[-self.max_redo :]
                else:  # one that keeps edits: their step comes next, of the same commit
                    assert self.keeping is None
                    redo, self.keeping = (), was
            case "redo":
                count = len(redo) - depth
                assert count in (1, len(redo)), (frame, was)
                assert path == redo[-count]
                redo = redo[:-count]
            case "checkout":
                redo = ()
            case "edit":
                assert path == was.path
                assert self.steps[to]["kind"] == "edit"
                assert self.born[to] == was.seq
        assert (depth, frame["canRedo"]) == (len(redo), bool(redo)), (frame, was)
        assert (frame["by"], frame["effectsOutOfStep"]) == ("local", [])
        assert canonical(frame["workflowContent"]) == self.texts[to]
        self._moment(was, path=path, redo=redo)
        if cause == "edit":
            turn = self.steps[to]["messageId"]
            mark = Mark(was.seq - 1, was.seq + 1, ("edit", to), turn)
            if self.keeping is not None:
                mark = Mark(self.keeping.seq, was.seq + 1, ("keep", to), turn)
                assert items(self.document(to)) == self.kept(self.keeping, len(path) - 1)[0]
                self.keeping = None
            self.marks.append(mark)
        elif self.keeping is None:
            self.marks.append(Mark(was.seq, was.seq + 1, (cause, to, depth)))

    # -- the commands

    def judge(self, commands: list[Sent], since: int) -> None:
        """Assert that a serial order of `commands` explains their answers and the log since then.

        Every event after `since` and every command sent after it must have been handed in.
        """
        last = self.now.seq
        assert self.keeping is None, "half of a commit"
        free = {mark.seq: mark for mark in self.marks if mark.seq > since}
        # A request that was sent before may be what was carried out, its answer lost.
        begun: dict[str, int] = {}
        for sent in commands:
            if sent.kind != "Stop" and (request_id := sent.fields.get("requestId")) is not None:
                sent.lo = begun[request_id] = min(sent.lo, begun.get(request_id, sent.lo))
        for sent in commands:
            sent.hi = last if sent.hi is None else sent.hi
            assert sent.lo <= sent.hi <= last, sent
            if sent.code is not None:
                self._check_refused(sent)
            elif sent.answer:
                self._claim_acknowledged(sent, sent.answer, free)
        self._claim_the_rest([s for s in commands if s.code is None and not s.answer], free)
        unexplained = [mark for mark in free.values() if mark.what != ("stop",)]
        assert not unexplained, f"{unexplained}: nobody asked for this; commands: {commands}"
        for mark in free.values():
            stops = [s for s in commands if s.kind == "Stop" and s.code is None]
            assert any(s.lo <= mark.seq for s in stops), f"{mark}: nobody asked to stop"

    def _claim_acknowledged(self, sent: Sent, ack: Frame, free: dict[int, Mark]) -> None:
        request_id, acked = sent.fields.get("requestId"), ack_of(ack)
        if sent.kind == "Stop":
            # One that found nothing to stop is not remembered: asked again it may find something.
            if request_id is not None and (request_id, acked) in self.stops:
                return
            self.stops.add((request_id or "", acked))
        elif request_id in self.answered:
            first, answer = self.answered[request_id]
            assert first.fields == sent.fields
            assert ack_of(answer) == acked, (sent, answer, ack)
            return
        head, seq, turn = acked
        assert sent.lo <= seq <= (sent.hi or 0), sent
        assert head == self.moments[seq].head, (ack, self.moments[seq])
        mark = free.get(seq)
        if mark is not None and turn == mark.turn and self._fits(sent, mark):
            self._take(sent, mark, free)
            if request_id is not None and sent.kind != "Stop":
                self.answered[request_id] = (sent, ack)
        else:
            assert self._did_nothing(sent, self.moments[seq], turn), (sent, free)

    def _claim_the_rest(self, rest: list[Sent], free: dict[int, Mark]) -> None:
        """Match commands that were carried out, or may have been, with the marks that are left.

        A command gives way to one that has no other mark (Kuhn's matching); those that may have
        done nothing come last.
        """
        claims: dict[int, Sent] = {}
        fitting = {
            id(sent): [mark for mark in free.values() if self._fits(sent, mark)] for sent in rest
        }

        def place(sent: Sent, tried: set[int]) -> bool:
            for mark in fitting[id(sent)]:
                if mark.seq in tried:
                    continue
                tried.add(mark.seq)
                if mark.seq not in claims or place(claims[mark.seq], tried):
                    claims[mark.seq] = sent
                    return True
            return False

        def idle(sent: Sent) -> int:
            return 2 if sent.answer is None else int(self._may_do_nothing(sent))

        for sent in sorted(rest, key=idle):
            placed = place(sent, set())
            assert placed or idle(sent), f"{sent} has left nothing in the log"
        for seq, sent in claims.items():
            self._take(sent, free[seq], free)

    def _take(self, sent: Sent, mark: Mark, free: dict[int, Mark]) -> None:
        del free[mark.seq]
        key = sent.fields.get("turnKey")
        if key is not None and sent.kind == "Prompt" and mark.turn is not None:
            assert key not in self.keys, f"two turns of one key: {sent}"
            self.keys[key] = mark.turn

    def _fits(self, sent: Sent, mark: Mark) -> bool:
        """Whether the command may have left this mark, being carried out at its place."""
        if not sent.lo <= mark.before or mark.seq > (sent.hi or 0):
            return False
        at = self.moments[mark.before]
        if self._refusals(sent, at)[0]:
            return False
        fields = sent.fields
        match sent.kind, mark.what:
            case "Prompt", ("prompt", content, source):
                return bool(
                    (content, source) == (fields["content"], fields.get("messageSource"))
                    and fields.get("turnKey") not in self.keys
                )
            case "Stop", ("stop",):
                return True
            case "Revert", ("revert", to, _):
                return bool(to == self._reverted(fields)) and not self._keeps(fields, at)
            case "Revert", ("keep", step_id):
                to = self.steps[step_id]["parentId"]
                return bool(to == self._reverted(fields)) and self._keeps(fields, at)
            case "Redo", ("redo", to, depth):
                count = len(at.redo) if fields.get("all") else 1
                return bool((to, depth) == (at.redo[-count][-1], len(at.redo) - count))
            case "Checkout", ("checkout", to, _):
                return bool(to == fields["stepId"])
            case "EditWorkflow", ("edit", step_id):
                return self._edit_fits(fields, at, step_id)
        return False

    def _reverted(self, fields: Frame) -> str:
        step_id = fields.get("stepId") or self.first[fields["messageId"]]
        return str(self.steps[step_id]["parentId"])

    def _keeps(self, fields: Frame, at: Moment) -> bool:
        """Whether a revert is to keep edits that change something where HEAD goes."""
        if not fields.get("keepEdits"):
            return False
        to = self._reverted(fields)
        return self.kept(at, len(self.paths[to]))[0] != items(self.document(to))

    def runs(self, path: Path) -> list[tuple[str, str]]:
        """The documents before and after each run of edits with nothing changed in between."""
        found: list[tuple[str, str]] = []
        for step_id in path:
            if self.steps[step_id]["kind"] == "edit":
                before, after = self.before(step_id), self.texts[step_id]
                if found and found[-1][1] == before:
                    before = found.pop()[0]
                found.append((before, after))
        return found

    def kept(self, at: Moment, length: int) -> tuple[Items, bool]:
        """What the edits that a revert to a path so long takes back come to when they are kept.

        And whether each was made on just what it is made on again. Raises `Clash`.
        """
        text: str | None = self.texts[at.path[length - 1] if length else ROOT]
        found = items(json.loads(text or ""))
        for before, after in self.runs(at.path[length:]):
            text = after if text in (before, after) else None
            mine, base = items(json.loads(after)), items(json.loads(before))
            found = merged_items(base, mine, found)
        return found, text is not None

    def _edit_fits(self, fields: Frame, at: Moment, step_id: str) -> bool:
        before, after = self.document(at.head), self.document(step_id)
        try:
            expected = edited(before, fields["edits"])
            return canonical(filled(expected, after, before)) == self.texts[step_id]
        except (Refused, LookupError):
            return False

    def _did_nothing(self, sent: Sent, at: Moment, turn: str | None) -> bool:
        """Whether an acknowledged command may have changed nothing, at this moment."""
        if sent.kind == "Prompt":
            known = self.keys.get(sent.fields.get("turnKey", ""))
            return known is not None and turn == known and self.born[known] <= at.seq
        if self._refusals(sent, at)[0]:
            return False
        if sent.kind == "Stop":
            return at.state != "GENERATING"
        if sent.kind == "EditWorkflow":
            document = self.document(at.head)
            return canonical(edited(document, sent.fields["edits"])) == canonical(document)
        return False

    def _may_do_nothing(self, sent: Sent) -> bool:
        return any(
            self._did_nothing(sent, moment, self.keys.get(sent.fields.get("turnKey", "")))
            for moment in self.moments[sent.lo : (sent.hi or 0) + 1]
        )

    def _check_refused(self, sent: Sent) -> None:
        moments = self.moments[sent.lo : (sent.hi or 0) + 1]
        if sent.code == "contended":
            # Decided three times: the first on what was written before, the others on what was
            # written meanwhile, by somebody who is not of this process.
            assert self.processes > 1, sent
            assert len(moments) > 2, (sent, moments)
            return
        found = [set().union(*self._refusals(sent, moment)) for moment in moments]
        assert any(sent.code in codes for codes in found), (sent, found)

    def _refusals(self, sent: Sent, at: Moment) -> tuple[set[str], set[str]]:
        """The codes of the refusals that must and that may meet a command at this moment."""
        fields, must, may = sent.fields, set[str](), set[str]()
        if fields.get("expectedHeadId", at.head) != at.head:
            must.add("head_moved")
        if sent.kind != "Stop" and at.state != "AVAILABLE":
            must.add("busy")
        if sent.kind != "Stop" and at.archived:
            must.add("archived")
        may |= self.outages
        if sent.kind == "Revert":
            self._revert_refusals(fields, at, must, may)
        match sent.kind:
            case "Prompt" if not fields["content"].strip():
                must.add("content_required")
            case "Redo" if not at.redo:
                must.add("nothing_to_redo")
            case "Checkout" if fields["stepId"] != ROOT:
                must |= self._off(fields["stepId"], "unknown_step", at) & {"unknown_step"}
            case "EditWorkflow":
                self._edit_refusals(fields, at, must, may)
        return must, may

    def _revert_refusals(self, fields: Frame, at: Moment, must: set[str], may: set[str]) -> None:
        if "stepId" in fields:
            off = self._off(fields["stepId"], "unknown_step", at)
        else:
            off = self._off(fields["messageId"], "unknown_turn", at)
        must |= off
        if off or not fields.get("keepEdits"):
            return
        length = len(self.paths[self._reverted(fields)])
        if len(self.runs(at.path[length:])) > self.max_kept:
            must.add("too_large")
            return
        try:
            if not self.kept(at, length)[1]:
                may.add("edit_conflict")
        except Clash:
            must.add("edit_conflict")

    def _off(self, name: str, code: str, at: Moment) -> set[str]:
        if name == ROOT or self.born.get(name, at.seq + 1) > at.seq:
            return {code}
        if code == "unknown_turn" and name not in self.first:
            return {code}
        if code == "unknown_step" and name not in self.steps:
            return {code}
        return set() if self.first.get(name, name) in at.path else {"not_on_path"}

    def _edit_refusals(self, fields: Frame, at: Moment, must: set[str], may: set[str]) -> None:
        base = fields["baseHeadId"]
        if base != ROOT and (base not in self.steps or self.born[base] > at.seq):
            must.add("unknown_step")
            return
        if self.texts[base] != self.texts[at.head]:
            may.add("edit_conflict")
        try:
            edited(self.document(at.head), fields["edits"])
        except Refused:
            must.add("invalid_edit")
