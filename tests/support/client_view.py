"""What one client makes of the frames it gets, and what it may insist on while it does.

A view follows its frames as a page would: it upserts steps, follows HEAD, joins deltas. It asserts
what a client may rely on: `eventSeq` dense and rising, deltas after the last durable frame and
joining without a gap, a finished step that says what its deltas said, and for a base client no
member that the public proposal has not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from frame_schema import check
from naive_canvas import canonical

Frame = dict[str, Any]

ROOT = "step-initial"
STEP = ["id", "parentId", "messageId", "stepId", "timestamp", "role", "content", "isBegin", "isEnd"]
STEP_MAY = ["messageSource", "toolCalls", "toolResults", "usage"]
CONTENTS = ["beforeWorkflowContent", "afterWorkflowContent"]
BASE = {
    "WsServerSnapshotEvent": ["state", "steps", "headId", "workflowContent", "canRedo"],
    "WsServerStepEvent": ["step"],
    "WsServerStatusEvent": ["state"],
    "WsServerHeadChangeEvent": ["headId", "workflowContent", "canRedo"],
    "WsServerErrorEvent": ["error"],
}


def check_v1(frame: Frame) -> None:
    """The frame is as the published schema of the frames has it, and has no other member."""
    check(frame, v1=True)


def check_base(frame: Frame) -> None:
    """The frame has the members of the public proposal, and no other."""
    assert set(frame) == {"type", *BASE[frame["type"]]}, frame
    steps = frame.get("steps", [])
    for step in [*steps, frame["step"]] if "step" in frame else steps:
        assert {*STEP, *CONTENTS} <= set(step) <= {*STEP, *STEP_MAY, *CONTENTS}, set(step)


def as_base(frame: Frame) -> Frame:
    """A v1 frame without its + members; a step's contents have to be put in."""
    kept = {name: frame[name] for name in ("type", *BASE[frame["type"]])}
    if "step" in kept:
        step = kept["step"]
        kept["step"] = {name: step[name] for name in (*STEP, *STEP_MAY) if name in step}
    return kept


@dataclass
class View:
    """A client's picture of the session. `seq` is the last `eventSeq` (v1) it has seen."""

    v1: bool
    state: str = ""
    head: str = ROOT
    workflow: str | None = None  # canonical JSON; None: not told, only its hash
    can_redo: bool = False
    redo_depth: int = 0
    seq: int = -1
    name: str | None = None
    steps: dict[str, Frame] = field(default_factory=dict)
    places: set[tuple[str, int]] = field(default_factory=set)  # by which a client upserts
    texts: dict[str, str] = field(default_factory=dict)
    older: str | None = None
    durable: dict[int, str] = field(default_factory=dict)  # by eventSeq, as it came
    streamed: dict[str, dict[str, str]] = field(default_factory=dict)
    resets: int = 0
    deltas: int = 0

    def take(self, frame: Frame, text: str) -> None:
        """Follow one frame."""
        (check_v1 if self.v1 else check_base)(frame)
        kind = frame["type"]
        if kind == "WsServerSnapshotEvent":
            self._snapshot(frame)
            return
        if kind == "WsServerDeltaEvent":
            self._delta(frame)
            return
        if self.v1 and "eventSeq" in frame and kind != "WsServerAckEvent":
            assert frame["eventSeq"] == self.seq + 1, (frame, self.seq)
            self.seq += 1
            self.durable[self.seq] = text
        match kind:
            case "WsServerStatusEvent":
                self.state = frame["state"]
            case "WsServerStepEvent":
                self._step(frame["step"])
            case "WsServerHeadChangeEvent":
                self.head = frame["headId"]
                self.workflow = canonical(frame["workflowContent"])
                self.can_redo = frame["canRedo"]
                self.redo_depth = frame.get("redoDepth", 0)
            case "WsServerSessionEvent":
                self.name = frame.get("name", self.name)

    @property
    def path(self) -> list[str]:
        """The ids of the visible path, oldest first, as far back as this client was told."""
        path, at = [], self.head
        while at in self.steps:
            path.append(at)
            at = self.steps[at]["parentId"]
        return path[::-1]

    def _hold(self, step: Frame) -> None:
        # Contents are held as text, and each once: there are thousands of them.
        held = {n: canonical(v) if n in CONTENTS else v for n, v in step.items()}
        for name in CONTENTS:
            if name in held:
                held[name] = self.texts.setdefault(held[name], held[name])
        self.steps[step["id"]] = held

    def _snapshot(self, frame: Frame) -> None:
        self.resets += bool(frame.get("reset"))
        self.steps = {}
        for step in frame["steps"]:
            self._hold(step)
        self.places = {(step["messageId"], step["stepId"]) for step in frame["steps"]}
        self.state, self.head = frame["state"], frame["headId"]
        self.workflow = canonical(frame["workflowContent"])
        self.can_redo, self.redo_depth = frame["canRedo"], frame.get("redoDepth", 0)
        self.older = frame.get("stepsCursor")
        self.name = frame.get("name")
        self.streamed = {}
        if self.v1:
            self.seq = frame["eventSeq"]
            self.durable = {}
            if frame["partial"]:
                self.streamed[frame["partial"]["stepId"]] = {"": frame["partial"]["text"]}

    def _step(self, step: Frame) -> None:
        place = (step["messageId"], step["stepId"])
        assert place not in self.places, f"told twice: {step}"
        self.places.add(place)
        self._hold(step)
        self.head = step["id"]
        if step["role"] == "user":
            self.can_redo, self.redo_depth = False, 0
        self.workflow = None if self.v1 else canonical(step["afterWorkflowContent"])
        streamed = self.streamed.pop(step["id"], None)
        if streamed is not None:
            self._check_streamed(step, streamed)

    def _check_streamed(self, step: Frame, streamed: dict[str, str]) -> None:
        said = streamed.pop("", "")
        if step.get("endReason") not in (None, "complete") and not step["toolCalls"]:
            # The turn's last step took the place of one that had said nothing yet.
            assert not said.strip(), (said, step)
            return
        assert step["content"] == said, (said, step)
        calls = {call["toolCallId"]: call["input"] for call in step["toolCalls"]}
        for call_id, arguments in streamed.items():
            assert calls[call_id] == _arguments(arguments), (arguments, calls[call_id])

    def _delta(self, frame: Frame) -> None:
        assert self.v1
        self.deltas += 1
        assert frame["after"] == self.seq, (frame, self.seq)
        assert ("text" in frame) != ("toolCall" in frame)
        call = frame.get("toolCall", {"toolCallId": "", "arguments": frame.get("text")})
        parts = self.streamed.setdefault(frame["stepId"], {})
        before = parts.get(call["toolCallId"], "")
        if frame["offset"] == len(before.encode("utf-16-le")) // 2:
            parts[call["toolCallId"]] = before + call["arguments"]
        else:
            # Arguments that began before this client came: it waits for the step itself.
            assert call["toolCallId"], (frame, before)
            assert call["toolCallId"] not in parts, (frame, before)


def _arguments(text: str) -> Any:
    try:
        parsed = json.loads(text or "{}")
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"INVALID_JSON": text}
