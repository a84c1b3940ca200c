"""A step as REST has it, written once: its bytes are kept while they are read often.

A record never changes, so neither do its bytes. That it is still there, and that the caller may
read it, is asked of the database before any are given out (lineage.md 5).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, Literal

import asyncpg
import orjson
from pydantic import BaseModel

from turnback.api.rest.answer import snake, snake_name
from turnback.core.errors import HistoryMissing
from turnback.core.lineage import ROOT_ID
from turnback.core.principal import Principal
from turnback.store.folding import unfold
from turnback.store.rows import SessionKey
from turnback.store.transcripts import Page, Place, Transcripts

Start = tuple[str, int, int]
"""Where a page begins, in which family, and how many records it may have."""

SAID = ("messageSource", "attachments", "world", "toolCalls", "toolResults", "usage")
"""The members of a payload that are shown after its content, where it has them."""


class ToolCallBody(BaseModel):
    """A tool call as the model made it; `input` is left as the tool was given it."""

    tool_name: str
    tool_call_id: str
    input: dict[str, Any]


class ToolResultBody(BaseModel):
    """What a tool call led to."""

    tool_call_id: str
    output: str
    is_error: bool


class UsageBody(BaseModel):
    """Tokens of one model call, as its provider counted them."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class AttachedBody(BaseModel):
    """A file that a prompt is about, as it was then."""

    id: str
    name: str
    type: str
    size: int


class WorldBody(BaseModel):
    """An effect that stood otherwise than the conversation had it when the message was sent."""

    effect_id: str
    standing: Literal["in_force", "reverted", "compensated", "cancelled", "in_doubt", "partly"]
    tool: str
    things: list[str]
    people: int
    at: int


class RecordBody(BaseModel):
    """A step. `seq` is its place in the transcript from 1, `record_index` that in its turn."""

    session_id: str
    turn_id: str
    record_index: int
    seq: int
    id: str
    parent_id: str
    timestamp: int
    role: Literal["user", "agent"]
    content: str
    is_begin: bool
    is_end: bool
    message_source: Literal["chat", "feedback"] | None = None
    attachments: list[AttachedBody] | None = None
    world: list[WorldBody] | None = None
    tool_calls: list[ToolCallBody] | None = None
    tool_results: list[ToolResultBody] | None = None
    usage: UsageBody | None = None
    branch_id: str
    kind: Literal["prompt", "edit"]
    end_reason: Literal["complete", "stopped", "failed", "limit", "interrupted"] | None
    effects: list[str]
    before_hash: str
    after_hash: str
    by: str


class Records:
    """The bytes of records by step id: the last used, within `max_bytes`."""

    def __init__(self, transcripts: Transcripts, *, max_bytes: int) -> None:
        self._transcripts = transcripts
        self._max_bytes = max_bytes
        self._size = 0
        self._held: OrderedDict[Hashable, bytes] = OrderedDict()
        self._ends: dict[Start, Place] = {}  # of the newest page held of each start

    async def written(
        self, principal: Principal, key: SessionKey, ids: Sequence[str]
    ) -> list[bytes]:
        """These steps as JSON, in this order. The caller has found the ids to be readable.

        Raises `HistoryMissing` where one of them is not there.
        """
        found = {id_: self._held[id_] for id_ in ids if id_ in self._held}
        if missing := [id_ for id_ in ids if id_ not in found]:
            for row in await self._transcripts.records(principal, key, missing):
                found[row["id"]] = _written(row)
        for id_ in ids:
            if id_ not in found:
                raise HistoryMissing(
                    "A record of this session is missing from the database; nothing is shown "
                    "rather than a part",
                    step=id_,
                )
            self._hold(id_, found[id_])
        return [found[id_] for id_ in ids]

    async def page(
        self,
        principal: Principal,
        key: SessionKey,
        *,
        head: Place | None,
        after: int,
        limit: int,
    ) -> tuple[Page, bytes]:
        """A page of a transcript, and its records as JSON, joined by commas; none if it was purged.

        One that ends below its HEAD never changes: it is held as it is, and given out once the
        database has said that the caller's page is this one, whole, and none of it purged. Raises
        as `Transcripts.page` and `written`.
        """
        start = (key.root_id, after, limit)
        end = self._ends.get(start)
        held = None if end is None else self._held.get((start, end))
        page = await self._transcripts.page(
            principal, key, head=head, after=after, limit=limit, held=end
        )
        if page.ids is None:
            assert held is not None, "pages are dropped with their ends"
            self._hold((start, end), held)
            return page, held
        written = b",".join(await self.written(principal, key, page.ids))
        if page.until < page.head.seq and page.purged is None:
            self._ends[start] = end = Place(page.head.branch_id, page.until)
            self._hold((start, end), written)
        return page, written

    def _hold(self, name: Hashable, written: bytes) -> None:
        if name in self._held:
            self._held.move_to_end(name)
            return
        self._held[name] = written
        self._size += len(written)
        while self._size > self._max_bytes:
            name, dropped = self._held.popitem(last=False)
            self._size -= len(dropped)
            if isinstance(name, tuple) and self._ends.get(name[0]) == name[1]:
                del self._ends[name[0]]


def _written(row: asyncpg.Record) -> bytes:
    """A row of `transcripts.RECORDS` as JSON.

    What is made of ids, numbers and words of our own needs no encoder: a first reading is a
    thousand of these, and this halves what each takes.
    """
    (id_, branch_id, seq, session_id, turn_id, index, role, parent_id) = row[:8]
    (before_hash, after_hash, end_reason, principal, created_at, text, folded) = row[8:]
    payload = orjson.loads(unfold(text, folded))
    timestamp = round(created_at.timestamp() * 1000)
    kind = "edit" if "edits" in payload else "prompt"
    effects = orjson.dumps(payload["effects"]).decode() if "effects" in payload else "[]"
    ours = (
        f'{{"session_id":"{session_id}","turn_id":"{turn_id}","record_index":{index},"seq":{seq},'
        f'"id":"{id_}","parent_id":"{parent_id or ROOT_ID}","timestamp":{timestamp},'
        f'"role":"{role}","branch_id":"{branch_id}","kind":"{kind}","effects":{effects},'
        f'"before_hash":"{before_hash.hex()}","after_hash":"{after_hash.hex()}",'
    )
    user = role == "user"
    said = {
        "content": payload["content"],
        "is_begin": user or index == 1,
        "is_end": user or end_reason is not None,
        "end_reason": end_reason,
        "by": principal,
    }
    for name in SAID:
        if name in payload:
            said[snake_name(name)] = snake(payload[name])
    return ours.encode() + orjson.dumps(said)[1:]
