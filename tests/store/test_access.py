"""Who may what, against the table of the design: every role, owner, visibility and grant."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from oracle_bulk import touched

from turnback.core.errors import (
    NotAllowed,
    SessionNotFound,
    Unauthenticated,
)
from turnback.core.principal import LOCAL, Principal, ProjectRole, Right, service_of
from turnback.core.workflow import EMPTY
from turnback.store.access import Standing
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey
from turnback.store.session_lists import SESSIONS

NOW = datetime.now(UTC)
OWNER, EDITOR, VIEWER, GUEST = (*reversed(ProjectRole), None)
R, RUN, FORK, MANAGE = Right.READ, Right.RUN, Right.FORK, Right.MANAGE

# Rows of the table in protocol.md 4, turned: of a session that is one's own, one that the project
# sees, and a private one of somebody else.
TABLE: dict[ProjectRole | None, dict[str, set[Right]]] = {
    OWNER: {of: {R, RUN, FORK, MANAGE} for of in ("own", "project", "private")},
    EDITOR: {"own": {R, RUN, FORK, MANAGE}, "project": {R, RUN, FORK}, "private": set()},
    VIEWER: {"own": {R, FORK}, "project": {R, FORK}, "private": set()},
    GUEST: {"own": set(), "project": set(), "private": set()},
}


@dataclass
class Session:
    """What decides of it. `grants` by principal; `sources`: sessions that its prefix is of."""

    key: SessionKey
    owner: str
    visibility: str
    archived: bool = False
    deleted: bool = False
    grants: dict[str, set[Right]] = field(default_factory=dict)
    sources: list[Session] = field(default_factory=list)

    def allows(self, who: Principal, role: ProjectRole | None) -> set[Right]:
        """What the table says, with the grant; run and fork only with read."""
        kind = "own" if self.owner == who.id else self.visibility
        rights = TABLE[role][kind] | self.grants.get(who.id, set())
        inherits = all(R in source.allows(who, role) for source in self.sources)
        return rights if R in rights and inherits else set()


@dataclass
class World:
    """A project with a principal of each role, and sessions."""

    database: Database
    dao: Dao
    people: dict[ProjectRole | None, Principal] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)

    async def person(self, name: str, role: ProjectRole | None, project: str = "p") -> Principal:
        make = self.dao.identities.make_key
        _, text = await make(service_of(project), name, name="", role=role, expires_at=None)
        return await self.dao.identities.by_key(text)

    async def add(self, root_id: str | None = None, project: str = "p", **more: object) -> Session:
        id_ = str(uuid4())  # it says nothing of when it was made
        made_at = NOW + timedelta(seconds=len(self.sessions))
        made = Session(SessionKey(root_id or id_, id_), **more)  # type: ignore[arg-type]
        place = (made.key.root_id, made.key.id)
        async with self.database.connection() as c:
            await c.execute(
                "insert into session_directory (id, project_id, root_id) values ($2, $3, $1)",
                *place,
                project,
            )
            await c.execute(
                """insert into sessions (root_id, id, project_id, owner, name, model,
                workflow_hash, initial_hash, created_at, updated_at, visibility, archived_at,
                deleted_at) values ($1, $2, $3, $4, 'Orders', 'offline', '', '', $8, $8, $5,
                case when $6 then now() end, case when $7 then now() end)""",
                *place,
                project,
                made.owner,
                made.visibility,
                made.archived,
                made.deleted,
                made_at,
            )
            for who, rights in made.grants.items():
                if rights:
                    await c.execute(
                        "insert into session_grants values ($2, $3, $4, $1, $5, 'x', now(), $6)",
                        *place,
                        who,
                        project,
                        sorted(rights),
                        made_at,
                    )
            if root_id is not None:
                at = made.sources[-1].key.id if made.sources else None
                await c.execute(
                    """insert into session_lineage (root_id, session_id, parent_id,
                    inherited_turn_count, cutoff_branch, cutoff_seq, cutoff_step, depth, sources,
                    fingerprint, created_at) values ($1, $2, coalesce($3::uuid, $1), $5,
                    $3::uuid, $5, $3::uuid, 1, $4, '', now())""",
                    *place,
                    at,
                    [source.key.id for source in made.sources],
                    len(made.sources[:1]),
                )
        self.sessions.append(made)
        return made

    async def page(self, who: Principal, *, size: int, archived: bool = False) -> list[str]:
        """All that it lists, in pages."""
        found: list[str] = []
        before = None
        while True:
            rows = await self.dao.sessions(
                who, query=None, archived=archived, before=before, limit=size
            )
            found += [row.key.id for row in rows]
            if len(rows) < size:
                return found
            before = rows[-1].place


@pytest.fixture
async def world(fresh_database: str, tmp_path: Path) -> AsyncIterator[World]:
    database = await Database.open(fresh_database, size=2, connect_timeout=5, statement_timeout=10)
    dao = Dao(
        database, node_id=new_id(), max_redo_depth=3, directory_cache=999, attachments=tmp_path
    )
    found = World(database, dao)
    for role in TABLE:
        found.people[role] = await found.person(role or "guest", role)
    yield found
    await database.close()


def subsets() -> Iterator[set[Right]]:
    for n in range(4):
        yield from (set(chosen) for chosen in itertools.combinations((R, RUN, FORK), n))


async def told(world: World, who: Principal, session: Session) -> set[Right]:
    """What `Dao.key` lets through, right by right; a refusal says nothing of what is not read."""
    may = set()
    for right in Right:
        refusal = None
        try:
            assert await world.dao.key(who, session.key.id, right=right) == session.key
            may.add(right)
        except (NotAllowed, SessionNotFound) as error:
            refusal = error
        if isinstance(refusal, NotAllowed):
            assert refusal.data == {"right": right}
            assert R in may  # asked first: nobody else is told that there is such a session
        elif refusal is not None:
            assert (refusal.message, refusal.data) == ("Agent not found", {})
    return may


async def check(world: World, *, size: int) -> None:
    """Each person's rights on each session, and each one's lists, are the table's."""
    for role, who in world.people.items():
        listed: dict[bool, list[str]] = {True: [], False: []}
        each = await world.dao.access.each(who, [session.key for session in world.sessions])
        for session in world.sessions:
            expected = set() if session.deleted else session.allows(who, role)
            assert await told(world, who, session) == expected, (role, session)
            assert each[session.key] == expected, (role, session)
            if expected:
                listed[session.archived].append(session.key.id)
        for archived, ids in listed.items():
            assert await world.page(who, size=size, archived=archived) == ids[::-1]


