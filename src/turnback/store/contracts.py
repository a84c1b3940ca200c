"""Contracts as they were: what an effect was made under is kept, whatever is declared later."""

from __future__ import annotations

from collections.abc import Mapping

from turnback.store.database import Database

KEEP = """insert into contracts (hash, data)
select k.hash, k.data::json from unnest($1::text[], $2::text[]) k(hash, data)
on conflict do nothing"""

OF = "select data from contracts where hash = $1::text"


class Contracts:
    """Keeps contracts by their hashes, as JSON text."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._kept: set[str] = set()

    async def keep(self, contracts: Mapping[str, str]) -> None:
        """Keep these, so that calls may be made under them. Raises `DatabaseUnavailable`."""
        new = {hash_: data for hash_, data in contracts.items() if hash_ not in self._kept}
        if not new:
            return
        async with self._db.connection(writes=True) as connection:
            await connection.execute(KEEP, list(new), list(new.values()))
        self._kept |= new.keys()

    async def of(self, hash_: str) -> str | None:
        """The contract of this hash, where it was ever kept."""
        data: str | None = await self._db.run(lambda c: c.fetchval(OF, hash_))
        return data
