"""Keys, roles, sign-ins and tickets in a real database: what opens, for how long, and who hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from processes import eventually

from turnback.core.errors import (
    BadInput,
    NotAllowed,
    SessionNotFound,
    TooManyTickets,
    Unauthenticated,
    UnknownKey,
)
from turnback.core.principal import LOCAL, Principal, ProjectRole, service_of
from turnback.store.access import Access
from turnback.store.database import Database
from turnback.store.identities import ApiKey, Identities
from turnback.store.ids import new_id
from turnback.store.rows import SessionKey
from turnback.store.wakeups import RIGHTS, Wakeups

SERVICE = service_of("p")
HERE = "http://127.0.0.1:8700"


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=4, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


@pytest.fixture
def identities(database: Database) -> Identities:
    return Identities(database, Access(database), Wakeups(database, node_id=new_id()))


async def make(
    identities: Identities, whose: str = "alice", *, role: Any = ProjectRole.EDITOR, **more: Any
) -> tuple[ApiKey, str]:
    return await identities.make_key(
        SERVICE, whose, **{"name": "", "expires_at": None} | more, role=role
    )


async def is_refused(asked: Awaitable[object]) -> bool:
    try:
        await asked
    except Unauthenticated:
        return True
    return False


async def execute(database: Database, text: str, *args: Any) -> None:
    async with database.connection() as connection:
        await connection.execute(text, *args)


async def test_a_key_opens_as_whose_it_is_and_only_as_it_was_printed(
    identities: Identities,
) -> None:
    key, text = await make(identities, name="her laptop")
    assert await identities.by_key(text) == Principal("alice", "p", credential=key.id)
    other = (await make(identities))[1]
    prefix, secret = text[:16], text[16:]
    assert prefix == f"tb_{key.prefix}_"
    wrong = [
        "",
        text[:-1],
        text + "0",
        text.upper(),
        f"{text}\n",
        prefix + other[16:],
        other[:16] + secret,
        prefix + "0" * 64,
        f"tb_{'0' * 12}_{secret}",
        f"{prefix}\x00{secret[1:]}",
    ]
    for presented in wrong:
        assert await is_refused(identities.by_key(presented)), presented


async def test_no_secret_is_stored(identities: Identities, database: Database) -> None:
    key, text = await make(identities)
    who = await identities.by_key(text)
    cookie = await identities.sign_in(who, seconds=60)
    place = await session(database)
    ticket = await identities.make_ticket(SERVICE, place, origin=HERE, seconds=60, most=9)
    async with database.connection() as connection:
        for table in ("api_keys", "sign_ins", "tickets"):
            stored = "".join(map(str, await connection.fetch(f"select {table}::text from {table}")))
            assert stored
            for secret in (text[16:], cookie, ticket):
                assert secret not in stored
    assert key.prefix in text


async def test_keys_end_when_they_are_revoked_or_expire_by_the_databases_clock(
    identities: Identities, database: Database
) -> None:
    key, text = await make(identities, expires_at=datetime.now(UTC) + timedelta(hours=1))
    cookie = await identities.sign_in(await identities.by_key(text), seconds=60)
    await execute(database, "update api_keys set expires_at = now()")
    assert await is_refused(identities.by_key(text))
    assert await is_refused(identities.by_sign_in(cookie))
    await execute(database, "update api_keys set expires_at = null")
    assert (await identities.by_key(text)).credential == key.id
    await identities.revoke_key(SERVICE, key.prefix)
    assert await is_refused(identities.by_key(text))
    assert await is_refused(identities.by_sign_in(cookie))
    [listed] = await identities.keys(SERVICE, before=None, limit=9)
    ended = listed.revoked_at
    assert ended is not None
    await identities.revoke_key(SERVICE, key.id)
    assert [k.revoked_at for k in await identities.keys(SERVICE, before=None, limit=9)] == [ended]


async def test_the_last_keys_end_does_not_open_the_server_again(identities: Identities) -> None:
    assert await identities.local()
    key, _ = await make(identities)
    assert not await identities.local()
    await identities.revoke_key(SERVICE, key.id)
    assert not await identities.local()


async def test_a_project_has_its_own_keys_and_roles(identities: Identities) -> None:
    key, _ = await make(identities, role=ProjectRole.OWNER)
    elsewhere, text = await identities.make_key(
        service_of("q"), "alice", name="", role=ProjectRole.VIEWER, expires_at=None
    )
    there = await identities.by_key(text)
    assert there == Principal("alice", "q", credential=elsewhere.id)
    assert (key.role, elsewhere.role) == (ProjectRole.OWNER, ProjectRole.VIEWER)
    for by, mine, other in ((SERVICE, key, elsewhere), (service_of("q"), elsewhere, key)):
        assert await identities.keys(by, before=None, limit=9) == [mine]
        for named in (other.id, other.prefix, new_id(), "nonsense"):
            with pytest.raises(UnknownKey):
                await identities.revoke_key(by, named)
    with pytest.raises(NotAllowed):
        await identities.revoke_key(there, key.id)


async def test_a_principals_role_stays_unless_another_is_named(identities: Identities) -> None:
    with pytest.raises(BadInput, match="`alice` has no role in the project `p`"):
        await make(identities, role="as it is")
    assert await identities.local()  # and no key was made
    for role, now in [
        (ProjectRole.EDITOR, ProjectRole.EDITOR),
        ("as it is", ProjectRole.EDITOR),
        (ProjectRole.OWNER, ProjectRole.OWNER),
        (None, None),
    ]:
        key, _ = await make(identities, role=role)
        assert key.role == now
        assert [k.role for k in await identities.keys(SERVICE, before=None, limit=1)] == [now]
    await identities.set_role(SERVICE, "bob", ProjectRole.VIEWER)
    await identities.set_role(SERVICE, "carol", ProjectRole.OWNER)
    await identities.set_role(SERVICE, "bob", ProjectRole.EDITOR)
    everyone = [("bob", ProjectRole.EDITOR), ("carol", ProjectRole.OWNER)]
    assert await identities.roles(SERVICE, after=None, limit=9) == everyone
    assert await identities.roles(SERVICE, after="bob", limit=9) == everyone[1:]


@pytest.mark.parametrize("name", ["", "agent", "a b", "é", "-x", "x\n", "x\x00", "x" * 201])
async def test_names_that_nobody_can_have(identities: Identities, name: str) -> None:
    with pytest.raises(BadInput):
        await make(identities, name)
    with pytest.raises(BadInput):
        await identities.set_role(SERVICE, name, ProjectRole.VIEWER)
    with pytest.raises(BadInput):
        await identities.make_key(service_of(name), "alice", name="", role=None, expires_at=None)


async def test_keys_are_listed_in_pages_the_newest_first(identities: Identities) -> None:
    made = [(await make(identities))[0] for _ in range(5)][::-1]
    pages = [await identities.keys(SERVICE, before=None, limit=3)]
    pages.append(await identities.keys(SERVICE, before=pages[0][-1].id, limit=3))
    assert pages == [made[:3], made[3:]]


async def test_a_sign_in_is_its_key_until_it_ends(
    identities: Identities, database: Database
) -> None:
    who = await identities.by_key((await make(identities))[1])
    first, second = [await identities.sign_in(who, seconds=60) for _ in range(2)]
    assert await identities.by_sign_in(first) == await identities.by_sign_in(second) == who
    await identities.sign_out(first)
    await identities.sign_out("nonsense")
    for gone in (first, "", "nonsense", "\ud800"):
        assert await is_refused(identities.by_sign_in(gone))
    assert await identities.by_sign_in(second) == who
    await execute(database, "update sign_ins set expires_at = now()")
    assert await is_refused(identities.by_sign_in(second))
    with pytest.raises(BadInput):
        await identities.sign_in(LOCAL, seconds=60)


async def session(database: Database, project: str = "p") -> SessionKey:
    id_ = new_id()
    await execute(
        database,
        """insert into sessions (root_id, id, project_id, owner, name, model, workflow_hash,
        initial_hash, created_at, updated_at) values ($1, $1, $2, 'x', '', '', '', '', now(),
        now())""",
        id_,
        project,
    )
    return SessionKey(id_, id_)


async def test_a_ticket_opens_one_socket_once_where_it_was_made_for(
    identities: Identities, database: Database
) -> None:
    place = await session(database)
    who = await identities.by_key((await make(identities))[1])

    async def ticket() -> str:
        return await identities.make_ticket(who, place, origin=HERE, seconds=60, most=9)

    secret = await ticket()
    assert await identities.take_ticket(secret, place.id, origin=HERE) == who
    assert await is_refused(identities.take_ticket(secret, place.id, origin=HERE))
    for session_id, origin in [
        (new_id(), HERE),
        ("nonsense", HERE),
        (place.id, "http://elsewhere"),
        (place.id, ""),
    ]:
        secret = await ticket()
        assert await is_refused(identities.take_ticket(secret, session_id, origin=origin))
        # It is used up: who has stolen it cannot try what it is for.
        assert await is_refused(identities.take_ticket(secret, place.id, origin=HERE))
    late, revoked = await ticket(), await ticket()
    await execute(database, "update tickets set expires_at = now()")
    assert await is_refused(identities.take_ticket(late, place.id, origin=HERE))
    await execute(database, "update tickets set expires_at = now() + interval '1 hour'")
    await execute(database, "update api_keys set revoked_at = now()")
    assert await is_refused(identities.take_ticket(revoked, place.id, origin=HERE))


async def test_of_many_who_take_a_ticket_at_once_one_has_it(
    identities: Identities, database: Database
) -> None:
    place = await session(database)
    who = await identities.by_key((await make(identities))[1])
    secret = await identities.make_ticket(who, place, origin=HERE, seconds=60, most=9)
    taken = [is_refused(identities.take_ticket(secret, place.id, origin=HERE)) for _ in range(8)]
    assert sorted(await asyncio.gather(*taken)) == [False] + [True] * 7


async def test_a_key_has_so_many_tickets_that_wait_and_no_other_key_is_kept_from_one(
    identities: Identities, database: Database
) -> None:
    place = await session(database)
    one, other = [await identities.by_key((await make(identities))[1]) for _ in range(2)]

    async def ticket(who: Principal, seconds: float = 60) -> str:
        return await identities.make_ticket(who, place, origin=HERE, seconds=seconds, most=2)

    for who in (one, LOCAL):
        first, _ = await ticket(who), await ticket(who, seconds=0.3)
        with pytest.raises(TooManyTickets, match="2 tickets may wait") as refused:
            await ticket(who)
        assert (refused.value.data["limit"], refused.value.data["value"]) == ("tickets_per_key", 2)
        assert 0 < refused.value.data["retryAfterMs"] <= 300
        await ticket(other)
        await asyncio.sleep(0.3)
        await ticket(who)
        if who is one:  # the other kind is good for nothing once there are keys
            await identities.take_ticket(first, place.id, origin=HERE)
            await ticket(who)


async def test_a_ticket_is_for_who_may_read(identities: Identities, database: Database) -> None:
    place = await session(database)
    guest = await identities.by_key((await make(identities, role=None))[1])
    with pytest.raises(SessionNotFound):
        await identities.make_ticket(guest, place, origin=HERE, seconds=60, most=9)


async def test_the_local_principals_ticket_ends_with_the_first_key(
    identities: Identities, database: Database
) -> None:
    place = await session(database, "local")
    tickets = [
        await identities.make_ticket(LOCAL, place, origin=HERE, seconds=60, most=9)
        for _ in range(2)
    ]
    assert await identities.take_ticket(tickets[0], place.id, origin=HERE) == LOCAL
    await make(identities)
    assert await is_refused(identities.take_ticket(tickets[1], place.id, origin=HERE))


async def test_what_has_expired_is_forgotten(identities: Identities, database: Database) -> None:
    place = await session(database)
    who = await identities.by_key((await make(identities))[1])
    for seconds in (0.0, 60.0):
        await identities.sign_in(who, seconds=seconds)
        await identities.make_ticket(who, place, origin=HERE, seconds=seconds, most=9)
    await identities.forget()
    async with database.connection() as connection:
        for table in ("sign_ins", "tickets"):
            assert await connection.fetchval(f"select count(*) from {table}") == 1


async def test_every_process_hears_of_a_change_and_so_does_who_made_it(
    identities: Identities, database: Database
) -> None:
    heard: list[list[frozenset[str]]] = [[], []]
    listening = [asyncio.Event(), asyncio.Event()]
    mine = identities._wakeups
    tasks = [
        asyncio.create_task(wakeups.run(heard=ids.append, missed=event.set, interval=0.005, idle=5))
        for wakeups, ids, event in zip(
            (mine, Wakeups(database, node_id=new_id())), heard, listening, strict=True
        )
    ]
    try:
        await asyncio.gather(*(event.wait() for event in listening))
        key, _ = await make(identities)
        await identities.set_role(SERVICE, "alice", None)
        await identities.revoke_key(SERVICE, key.id)
        await eventually(lambda: heard == [[frozenset({RIGHTS})] * 3] * 2)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
