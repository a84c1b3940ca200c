"""Idempotency keys: a claim, the id reserved for what will be made, and the answer (protocol.md 3).

A key's row is written before the work and reserves an id, by which the work is done at most once:
the session's own id, a command's `requestId`. So whoever retries after a crash does the same work
under the same id, and a claim that was lost costs nothing but a look. The answer is written when
the request has been answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnback.core.errors import KeyRunning, KeyTaken
from turnback.core.principal import Principal
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.leases import is_running

CLAIM = f"""insert into idempotency_keys as k
    (project_id, principal, key, fingerprint, reserved_id, node_id)
values ($1::text, $2::text, $3::text, $4::bytea, $5::uuid, $6::uuid)
on conflict (project_id, principal, key) do update
    set node_id = excluded.node_id, claimed_at = clock_timestamp()
    where k.fingerprint = excluded.fingerprint and k.status is null and (k.node_id is null
        or k.node_id = excluded.node_id
        or k.claimed_at < clock_timestamp() - make_interval(secs => $7::float8)
        or not {is_running("k.node_id::text")})
returning reserved_id"""

KEY = """select fingerprint, reserved_id, status, location, body from idempotency_keys
where project_id = $1::text and principal = $2::text and key = $3::text"""

RELEASE = """update idempotency_keys set node_id = null,
    status = coalesce(status, $5::integer), location = coalesce(location, $6::text),
    body = coalesce(body, $7::json)
where project_id = $1::text and principal = $2::text and key = $3::text and node_id = $4::uuid"""

DROP = """delete from idempotency_keys where project_id = $1::text and principal = $2::text
    and key = $3::text and node_id = $4::uuid and status is null"""

FORGET = """delete from idempotency_keys
where created_at < clock_timestamp() - make_interval(secs => $1::float8)"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request was answered: its status, its body as JSON text, its `Location`."""

    status: int
    body: str
    location: str | None = None


@dataclass(slots=True)
class Claim:
    """A key while its request is being answered.

    `id` is reserved for what the request makes. `answer` is what it was answered before, or is to
    be from now on. `first`: nobody has claimed the key before. `key` is None where there is none.
    """

    key: tuple[str, str, str] | None
    id: str
    answer: Answer | None = None
    first: bool = False


class IdempotencyKeys:
    """The keys. `node_id` is this process, whose claims end with it."""

    def __init__(self, database: Database, *, node_id: str) -> None:
        self._db = database
        self._node_id = node_id
        self._running: dict[tuple[str, str, str], bytes] = {}

    async def claim(
        self, principal: Principal, key: str, fingerprint: bytes, *, expiry: float
    ) -> Claim:
        """Claim a key for a request; end with `release`, unless it was answered before.

        A claim of a process whose lock is free, or that is older than `expiry` seconds, is taken
        over: too early would do no harm, since the work is done under the reserved id.
        Raises `KeyTaken` where the key was used for another request, `KeyRunning` where the same
        request is being answered, `DatabaseUnavailable`.
        """
        place = (principal.project_id, principal.id, key)
        if place in self._running:
            raise _refusal(key, same=self._running[place] == fingerprint)
        self._running[place] = fingerprint
        claim = None
        try:
            claim = await self._claim(place, fingerprint, expiry)
            return claim
        finally:
            if claim is None or claim.answer is not None:
                del self._running[place]

    async def _claim(self, place: tuple[str, str, str], fingerprint: bytes, expiry: float) -> Claim:
        fresh = new_id()
        args = (*place, fingerprint, fresh, self._node_id, expiry)
        while True:
            reserved = await self._db.run(lambda c: c.fetchval(CLAIM, *args))
            if reserved is not None:
                return Claim(place, reserved, first=reserved == fresh)
            row = await self._db.run(lambda c: c.fetchrow(KEY, *place))
            if row is None:
                continue  # dropped in between
            if row["fingerprint"] != fingerprint or row["status"] is None:
                raise _refusal(place[2], same=row["fingerprint"] == fingerprint)
            answer = Answer(row["status"], row["body"], row["location"])
            return Claim(place, row["reserved_id"], answer)

    async def release(self, claim: Claim, *, forget: bool = False) -> None:
        """End a claim with its answer; with `forget`, one without an answer as if it never was."""
        answer = claim.answer
        assert claim.key is not None, "only what was claimed is released"
        place = (*claim.key, self._node_id)
        try:
            if forget and answer is None:
                await self._db.run(lambda c: c.execute(DROP, *place))
                return
            given: tuple[Any, ...] = (None, None, None)
            if answer is not None:
                given = (answer.status, answer.location, answer.body)
            await self._db.run(lambda c: c.execute(RELEASE, *place, *given))
        finally:
            del self._running[claim.key]

    async def forget(self, *, older_than: float) -> None:
        """Drop the keys made more than `older_than` seconds ago, by the database's clock."""
        await self._db.run(lambda c: c.execute(FORGET, older_than))


def _refusal(key: str, *, same: bool) -> KeyRunning | KeyTaken:
    if same:
        return KeyRunning(f"The request with the key `{key}` is being answered; ask again soon")
    return KeyTaken(f"The key `{key}` was used for another request; take a new `Idempotency-Key`")
