"""Who may what: the one place that says so (protocol.md 4), from the live rows.

`caller` is who asks, as of now: no row where the credential is expired or revoked. `rights` is what
they may do with a session. Every read, list and command begins with these two, in SQL, so that
what has been revoked is gone with the next statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from turnback.core.errors import NotAllowed, SessionNotFound, Unauthenticated
from turnback.core.principal import LOCAL, ROLES, Principal, ProjectRight, ProjectRole, Right
from turnback.store.database import Database
from turnback.store.rows import SessionKey

LIVE = "revoked_at is null and (expires_at is null or expires_at > clock_timestamp())"
"""Of a row of `api_keys`: whether it may still be used."""


def caller(credential: str = "$1::uuid", id_: str = "$2::text", project: str = "$3::text") -> str:
    """SQL: who asks, as a row `(principal_id, project_id, role)`; none for a dead credential.

    Who has no credential is the service, or `LOCAL`: owner of its project.
    """
    return f"""select {id_} as principal_id, {project} as project_id, 'owner' as role
    where {credential} is null
union all
select k.principal_id, k.project_id, r.role from api_keys k
left join roles r on r.project_id = k.project_id and r.principal_id = k.principal_id
where k.id = {credential} and {LIVE}"""


def _own(session: str, caller: str) -> str:
    """SQL: what the table in protocol.md 4 gives on this session, whatever it inherits."""
    s, c = session, caller
    return f"""case
    when {s}.project_id is distinct from {c}.project_id then '{{}}'
    else case
        when {c}.role = 'owner' then array['read', 'run', 'fork', 'manage']
        when {c}.role = 'editor' and {s}.owner = {c}.principal_id
            then array['read', 'run', 'fork', 'manage']
        when {c}.role = 'editor' and {s}.visibility = 'project' then array['read', 'run', 'fork']
        when {c}.role = 'viewer' and ({s}.owner = {c}.principal_id or {s}.visibility = 'project')
            then array['read', 'fork']
        else '{{}}' end
    || coalesce((select g.rights from session_grants g
        where g.session_id = {s}.id and g.principal_id = {c}.principal_id), '{{}}')
    end"""


def rights(session: str, caller: str) -> str:
    """SQL: the rights of `caller` on the row `session`, as `text[]`; empty where it may not read.

    Both are names of rows in the statement around it. Who reads a fork reads what was said in
    the sessions that it comes from, so read is needed on each of these as well, deleted or not. One
    whose lineage is lost is read by nobody: what it may show is not known.
    """
    return f"""(select case when 'read' = any(own) and {_inherits(session, caller)}
        then own else '{{}}' end
    from (select {_own(session, caller)} as own offset 0) owned)"""


def _inherits(session: str, caller: str) -> str:
    """SQL: whether `caller` may read every session of which the row `session` may show something.

    That is the records of `sources`; the first workflow, which is the family's root's; and, as long
    as it waits to be sent again, the prompt that the fork was made at.
    """
    s, c = session, caller
    return f"""({s}.id = {s}.root_id or exists (select from session_lineage l
        where l.root_id = {s}.root_id and l.session_id = {s}.id and ({c}.role = 'owner'
            or not exists (select from (select unnest(l.sources || l.root_id) union all
                select t.session_id from turns t where {s}.pending_action is not null
                and t.root_id = l.root_id and t.id = l.boundary_turn) source(id)
            left join sessions h on h.root_id = l.root_id and h.id = source.id
            where not 'read' = any({_own("h", c)})))))"""


def may_read(session: str, caller: str) -> str:
    """SQL: whether `caller` may read the row `session`; null is no.

    A subquery rather than an operator, of which a planner that has no statistics expects that it
    lets next to nothing through.
    """
    return f"(select array['read'] <@ {rights(session, caller)})"


RIGHTS = f"""with caller as ({caller()})
select c.principal_id is not null as alive, {rights("s", "c")} as rights
from (values (1)) as one(one) left join caller c on true
left join sessions s on s.root_id = $4::uuid and s.id = $5::uuid and s.deleted_at is null"""

ROLE = f"with caller as ({caller()}) select role from caller"

STILL_RUNS = f"""with caller as (
    select t.principal as principal_id, s.project_id,
        case when t.principal = $4::text and not exists (select from api_keys) then 'owner'
            else r.role end as role
    from turns t join sessions s on s.root_id = $1::uuid and s.id = $2::uuid
    left join roles r on r.project_id = s.project_id and r.principal_id = t.principal
    where t.root_id = $1::uuid and t.id = $3::uuid and (
        t.principal = $4::text and not exists (select from api_keys)
        or exists (select from api_keys k where k.principal_id = t.principal
            and k.project_id = s.project_id and {LIVE})))