@pytest.mark.parametrize("role", list(TABLE))
async def test_each_role_may_what_the_table_says_with_every_grant(
    world: World, role: ProjectRole | None
) -> None:
    who = world.people[role].id
    for owner, visibility, granted in itertools.product(
        (who, "somebody"), ("project", "private"), subsets()
    ):
        await world.add(owner=owner, visibility=visibility, grants={who: granted})
    await check(world, size=7)


@pytest.mark.parametrize("seed", range(4))
async def test_a_fork_is_read_by_who_reads_all_that_it_comes_from(world: World, seed: int) -> None:
    chance = random.Random(seed)
    names = [who.id for who in world.people.values()]
    root = await world.add(owner="somebody", visibility="project")
    for _ in range(30):
        grants = {name: chance.choice([*subsets()]) for name in names if chance.random() < 0.4}
        parents = chance.sample(world.sessions, min(len(world.sessions), chance.randrange(3)))
        sources = {root.key.id: root}  # whose first workflow all of them show
        sources |= {s.key.id: s for parent in parents for s in (*parent.sources, parent)}
        await world.add(
            root_id=root.key.id,
            owner=chance.choice([*names, "somebody"]),
            visibility=chance.choice(["project", "private"]),
            archived=chance.random() < 0.2,
            deleted=chance.random() < 0.2,
            grants=grants,
            sources=list(sources.values()),
        )
    await check(world, size=chance.randrange(1, 9))


async def test_who_may_run_but_not_read_cannot_read_through_a_fork(world: World) -> None:
    guest = world.people[GUEST]
    parent = await world.add(owner="somebody", visibility="private", grants={guest.id: {RUN, FORK}})
    fork = await world.add(
        parent.key.root_id,
        owner=guest.id,
        visibility="project",
        grants={guest.id: {R, RUN, FORK}},
        sources=[parent],
    )
    for session in (parent, fork):
        assert await told(world, guest, session) == set()
    assert await world.page(guest, size=9) == []


async def test_nothing_of_another_project_is_reached_whatever_it_grants(world: World) -> None:
    names = {who.id: {R, RUN, FORK} for who in world.people.values()}
    there = await world.add(project="q", owner="owner", visibility="project", grants=names)
    for who in world.people.values():
        assert await told(world, who, there) == set()
        assert await world.dao.access.rights(who, there.key) == set()
        assert await world.page(who, size=9) == []
    with pytest.raises(SessionNotFound):
        await world.dao.key(LOCAL, there.key.id)
    of_q = await world.person("owner", VIEWER, project="q")
    assert await told(world, of_q, there) == {R, RUN, FORK}
    assert await world.page(of_q, size=9) == [there.key.id]


@pytest.mark.parametrize("how", ["revoked_at = now()", "expires_at = now()"])
async def test_a_credential_that_has_ended_is_good_for_nothing(world: World, how: str) -> None:
    session = await world.add(owner="owner", visibility="project")
    async with world.database.connection() as c:
        await c.execute(f"update api_keys set {how}")
    for who in world.people.values():
        asked: list[Awaitable[object]] = [
            world.dao.key(who, session.key.id),
            world.dao.access.rights(who, session.key),
            create(world.dao, who),
            world.dao.identities.keys(who, before=None, limit=1),
        ]
        for ask in asked:
            with pytest.raises(Unauthenticated):
                await ask
        assert await world.page(who, size=9) == []
    standing = await world.dao.access.standing([(world.people[OWNER], session.key)])
    assert list(standing.values()) == [Standing(alive=False, reads=False)]


