"""The workflow document: immutable, loaded with every key kept, sharing what did not change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from turnback.core.errors import InvalidWorkflow, SnapshotMissing, TooLarge
from turnback.core.values import parse
from turnback.core.workflow.manifest import (
    BUCKETS,
    Blob,
    Bucket,
    Part,
    address,
    bucket_of,
    make_bucket,
    make_top,
    operators_in,
    part_of,
    split_top,
    unfold,
)
from turnback.core.workflow.shape import Json, check_document

KNOWN = ("operators", "operatorPositions", "links", "commentBoxes", "settings")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Workflow:
    """One version of a workflow. Two are equal when their canonical JSON is.

    Versions share the operators, buckets and sections that they have in common. What the
    properties and `content` hand out belongs to all of them: nobody may change it.
    """

    _buckets: tuple[Bucket, ...]
    _sections: Mapping[str, Part]
    _top: Blob

    @property
    def hash(self) -> str:
        """The content address: hexadecimal, of 20 bytes."""
        return self._top.hash

    @property
    def operators(self) -> Mapping[str, Json]:
        """The operators by operatorID, in document order."""
        return _Operators(self._buckets, self._sections["order"].value)

    @property
    def links(self) -> tuple[Json, ...]:
        """The links, in document order."""
        return tuple(self._list("links"))

    @property
    def positions(self) -> Mapping[str, Json]:
        """The positions by operatorID; an operator may have none."""
        return self._object("operatorPositions") or {}

    @property
    def comments(self) -> tuple[Json, ...]:
        """The comment boxes, in document order."""
        return tuple(self._list("commentBoxes"))

    @property
    def settings(self) -> Json | None:
        """The settings, or None where the document has none."""
        return self._object("settings")

    @property
    def other(self) -> Json:
        """The document's members that Turnback does not know, in document order."""
        return self._object("other") or {}

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the document's own members, in order."""
        return tuple(self._list("members"))

    def content(self) -> dict[str, Any]:
        """The whole document, member order kept. Whoever gets it must not change what is in it."""
        return {name: self._member(name) for name in self.members}

    def encoded(self) -> bytes:
        """The document as canonical JSON, put together from bytes that are kept for each part."""
        members = (orjson.dumps(name) + b":" + self._encoded_member(name) for name in self.members)
        return b"{" + b",".join(members) + b"}"

    @property
    def size(self) -> int:
        """How many bytes `encoded` has, without putting them together."""
        names = sum(len(orjson.dumps(name)) + 1 for name in self.members)
        members = sum(self._size_of_member(name) for name in self.members)
        return 2 + names + members + max(0, len(self.members) - 1)

    def blobs(self, since: Workflow | None = None) -> dict[str, bytes]:
        """The blobs that make up the snapshot, by address; with `since`, those that it lacks."""
        if since is None:
            return {blob.hash: blob.data for blob in self._blobs()}
        known = {blob.hash for blob in since._blobs(but_of=self)}
        # A bucket that an edit has emptied is some other, empty bucket's blob.
        known.update(bucket.hash for bucket in since._buckets)
        blobs = self._blobs(but_of=since)
        return {blob.hash: blob.data for blob in blobs if blob.hash not in known}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workflow) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"<Workflow {self.hash[:12]}, {len(self.operators)} operators>"

    def _list(self, section: str) -> list[Any]:
        part = self._sections.get(section)
        return part.value if part else []

    def _object(self, section: str) -> dict[str, Any] | None:
        part = self._sections.get(section)
        return part.value if part else None

    def _member(self, name: str) -> Any:
        if name == "operators":
            return list(self.operators.values())
        return self._sections[name].value if name in KNOWN else self.other[name]

    def _encoded_member(self, name: str) -> bytes:
        if name == "operators":
            order = self._sections["order"].value
            parts = (self._buckets[bucket_of(name)].parts[name].data for name in order)
            return b"[" + b",".join(parts) + b"]"
        return self._sections[name].data if name in KNOWN else orjson.dumps(self.other[name])

    def _size_of_member(self, name: str) -> int:
        if name == "operators":
            parts = [part for bucket in self._buckets for part in bucket.parts.values()]
            return 2 + sum(len(part.data) for part in parts) + max(0, len(parts) - 1)
        return len(self._encoded_member(name))

    def _blobs(self, *, but_of: Workflow | None = None) -> Iterator[Blob]:
        """Its blobs; the buckets that it shares with `but_of` are passed over."""
        yield self._top
        yield from self._sections.values()
        others = but_of._buckets if but_of else _NO_BUCKETS
        for bucket, other in zip(self._buckets, others, strict=True):
            if other is None or bucket.hash != other.hash:
                yield from bucket.stored


class _Operators(Mapping[str, Json]):
    """The operators as a mapping, read through the buckets."""

    __slots__ = ("_buckets", "_order")

    def __init__(self, buckets: tuple[Bucket, ...], order: Sequence[str]) -> None:
        self._buckets = buckets
        self._order = order

    def __getitem__(self, operator_id: str) -> Json:
        value: Json = self._buckets[bucket_of(operator_id)].parts[operator_id].value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)


