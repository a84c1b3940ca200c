"""How a blob is stored: compressed with a dictionary of operators, if that makes it smaller.

An operator alone is too short to be compressed: most of it is what every operator has. The
dictionary is one operator of each type, as JSON; it never changes, for what is stored needs it. A
better one would be another file with another mark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import zstandard

Codec = Callable[[bytes], bytes]

_MARK = b"\x01"  # compressed with that dictionary, the frame without its magic
_OPERATORS = b"\x02"  # the same, of a bucket's operators, which versions before do not read
_FRAME = b"\x28\xb5\x2f\xfd"  # compressed without one: how blobs were stored first


def by_dictionary(*files: str, level: int) -> tuple[Codec, Codec]:
    """How texts are compressed after the dictionary in these files, and read again.

    The frames are without the magic of zstd and say their size. Reading raises `ZstdError`.
    """
    folder = Path(__file__).parent
    dictionary = zstandard.ZstdCompressionDict(
        b"".join((folder / name).read_bytes() for name in files),
        dict_type=zstandard.DICT_TYPE_RAWCONTENT,
    )
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, format=zstandard.FORMAT_ZSTD1_MAGICLESS, write_content_size=True
    )
    return (
        zstandard.ZstdCompressor(dict_data=dictionary, compression_params=parameters).compress,
        zstandard.ZstdDecompressor(
            dict_data=dictionary, format=zstandard.FORMAT_ZSTD1_MAGICLESS
        ).decompress,
    )


_compress, _decompress = by_dictionary("dictionary-1.txt", level=3)


def pack(blob: bytes) -> bytes:
    """The blob as it is stored. No blob begins with a mark: all are JSON or manifests."""
    if blob[:1] in b"TB":  # a manifest: nothing makes addresses smaller
        return blob
    packed = (_OPERATORS if blob[:1] == b"O" else _MARK) + _compress(blob)
    return packed if len(packed) < len(blob) else blob


def unpack(data: bytes) -> bytes:
    """The blob that is stored as `data`; empty where it is damaged beyond reading."""
    try:
        if data.startswith((_MARK, _OPERATORS)):
            return _decompress(data[1:])
        if data.startswith(_FRAME):
            return zstandard.decompress(data)
    except zstandard.ZstdError:
        return b""
    return data