async def test_a_role_is_asked_of_the_live_row(world: World) -> None:
    session = await world.add(owner="somebody", visibility="project")
    guest = world.people[GUEST]
    for role in (EDITOR, VIEWER, GUEST, OWNER):
        await world.dao.identities.set_role(service_of("p"), guest.id, role)
        assert await told(world, guest, session) == TABLE[role]["project"]


@pytest.mark.parametrize(
    ("role", "creates", "administers"),
    [(OWNER, True, True), (EDITOR, True, False), (VIEWER, False, False), (GUEST, False, False)],
)
async def test_who_creates_sessions_and_who_administers(
    world: World, role: ProjectRole | None, creates: bool, administers: bool
) -> None:
    who, identities = world.people[role], world.dao.identities
    assert (await refused(create(world.dao, who))) is not creates
    made = await world.add(owner=who.id, visibility="project")
    [newest] = await identities.keys(service_of("p"), before=None, limit=1)
    administration: list[Awaitable[object]] = [
        identities.keys(who, before=None, limit=9),
        identities.roles(who, after=None, limit=9),
        identities.set_role(who, "new", VIEWER),
        identities.make_key(who, "new", name="", role=VIEWER, expires_at=None),
        identities.revoke_key(who, newest.id),
    ]
    for asked in administration:
        assert (await refused(asked)) is not administers
    if role in (OWNER, EDITOR):
        assert await identities.grants(who, made.key, after=None, limit=9) == []


async def refused(asked: Awaitable[object]) -> bool:
    try:
        await asked
    except NotAllowed:
        return True
    return False


async def create(dao: Dao, who: Principal) -> SessionKey:
    return await dao.create(
        who, session_id=new_id(), name="Orders", model="offline", workflow=EMPTY, now=NOW
    )


async def test_all_sockets_of_a_process_are_looked_at_by_one_statement(world: World) -> None:
    for visibility in ("project", "private"):
        await world.add(owner="somebody", visibility=visibility)
    await world.add(owner="somebody", visibility="project", deleted=True)
    sockets = [(who, s.key) for who in world.people.values() for s in world.sessions] * 3
    found = await world.dao.access.standing(sockets)
    assert len(found) == len(world.people) * 3
    for role, who in world.people.items():
        for session in world.sessions:
            reads = R in session.allows(who, role)
            assert found[who, session.key] == Standing(alive=True, reads=reads)
    assert await world.dao.access.standing([]) == {}


async def test_the_service_and_the_local_principal_are_asked_nothing(world: World) -> None:
    private = await world.add(project="local", owner="somebody", visibility="private")
    for who in (LOCAL, service_of("local")):
        assert await told(world, who, private) == set(Right)
        assert await world.page(who, size=9) == [private.key.id]
    assert await refused(create(world.dao, service_of("p"))) is False


async def test_a_page_of_a_large_project_reads_as_many_rows_as_it_shows(world: World) -> None:
    async with world.database.connection() as c:
        await c.execute(
            """insert into sessions (root_id, id, project_id, owner, name, model, workflow_hash,
            initial_hash, created_at, updated_at, visibility, archived_at)
            select i, i, 'p', 'u' || n % 50, 'Session ' || n, 'offline', '', '',
                now() - n * interval '1 second', now(),
                case when n % 3 = 0 then 'private' else 'project' end,
                case when n % 10 = 3 then now() end
            from (select n, gen_random_uuid() as i from generate_series(1, 20000) n) x"""
        )
        await c.execute(
            """insert into session_grants select id, 'guest', 'p', root_id, '{read}', 'x', now(),
                created_at from sessions where project_id = 'p' limit 5000"""
        )
        await c.execute("vacuum analyze sessions")
        await c.execute("vacuum analyze session_grants")
        for who in (*world.people.values(), service_of("p")):
            for archived in (False, True):
                args = (who.credential, who.id, who.project_id, archived, None, None, None, 50)
                assert len(await c.fetch(SESSIONS, *args)) == 50
                found = await touched(c, SESSIONS, *args)
                assert not found.whole & {"sessions", "session_grants"}
                assert found.pages < 2000


async def test_a_fork_whose_lineage_is_lost_is_read_by_nobody(world: World) -> None:
    root = await world.add(owner="somebody", visibility="project")
    fork = await world.add(root.key.root_id, owner="somebody", visibility="project", sources=[root])
    who = world.people[ProjectRole.OWNER]
    assert await told(world, who, fork) == set(Right)
    async with world.database.connection() as c:
        await c.execute("delete from session_lineage")
    for who in world.people.values():
        assert await told(world, who, fork) == set()
        assert await world.page(who, size=9) == (
            [root.key.id] if await told(world, who, root) else []
        )
