"""Principals, their keys, roles and grants; sign-ins and tickets; and from a secret to who it is.

At rest is only the SHA-256 of a secret of 256 random bits: who reads the database cannot use it.
What is presented is looked up by a part that is no secret, or by its hash, and compared in constant
time. What changes somebody's rights is told to every process after its commit.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

import asyncpg

from turnback.core.errors import BadInput, TooManyTickets, UnknownKey
from turnback.core.principal import (
    LOCAL,
    Principal,
    ProjectRight,
    ProjectRole,
    Right,
    named,
)
from turnback.core.values import counted
from turnback.store.access import LIVE, Access, ended
from turnback.store.database import Database
from turnback.store.ids import is_id, new_id
from turnback.store.rows import Grant, SessionKey
from turnback.store.wakeups import Wakeups

KEY = re.compile(r"^tb_([0-9a-f]{12})_([0-9a-f]{64})$")
_PREFIX = re.compile(r"[0-9a-f]{12}")

LOCAL_MODE = "select not exists (select from api_keys)"

_NAMED = "insert into principals (id) values ({}) on conflict do nothing"

MAKE_KEY = f"""with named as ({_NAMED.format("$4::text")})
insert into api_keys (id, prefix, hash, principal_id, project_id, name, expires_at)
values ($1::uuid, $2::text, $3::bytea, $4::text, $5::text, $6::text, $7::timestamptz)
returning created_at"""

KEYS = """select k.id, k.prefix, k.principal_id, r.role, k.name, k.created_at, k.expires_at,
    k.revoked_at
from api_keys k left join roles r on r.project_id = k.project_id and r.principal_id = k.principal_id
where k.project_id = $1::text and ($2::uuid is null or k.id < $2::uuid)
order by k.id desc limit $3::bigint"""

REVOKE = """update api_keys set revoked_at = coalesce(revoked_at, clock_timestamp())
where project_id = $1::text and (id = $2::uuid or prefix = $3::text) returning id"""

SET_ROLE = f"""with named as ({_NAMED.format("$2::text")})
insert into roles (project_id, principal_id, role) values ($1::text, $2::text, $3::text)
on conflict (project_id, principal_id) do update set role = excluded.role"""

DROP_ROLE = "delete from roles where project_id = $1::text and principal_id = $2::text"

ROLE = "select role from roles where project_id = $1::text and principal_id = $2::text"

MEMBERS = """select principal_id, role from roles
where project_id = $1::text and ($2::text is null or principal_id > $2::text)
order by principal_id limit $3::bigint"""

GRANTS = """select principal_id, rights from session_grants
where session_id = $1::uuid and ($2::text is null or principal_id > $2::text)
order by principal_id limit $3::bigint"""

BY_KEY = f"""select id, principal_id, project_id, hash from api_keys
where prefix = $1::text and {LIVE}"""

SIGN_IN = """insert into sign_ins (hash, key_id, expires_at)
values ($1::bytea, $2::uuid, clock_timestamp() + make_interval(secs => $3::float8))"""

BY_SIGN_IN = f"""select k.id, k.principal_id, k.project_id from sign_ins s
join (select * from api_keys where {LIVE}) k on k.id = s.key_id
where s.hash = $1::bytea and s.expires_at > clock_timestamp()"""

SIGN_OUT = "delete from sign_ins where hash = $1::bytea"

MAKE_TICKET = """with held as materialized (
    select count(*) as tickets, min(expires_at) - clock_timestamp() as frees from tickets
    where expires_at > clock_timestamp()
        and (key_id = $2::uuid or $2::uuid is null and key_id is null)),
made as (
    insert into tickets (hash, key_id, session_id, origin, expires_at)
    select $1::bytea, $2::uuid, $3::uuid, $4::text,
        clock_timestamp() + make_interval(secs => $5::float8) from held where tickets < $6::bigint
    returning 1)
