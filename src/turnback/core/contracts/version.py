"""The hashes that name a contract and the tool it was written for (undo.md 1)."""

from __future__ import annotations

import hashlib
from typing import Any

from turnback.core.contracts.equality import canonical
from turnback.core.contracts.model import Contract
from turnback.core.effects import Json


def dumped(contract: Contract) -> dict[str, Any]:
    """A contract as JSON, from which `model.parse` makes the same again."""
    return contract.model_dump(mode="json", by_alias=True, exclude_unset=True)


def version(contract: Contract) -> str:
    """The contract's own hash, the same for equal contracts whichever front they came through."""
    return _hash(contract.model_dump(mode="json", by_alias=True))


def pin(name: str, description: str, schema: Json) -> str:
    """The hash of what a tool says of itself: with another, it is not the tool that was meant."""
    return _hash([name, description, schema])


def _hash(value: Any) -> str:
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()
