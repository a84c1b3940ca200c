"""Attachments as the rules see them: what one is, its name made safe, its type told by its bytes.

Nothing that a client says of a file is believed: its name is cleaned, its type is sniffed. The
types are few on purpose: those that a model can be given, and those that a person wants to tell
apart in a list; whatever else is text or bytes.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
TEXT = "text/plain"
BYTES = "application/octet-stream"

HEAD = 16
"""Bytes from the beginning that say what type a file is of."""

LONGEST_NAME = 200
"""Bytes of a name in UTF-8: what every file system takes, with room for a suffix."""

UNNAMED = "file"

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
)

TYPES = frozenset({TEXT, BYTES, "image/webp", *(type_ for _, type_ in _SIGNATURES)})
"""Every type that a file can be of."""

_NOT_IN_NAMES = re.compile(r'[<>:"|?*]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d) *(\.|$)", re.IGNORECASE)
"""What Windows takes for a device, whatever its ending."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a record says of a file that was attached to it: it never changes. `size` in bytes."""

    id: str
    name: str
    type: str
    size: int


def sniffed(head: bytes, *, is_text: bool) -> str:
    """The type of a file that begins with `head`; `is_text`: all of it is text in UTF-8."""
    for signature, type_ in _SIGNATURES:
        if head.startswith(signature):
            return type_
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return TEXT if is_text else BYTES


def cleaned(name: str) -> str:
    """A name that is no path, shows what it is, and can be saved under on any system.

    Folders before it are dropped, and what is invisible or turns the direction of writing; the
    ending is kept when it is cut to `LONGEST_NAME` bytes.
    """
    name = unicodedata.normalize("NFC", name.encode(errors="ignore").decode())
    name = re.split(r"[/\\]", name)[-1]
    name = "".join(" " if c.isspace() else c for c in name)
    name = "".join(c for c in name if unicodedata.category(c)[0] != "C")
    name = _NOT_IN_NAMES.sub("_", " ".join(name.split())).strip(" .")
    if not name:
        return UNNAMED
    if _DEVICE.match(name):
        name = f"_{name}"
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending.encode()) > 20:
        stem, dot, ending = name, "", ""
    room = LONGEST_NAME - len((dot + ending).encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(" .") + dot + ending