select exists (select from made) as made, extract(epoch from frees)::float8 as frees from held"""

TAKE_TICKET = f"""with taken as (delete from tickets where hash = $1::bytea returning *)
select k.id, k.principal_id, k.project_id from taken t
left join (select * from api_keys where {LIVE}) k on k.id = t.key_id
where t.session_id = $2::uuid and t.origin = $3::text and t.expires_at > clock_timestamp()
    and (k.id is not null or t.key_id is null and ({LOCAL_MODE}))"""

FORGET = (
    "delete from tickets where expires_at < clock_timestamp()",
    "delete from sign_ins where expires_at < clock_timestamp()",
)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as listed: whose it is, what that principal is in the project now, and till when.

    `prefix` is the part of its text that is no secret.
    """

    id: str
    prefix: str
    principal_id: str
    role: ProjectRole | None
    name: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Identities:
    """Who there is in a project, and who comes with what. Each call is one transaction."""

    def __init__(self, database: Database, access: Access, wakeups: Wakeups) -> None:
        self._db = database
        self._access = access
        self._wakeups = wakeups

    async def local(self) -> bool:
        """Whether no key was ever made. A revoked one counts: its end must not open the server."""
        local: bool = await self._db.run(lambda c: c.fetchval(LOCAL_MODE))
        return local

    # -- keys and roles, for who administers the project

    async def make_key(
        self,
        by: Principal,
        principal_id: str,
        *,
        name: str,
        role: ProjectRole | Literal["as it is"] | None,
        expires_at: datetime | None,
    ) -> tuple[ApiKey, str]:
        """A key for a principal of `by`'s project, and its text, which is nowhere else.

        `role` becomes the principal's in the project; None: it is a guest. Raises `BadInput` for a
        name that nobody can have, or where a role is to stay that there is none of; `NotAllowed`,
        `Unauthenticated`.
        """
        await self._access.require_project(by, ProjectRight.ADMINISTER)
        named(principal_id)
        named(by.project_id)
        secret, prefix = secrets.token_bytes(32), secrets.token_hex(6)
        args = (new_id(), prefix, sha256(secret).digest(), principal_id, by.project_id)
        async with self._db.connection(writes=True) as connection, connection.transaction():
            created_at = await connection.fetchval(MAKE_KEY, *args, name, expires_at)
            if role != "as it is":
                await _set_role(connection, by.project_id, principal_id, role)
            now = await connection.fetchval(ROLE, by.project_id, principal_id)
            if role == "as it is" and now is None:
                raise BadInput(
                    f"`{principal_id}` has no role in the project `{by.project_id}`: name one, or"
                    " `none` for a guest"
                )
        await self._wakeups.rights_changed()
        has = None if now is None else ProjectRole(now)
        key = ApiKey(args[0], prefix, principal_id, has, name, created_at, expires_at, None)
        return key, f"tb_{prefix}_{secret.hex()}"

    async def keys(self, by: Principal, *, before: str | None, limit: int) -> list[ApiKey]:
        """The newest `limit` keys of the project, made before the key `before`.

        Raises `NotAllowed`, `Unauthenticated`.
        """
        await self._access.require_project(by, ProjectRight.ADMINISTER)
        rows = await self._db.run(lambda c: c.fetch(KEYS, by.project_id, before, limit))
        return [ApiKey(**{**row, "role": _role(row["role"])}) for row in rows]

    async def revoke_key(self, by: Principal, key: str) -> None:
        """End a key of the project, named by its id or prefix; one that has ended stays so.

        Raises `UnknownKey`, `NotAllowed`, `Unauthenticated`.
        """
        await self._access.require_project(by, ProjectRight.ADMINISTER)
        id_, prefix = key if is_id(key) else None, key if _PREFIX.fullmatch(key) else None
        if await self._write(REVOKE, by.project_id, id_, prefix) is None:
            raise UnknownKey(f"There is no such key in the project `{by.project_id}`")
        await self._wakeups.rights_changed()

    async def set_role(self, by: Principal, principal_id: str, role: ProjectRole | None) -> None:
        """Make the principal this in the project; None: a guest, who has only grants.

        Raises `BadInput`, `NotAllowed`, `Unauthenticated`.
        """
        await self._access.require_project(by, ProjectRight.ADMINISTER)
        named(principal_id)
        async with self._db.connection(writes=True) as connection:
            await _set_role(connection, by.project_id, principal_id, role)
        await self._wakeups.rights_changed()

    async def roles(
        self, by: Principal, *, after: str | None, limit: int
    ) -> list[tuple[str, ProjectRole]]:
        """Principals with a role in the project, the next `limit` after `after`, by name.

        Raises `NotAllowed`, `Unauthenticated`.
        """
        await self._access.require_project(by, ProjectRight.ADMINISTER)
        rows = await self._db.run(lambda c: c.fetch(MEMBERS, by.project_id, after, limit))
        return [(row["principal_id"], ProjectRole(row["role"])) for row in rows]

    async def grants(
        self, by: Principal, key: SessionKey, *, after: str | None, limit: int
    ) -> list[Grant]:
        """The grants of a session, the next `limit` after the principal `after`, by name.

        Raises `SessionNotFound`, `NotAllowed` where `by` does not manage it, `Unauthenticated`.
        """
        await self._access.require(by, key, Right.MANAGE)
        rows = await self._db.run(lambda c: c.fetch(GRANTS, key.id, after, limit))
        return [Grant(r["principal_id"], frozenset(map(Right, r["rights"]))) for r in rows]

    # -- who comes with what

    async def by_key(self, text: str) -> Principal:
        """Who presents this key. Raises `Unauthenticated`."""
        parts = KEY.fullmatch(text)
        if parts is None:
            raise ended()
        prefix, secret = parts.groups()
        row = await self._db.run(lambda c: c.fetchrow(BY_KEY, prefix))
        kept = bytes(32) if row is None else row["hash"]
        if not hmac.compare_digest(sha256(bytes.fromhex(secret)).digest(), kept):
            raise ended()
        return _principal(row)

    async def sign_in(self, principal: Principal, *, seconds: float) -> str:
        """A secret, for a cookie, that is as good as the principal's key for so long."""
        if principal.credential is None:
            raise BadInput("There is nothing to sign in with: no API key was ever made")
        return await self._secret(SIGN_IN, principal.credential, seconds)

    async def by_sign_in(self, secret: str) -> Principal:
        """Who presents this cookie. Raises `Unauthenticated`."""
        row = await self._db.run(lambda c: c.fetchrow(BY_SIGN_IN, _hash(secret)))
        return _principal(row)

    async def sign_out(self, secret: str) -> None:
        """End a sign-in, if it is one."""
        await self._write(SIGN_OUT, _hash(secret))

    async def make_ticket(
        self, principal: Principal, key: SessionKey, *, origin: str, seconds: float, most: int
    ) -> str:
        """A secret that lets this principal open one socket on this session, from this origin.

        Raises `SessionNotFound`, `Unauthenticated`; `TooManyTickets` where its key has `most` that
        are good and were not used.
        """
        await self._access.require(principal, key, Right.READ)
        secret = secrets.token_hex(32)
        args = (principal.credential, key.id, origin, seconds, most)
        row = await self._write(MAKE_TICKET, _hash(secret), *args)
        assert row is not None, "it counts in any case"
        if not row["made"]:
            raise TooManyTickets(
                f"{counted(most, 'ticket')} may wait to be used (`tickets_per_key`); use them, or "
                "ask again when they have expired",
                limit="tickets_per_key",
                value=most,
                retryAfterMs=max(0, round(row["frees"] * 1000)),
            )
        return secret

    async def take_ticket(self, secret: str, session_id: str, *, origin: str) -> Principal:
        """Who presents this ticket, which is used up by it. Raises `Unauthenticated`."""
        session = session_id if is_id(session_id) else None
        row = await self._write(TAKE_TICKET, _hash(secret), session, origin)
        if row is not None and row["id"] is None:
            return LOCAL
        return _principal(row)

    async def forget(self) -> None:
        """Drop the tickets and sign-ins that have expired."""
        for text in FORGET:
            await self._write(text)

    async def _secret(self, text: str, *args: Any) -> str:
        secret = secrets.token_hex(32)
        await self._write(text, _hash(secret), *args)
        return secret

    async def _write(self, text: str, *args: Any) -> asyncpg.Record | None:
        async with self._db.connection(writes=True) as connection:
            return await connection.fetchrow(text, *args)


async def _set_role(
    connection: asyncpg.Connection, project_id: str, principal_id: str, role: ProjectRole | None
) -> None:
    if role is None:
        await connection.execute(DROP_ROLE, project_id, principal_id)
    else:
        await connection.execute(SET_ROLE, project_id, principal_id, role)


def _role(role: str | None) -> ProjectRole | None:
    return None if role is None else ProjectRole(role)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode(errors="surrogatepass")).digest()


def _principal(row: asyncpg.Record | None) -> Principal:
    if row is None:
        raise ended()
    return Principal(row["principal_id"], row["project_id"], credential=row["id"])