def build(document: Json, *, like: Workflow | None = None) -> Workflow:
    """The workflow for a document that is known to be sound; it shares what it can with `like`."""
    old_buckets = like._buckets if like else ()
    old_sections = like._sections if like else {}
    grouped: list[dict[str, Part]] = [{} for _ in range(BUCKETS)]
    for operator in document.get("operators", ()):
        operator_id = operator["operatorID"]
        index = bucket_of(operator_id)
        old = old_buckets[index].parts.get(operator_id) if old_buckets else None
        grouped[index][operator_id] = _reuse(old, operator)
    buckets = tuple(
        _reuse_bucket(old_buckets[index] if old_buckets else _EMPTY_BUCKET, parts)
        for index, parts in enumerate(grouped)
    )
    values: dict[str, Any] = {
        "members": list(document),
        "order": [operator["operatorID"] for operator in document.get("operators", ())],
    }
    values |= {name: document[name] for name in KNOWN[1:] if name in document}
    if other := {name: document[name] for name in document if name not in KNOWN}:
        values["other"] = other
    sections = {name: _reuse(old_sections.get(name), value) for name, value in values.items()}
    return Workflow(buckets, sections, make_top(buckets, sections))


def _reuse(old: Part | None, value: Any) -> Part:
    """The part for the value: the old one when that says the same."""
    if old is not None and (old.value is value or _same_items(old.value, value)):
        return old
    part = part_of(value)
    if old is None:
        return part
    if old.data == part.data:
        return old
    _share_items(part.value, value, old.value)
    return part


def _share_items(fresh: Any, value: Any, old: Any) -> None:
    """Put back into `fresh`, a copy of `value`, the very items that `old` holds too."""
    held = {id(item) for item in (old.values() if isinstance(old, dict) else old)}
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if id(item) in held:
            fresh[key] = item


def _same_items(old: Any, new: Any) -> bool:
    # By identity: `==` would take 1, 1.0 and true for the same, and miss the order of members.
    if len(old) != len(new):
        return False
    if isinstance(new, dict):
        return all(a == b and old[a] is new[b] for a, b in zip(old, new, strict=True))
    return all(a is b for a, b in zip(old, new, strict=True))


def _reuse_bucket(old: Bucket, parts: Mapping[str, Part]) -> Bucket:
    same = len(parts) == len(old.parts) and all(
        old.parts.get(name) is part for name, part in parts.items()
    )
    return old if same else make_bucket(parts)


_EMPTY_BUCKET = make_bucket({})
_NO_BUCKETS = (None,) * BUCKETS

EMPTY = build(
    {
        "operators": [],
        "operatorPositions": {},
        "links": [],
        "commentBoxes": [],
        "settings": {"dataTransferBatchSize": 400},
    }
)


def load(document: object, *, max_bytes: int, max_depth: int) -> Workflow:
    """The workflow for a document as it came; every key and the order of members are kept.

    Raises `InvalidWorkflow` (data: `path`, a JSON pointer) for what cannot be held and for a
    wrong shape, `TooLarge` when its canonical JSON has more than `max_bytes`.
    """
    check_document(document, max_depth=max_depth)
    return bounded(build(document), max_bytes=max_bytes)  # type: ignore[arg-type]


def load_json(data: bytes, *, max_bytes: int, max_depth: int) -> Workflow:
    """`load` for JSON text, of at most `max_bytes`."""
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    try:
        document = parse(data)
    except ValueError as error:
        raise InvalidWorkflow(f"The file is not JSON: {error}", path="") from None
    return load(document, max_bytes=max_bytes, max_depth=max_depth)


def bounded(workflow: Workflow, *, max_bytes: int) -> Workflow:
    """The workflow itself; raises `TooLarge` when its canonical JSON has more than `max_bytes`."""
    if workflow.size > max_bytes:
        raise _too_large(max_bytes)
    return workflow


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(
        f"A workflow may have {max_bytes:,} bytes of JSON; make it smaller, or ask for a higher "
        "`max_workflow_bytes`",
        limit="max_workflow_bytes",
        value=max_bytes,
    )


class Assembly:
    """Puts stored workflows together from `blobs`, whose addresses are all checked.

    Workflows of one assembly share what they have in common, as versions made by edits do, so that
    many versions cost little more than one.
    """

    def __init__(self, blobs: Mapping[str, bytes]) -> None:
        self._blobs = dict(blobs)
        self._parts: dict[str, Part] = {}
        self._buckets: dict[str, Bucket] = {}

    def workflow(self, top_hash: str) -> Workflow:
        """The workflow of this address.

        Raises `SnapshotMissing` when a blob is missing, or is not what its address says.
        """
        try:
            bucket_hashes, section_hashes = split_top(self._verified(top_hash))
            sections = {name: self._part(h) for name, h in section_hashes.items()}
            buckets = tuple(self._bucket(h) for h in bucket_hashes)
            return Workflow(buckets, sections, make_top(buckets, sections))
        except (ValueError, KeyError) as error:
            raise _damaged(top_hash) from error

    def _bucket(self, hash_: str) -> Bucket:
        if hash_ not in self._buckets:
            self._blobs |= unfold(hash_, self._blobs.get(hash_, b""))
            parts = [self._part(operator) for operator in operators_in(self._verified(hash_))]
            by_id = {part.value["operatorID"]: part for part in parts}
            self._buckets[hash_] = make_bucket(by_id)
        return self._buckets[hash_]

    def _part(self, hash_: str) -> Part:
        if hash_ not in self._parts:
            data = self._verified(hash_)
            self._parts[hash_] = Part(data, hash_, orjson.loads(data))
        return self._parts[hash_]

    def _verified(self, hash_: str) -> bytes:
        data = self._blobs.get(hash_)
        if data is None or address(data) != hash_:
            raise _damaged(hash_)
        return data


def assemble(top_hash: str, blobs: Mapping[str, bytes]) -> Workflow:
    """One stored workflow, put together. Raises as `Assembly.workflow` does."""
    return Assembly(blobs).workflow(top_hash)


def _damaged(hash_: str) -> SnapshotMissing:
    return SnapshotMissing(
        f"A part of the stored workflow is missing or damaged (`{hash_}`); other steps are not "
        "affected",
        hash=hash_,
    )
