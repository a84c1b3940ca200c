"""Content addresses: how a workflow is cut into blobs, and how blobs name each other.

Two levels (lineage.md, Snapshots), so that a changed operator costs little more than itself: its
bucket and the top.

    top      `T`, then the addresses of 16 buckets and of each section that the document has
    bucket   `B`, then the addresses of its operators, by operatorID
    others   canonical JSON: an operator, or a section

No JSON text begins with `T`, `B` or `O`, so what a user writes can never pass for a manifest.

A bucket of few operators is stored under its address as `O`, then the operators themselves, a line
each. A row of its own for each of them would take more room than all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from zlib import crc32

import orjson

BUCKETS = 16

INLINE = 12
"""The operators of a bucket at most that is stored as these."""

# What the top lists after the buckets. "members" is the order of the document's own members,
# "order" that of its operators, "other" holds the members that Turnback does not know.
SECTIONS = (
    "members",
    "order",
    "operatorPositions",
    "links",
    "commentBoxes",
    "settings",
    "other",
)

_SIZE = 20  # bytes of an address
_ABSENT = bytes(_SIZE)
_TOP, _BUCKET, _OPERATORS = b"T", b"B", b"O"


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes and their content address, in hexadecimal."""

    data: bytes
    hash: str


@dataclass(frozen=True, slots=True)
class Part(Blob):
    """A value of the document, with the canonical bytes it is stored as."""

    value: Any


@dataclass(frozen=True, slots=True)
class Bucket(Blob):
    """The operators whose ids fall into it, by operatorID."""

    parts: Mapping[str, Part]

    @property
    def stored(self) -> tuple[Blob, ...]:
        """The blobs that it is stored as."""
        if not 0 < len(self.parts) <= INLINE:
            return self, *self.parts.values()
        # Canonical JSON has no line breaks of its own.
        lines = b"\n".join(part.data for _, part in sorted(self.parts.items()))
        return (Blob(_OPERATORS + lines, self.hash),)


def address(data: bytes) -> str:
    """The content address of a blob: hexadecimal of a 20-byte blake2b."""
    return blake2b(data, digest_size=_SIZE).hexdigest()


def part_of(value: Any) -> Part:
    """The part for a value that `values.check` has passed. It keeps no reference to the value."""
    data = bytes(memoryview(orjson.dumps(value)))  # a copy: orjson's own keeps a 4 KB buffer
    return Part(data, address(data), orjson.loads(data))


def bucket_of(operator_id: str) -> int:
    """Which bucket an operator is in."""
    return crc32(operator_id.encode(errors="surrogatepass")) % BUCKETS


def make_bucket(parts: Mapping[str, Part]) -> Bucket:
    """The bucket that holds these operators."""
    data = _BUCKET + b"".join(bytes.fromhex(parts[name].hash) for name in sorted(parts))
    return Bucket(data, address(data), parts)


def make_top(buckets: Sequence[Bucket], sections: Mapping[str, Part]) -> Blob:
    """The top blob, whose address is the workflow's."""
    data = _TOP + b"".join(
        (
            *(bytes.fromhex(bucket.hash) for bucket in buckets),
            *(
                bytes.fromhex(sections[name].hash) if name in sections else _ABSENT
                for name in SECTIONS
            ),
        )
    )
    return Blob(data, address(data))


def parts(top: bytes) -> list[str]:
    """The addresses that a top blob lists, each once; none when it is not a whole top blob."""
    if not _is(top, _TOP) or len(top) != 1 + _SIZE * (BUCKETS + len(SECTIONS)):
        return []
    return list(dict.fromkeys(h for h in _addresses(top) if h != _ABSENT.hex()))


def operators_in(bucket: bytes) -> list[str]:
    """The addresses that a bucket lists; none when the blob is something else."""
    return _addresses(bucket) if _is(bucket, _BUCKET) else []


def unfold(hash_: str, stored: bytes) -> dict[str, bytes]:
    """A bucket as it is stored, and where these are in it its operators, by address.

    One that is damaged gives a bucket that is not what `hash_` says.
    """
    if stored[:1] != _OPERATORS:
        return {hash_: stored}
    operators = {address(line): line for line in stored[1:].split(b"\n")}
    return {hash_: _BUCKET + bytes.fromhex("".join(operators)), **operators}


def named_by(blob: bytes) -> tuple[list[bytes], list[bytes]]:
    """The addresses, as bytes, that a blob names: of manifests, and of values.

    A value names nothing, and neither does a manifest that is not whole.
    """
    names = [blob[i : i + _SIZE] for i in range(1, len(blob), _SIZE)]
    if _is(blob, _BUCKET):
        return [], names
    if not parts(blob):
        return [], []
    return names[:BUCKETS], [name for name in names[BUCKETS:] if name != _ABSENT]


def split_top(top: bytes) -> tuple[list[str], dict[str, str]]:
    """A whole top blob's buckets in order, and its sections by name. Raises `ValueError`."""
    if not parts(top):
        raise ValueError("not a top blob")
    hashes = _addresses(top)
    sections = zip(SECTIONS, hashes[BUCKETS:], strict=True)
    return hashes[:BUCKETS], {name: h for name, h in sections if h != _ABSENT.hex()}


def _is(data: bytes, tag: bytes) -> bool:
    return data[:1] == tag and (len(data) - 1) % _SIZE == 0


def _addresses(manifest: bytes) -> list[str]:
    return [manifest[i : i + _SIZE].hex() for i in range(1, len(manifest), _SIZE)]
