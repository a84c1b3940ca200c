"""Which blobs a set of workflows is made of: what a purge must keep.

Told blob by blob, so that who reads them decides how many at a time. Operators and sections name
nothing further and are never asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from turnback.core.workflow.manifest import named_by


class Reach:
    """The addresses that are reached so far, as bytes."""

    def __init__(self) -> None:
        self._held: set[bytes] = set()

    def __contains__(self, address: bytes) -> bool:
        return address in self._held

    def want(self, addresses: Iterable[bytes]) -> list[bytes]:
        """Hold these; those that were not held before, whose blobs are to be `follow`ed."""
        new = [address for address in dict.fromkeys(addresses) if address not in self._held]
        self._held.update(new)
        return new

    def follow(self, blobs: Iterable[bytes]) -> list[bytes]:
        """Hold what these blobs name; the manifests among it, to be followed in turn."""
        return self.named(blobs)[0]

    def named(self, blobs: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Hold what these blobs name: manifests, to be followed in turn, and values.

        Those that were not held before. A blob that is damaged names nothing.
        """
        manifests: list[bytes] = []
        values: list[bytes] = []
        for blob in blobs:
            more, leaves = named_by(blob)
            manifests += self.want(more)
            values += self.want(leaves)
        return manifests, values
