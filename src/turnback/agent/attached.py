"""Files of a user's message as a model is told of them: text in full, images, or the name alone.

Which it is to be is decided before any bytes are read: by the type that they were sniffed to be,
by what the model takes, and by the tokens that there are. A file is shown whole or not at all;
whoever cannot be shown one is told that it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

from turnback.core.attachments import IMAGES, TEXT, Attachment

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

BYTES_PER_TOKEN = 3
IMAGE_TOKENS = 1_500
"""What an image is taken for: providers count between some hundreds and this."""

TOKENS_TO_NAME = 40
"""What a file takes beside its content: its name, and what is said of it."""


class Telling(StrEnum):
    """How a model is told of a file."""

    TEXT = "text"
    IMAGE = "image"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class PastFile:
    """A file of an earlier message. `content` are its bytes, None where they are not there."""

    attachment: Attachment
    telling: Telling
    content: bytes | None = None

    @property
    def tokens(self) -> int:
        """How many tokens it is taken for."""
        match self.telling:
            case Telling.TEXT:
                return TOKENS_TO_NAME - (-self.attachment.size // BYTES_PER_TOKEN)
            case Telling.IMAGE:
                return TOKENS_TO_NAME + IMAGE_TOKENS
            case Telling.NAME:
                return TOKENS_TO_NAME


def chosen(
    attachments: Iterable[Attachment],
    *,
    max_tokens: int,
    is_running: bool,
    takes_images: bool,
    max_image_bytes: int,
) -> tuple[PastFile, ...]:
    """How a model is told of the files of one message, out of `max_tokens` for a whole request.

    Those of the turn that runs may take a quarter of them, of an earlier one half of that, so that
    it still has a place among the earlier turns.
    """
    room = max_tokens // (4 if is_running else 8)
    files = []
    for attachment in attachments:
        telling = Telling.NAME
        if attachment.type == TEXT:
            telling = Telling.TEXT
        elif attachment.type in IMAGES and takes_images and attachment.size <= max_image_bytes:
            telling = Telling.IMAGE
        file = PastFile(attachment, telling)
        if file.tokens > room:
            file = replace(file, telling=Telling.NAME)
        room -= file.tokens
        files.append(file)
    return tuple(files)


def with_contents(files: Sequence[PastFile], contents: Mapping[str, bytes]) -> tuple[PastFile, ...]:
    """The files with their bytes, by the ids of the attachments."""
    return tuple(replace(file, content=contents.get(file.attachment.id)) for file in files)


def with_files(content: str, files: Sequence[PastFile]) -> str | list[UserContent]:
    """A user's message as it is sent, with its files after it."""
    if not files:
        return content
    return [content, *(part for file in files for part in _parts(file))]


def _parts(file: PastFile) -> Iterator[UserContent]:
    from pydantic_ai.messages import BinaryContent  # which a start does not wait for

    said = file.attachment
    what = f"{named(said.name)} ({said.type}, {said.size} bytes)"
    match file.telling:
        case Telling.NAME if said.type == TEXT:
            yield f"[The file {what} is attached; it is too long to be shown to you.]"
        case Telling.NAME:
            yield f"[The file {what} is attached; you cannot be shown what is in it.]"
        case _ if file.content is None:
            yield f"[The file {what} was attached and is no longer there.]"
        case Telling.TEXT:
            text = file.content.decode(errors="replace").replace("</file", "<\\/file")
            yield f"[The file {what} is attached:]\n<file>\n{text}\n</file>"
        case Telling.IMAGE:
            yield f"[The image {what} is attached:]"
            yield BinaryContent(file.content, media_type=said.type)


def named(name: str) -> str:
    """A name in quotes, which end where it ends."""
    return orjson.dumps(name).decode()
