"""How what an agent's step says is stored: compressed, beside what the database counts of it.

Most of such a payload is what every step's has: the names of members and tools, the ids of calls
said twice. So it is compressed after a dictionary of steps, which never changes, for what is stored
needs it. What a user says stays as it is: a fork's statement reads it (store/forks.py).
"""

from __future__ import annotations

import orjson

from turnback.core.tree import Role
from turnback.store.packing import by_dictionary

_compress, _decompress = by_dictionary("dictionary-1.txt", "dictionary-2.txt", level=6)


def fold(role: Role, payload: str) -> tuple[str, bytes | None]:
    """A payload as its two columns hold it: what is counted of it, and all of it, compressed.

    As it is, and None, where that takes less.
    """
    if role is Role.USER:
        return payload, None
    whole = payload.encode()
    said = orjson.loads(whole)
    counted = {"calls": len(said.get("toolCalls", ()))}
    if "usage" in said:
        counted["usage"] = said["usage"]
    folded, beside = _compress(whole), orjson.dumps(counted)
    if len(folded) + len(beside) >= len(whole):
        return payload, None
    return beside.decode(), folded


def unfold(payload: str, folded: bytes | None) -> str:
    """The payload that these two columns hold."""
    return payload if folded is None else _decompress(folded).decode()