select array['run'] <@ {rights("s", "c")} from sessions s, caller c
where s.root_id = $1::uuid and s.id = $2::uuid and s.deleted_at is null"""

EACH = f"""with caller as ({caller()})
select s.id, {rights("s", "c")} as rights from unnest($4::uuid[], $5::uuid[]) a(root_id, id)
join sessions s on s.root_id = a.root_id and s.id = a.id and s.deleted_at is null
cross join caller c"""

STANDING = f"""select a.n, c.principal_id is not null as alive, {rights("s", "c")} as rights
from unnest($1::uuid[], $2::uuid[], $3::uuid[]) with ordinality a(credential, root_id, id, n)
left join lateral ({caller("a.credential", "null::text", "null::text")}) c on true
left join sessions s on s.root_id = a.root_id and s.id = a.id
order by a.n"""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a connection that was let in stands now: its credential, and its right to read."""

    alive: bool
    reads: bool


class Access:
    """What principals may do, each question one statement; none for who needs no credential."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def rights(self, principal: Principal, key: SessionKey) -> frozenset[Right]:
        """What the principal may do with this session of its project; nothing: not know of it.

        Raises `Unauthenticated` where its credential has ended.
        """
        if principal.credential is None:
            return frozenset(Right)
        row = await self._ask(RIGHTS, principal, key.root_id, key.id)
        if row is None or not row["alive"]:
            raise ended()
        return frozenset(map(Right, row["rights"] or ()))

    async def each(
        self, principal: Principal, keys: Sequence[SessionKey]
    ) -> dict[SessionKey, frozenset[Right]]:
        """What the principal may do with each of these sessions of its project."""
        if principal.credential is None or not keys:
            return dict.fromkeys(keys, frozenset(Right))
        args = (principal.credential, principal.id, principal.project_id)
        places = ([key.root_id for key in keys], [key.id for key in keys])
        rows = await self._db.run(lambda c: c.fetch(EACH, *args, *places))
        found = {row["id"]: frozenset(map(Right, row["rights"])) for row in rows}
        return {key: found.get(key.id, frozenset()) for key in keys}

    async def require(self, principal: Principal, key: SessionKey, right: Right) -> None:
        """Raise where the principal lacks a right on this session of its project.

        `SessionNotFound` where it may not read it either, `NotAllowed` where it may;
        `Unauthenticated` where its credential has ended.
        """
        if principal.credential is None:
            return
        has = await self.rights(principal, key)
        if not has:
            raise SessionNotFound("Agent not found")
        if right not in has:
            raise NotAllowed(
                f"You may not do this with the session: it needs the right `{right}`", right=right
            )

    async def still_runs(self, key: SessionKey, turn_id: str) -> bool:
        """Whether who began a turn may run its session now: what it left to be done may be done."""
        args = (key.root_id, key.id, turn_id, LOCAL.id)
        return bool(await self._db.run(lambda c: c.fetchval(STILL_RUNS, *args)))

    async def require_own_run(self, principal: Principal, source: SessionKey) -> None:
        """Raise `NotAllowed` where the principal may not run what it forks from `source`.

        That takes a role that makes sessions, or `run` on the source, which the fork takes over:
        owning a fork gives no right (decision 0043). `Unauthenticated`.
        """
        if Right.RUN in await self.rights(principal, source):
            return
        if await self.role(principal) not in ROLES[ProjectRight.CREATE]:
            raise NotAllowed(
                "You may fork this session, and not send prompts in the fork: fork it without"
                " `mode`, or ask for the role `editor` or the right `run`",
                right=Right.RUN,
            )

    async def role(self, principal: Principal) -> ProjectRole | None:
        """What the principal is in its project; None: a guest.

        Raises `Unauthenticated` where its credential has ended.
        """
        if principal.credential is None:
            return ProjectRole.OWNER
        row = await self._ask(ROLE, principal)
        if row is None:
            raise ended()
        return None if row["role"] is None else ProjectRole(row["role"])

    async def require_project(self, principal: Principal, right: ProjectRight) -> None:
        """Raise `NotAllowed` where the principal lacks a right in its project.

        `Unauthenticated` where its credential has ended.
        """
        if await self.role(principal) not in ROLES[right]:
            named = " or ".join(f"`{able}`" for able in ProjectRole if able in ROLES[right])
            raise NotAllowed(
                f"You may not do this in the project: that takes the role {named}", right=right
            )

    async def standing(
        self, sockets: Sequence[tuple[Principal, SessionKey]]
    ) -> dict[tuple[Principal, SessionKey], Standing]:
        """How these stand now, all in one statement. Each principal has a credential."""
        asked = list(dict.fromkeys(sockets))
        if not asked:
            return {}
        args = (
            [principal.credential for principal, _ in asked],
            [key.root_id for _, key in asked],
            [key.id for _, key in asked],
        )
        rows = await self._db.run(lambda c: c.fetch(STANDING, *args))
        return {
            one: Standing(row["alive"], "read" in (row["rights"] or ()))
            for one, row in zip(asked, rows, strict=True)
        }

    async def _ask(self, text: str, principal: Principal, *more: Any) -> asyncpg.Record | None:
        args = (principal.credential, principal.id, principal.project_id, *more)
        return await self._db.run(lambda c: c.fetchrow(text, *args))


def ended() -> Unauthenticated:
    """What is told to who comes with a credential that is not, or no longer, good."""
    return Unauthenticated(
        "The API key, sign-in or ticket is not known, was used, has expired or was revoked;"
        " sign in again"
    )
