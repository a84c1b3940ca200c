"""What each command needs, and what becomes of those who lose it: asked of the live rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import get_args

import asyncpg
import pytest
from processes import eventually
from serving import Server, serving

from turnback.core.approvals import Decision
from turnback.core.errors import BadInput, NotAllowed, SessionNotFound, Unauthenticated
from turnback.core.lineage import ROOT_ID
from turnback.core.principal import LOCAL, Principal, ProjectRole, Right, Visibility, service_of
from turnback.core.workflow import EMPTY
from turnback.sessions.actor import Actor
from turnback.sessions.broadcast import NOT_ALLOWED, SIGNED_OUT, Closed, Subscriber, Told
from turnback.sessions.commands import (
    Acknowledge,
    Approve,
    Asked,
    Change,
    Checkout,
    ClaimAction,
    Command,
    Delete,
    EditWorkflow,
    Expire,
    Overwrite,
    Prompt,
    PutWorkflow,
    Redo,
    ReleaseAction,
    RevertStep,
    RevertTurn,
    Share,
    Stop,
    Undo,
)
from turnback.sessions.registry import Sessions
from turnback.sessions.waiting import until_ended
from turnback.store.ids import new_id
from turnback.store.outbox import SessionChanged
from turnback.store.rows import Grant

READ = frozenset({Right.READ})

NEEDS: list[tuple[Command, Right]] = [
    (Prompt("hello"), Right.RUN),
    (Stop(), Right.RUN),
    (Approve("c1", Decision.APPROVE, "x"), Right.RUN),
    (Expire(0), Right.RUN),
    (Undo("x"), Right.RUN),
    (Overwrite("x"), Right.RUN),
    (Acknowledge("x"), Right.RUN),
    (RevertTurn("x"), Right.RUN),
    (RevertStep("x"), Right.RUN),
    (Redo(), Right.RUN),
    (Checkout(ROOT_ID), Right.RUN),
    (EditWorkflow(ROOT_ID, ()), Right.RUN),
    (PutWorkflow(EMPTY, None), Right.RUN),
    (Change(name="Mine"), Right.RUN),
    (ClaimAction("x"), Right.RUN),
    (ReleaseAction("x"), Right.RUN),
    (Share("bob", READ), Right.MANAGE),
    (Change(visibility=Visibility.PRIVATE), Right.MANAGE),
    (Delete(), Right.MANAGE),
]


class Project:
    """A project of a running server's, with its people."""

    def __init__(self, live: Sessions, database_url: str) -> None:
        self.live = live
        self._url = database_url

    async def person(self, name: str, role: ProjectRole | None) -> Principal:
        identities = self.live.dao.identities
        _, text = await identities.make_key(
            service_of("p"), name, name="", role=role, expires_at=None
        )
        return await identities.by_key(text)

    async def session(self) -> Actor:
        """A session of `ann`'s, who need not be anybody with a key."""
        key = await self.live.dao.create(
            Principal("ann", "p", credential=None),
            session_id=new_id(),
            name="Orders",
            model="offline",
            workflow=EMPTY,
            now=self.live.now(),
        )
        return await self.live.get(service_of("p"), key.id)

    async def execute(self, statement: str) -> None:
        """Change something behind every process's back."""
        connection = await asyncpg.connect(self._url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@pytest.fixture
async def project(fresh_database: str) -> AsyncIterator[Project]:
    """A server that polls too seldom to matter, so that it learns by wake-ups alone."""
    async with serving(fresh_database, poll_interval=600) as server:
        yield Project(server.app.state.sessions, fresh_database)


def listen(actor: Actor, who: Principal) -> Subscriber:
    subscriber, _ = actor.join(lambda message: None, principal=who)
    return subscriber


async def end_of(subscriber: Subscriber) -> Closed:
    async with asyncio.timeout(10):
        end = await subscriber.get()
    assert isinstance(end, Closed)
    return end


async def test_every_command_needs_its_right_and_is_refused_without_a_trace(
    project: Project,
) -> None:
    assert {type(command) for command, _ in NEEDS} == set(get_args(Command))
    actor = await project.session()
    vera = await project.person("vera", ProjectRole.VIEWER)
    eddy = await project.person("eddy", ProjectRole.EDITOR)
    stranger = await project.person("stranger", None)
    revision = actor.memory.revision
    for command, right in NEEDS:
        lacking = [vera] if right is Right.RUN else [vera, eddy]
        for who in lacking:
            with pytest.raises(NotAllowed) as refusal:
                await actor.ask(Asked(command, who))
            assert refusal.value.data == {"right": right}
        with pytest.raises(SessionNotFound, match=r"^Agent not found$"):
            await actor.ask(Asked(command, stranger))
    await actor.catch_up()
    assert (actor.memory.revision, actor.memory.tree.steps) == (revision, {})
    await actor.ask(Asked(Change(name="Eddy's"), eddy))
    owner = await project.person("olga", ProjectRole.OWNER)
    await actor.ask(Asked(Delete(), owner))
    assert actor.memory.deleted


async def test_a_revoked_key_fails_at_its_next_command(project: Project) -> None:
    actor = await project.session()
    eddy = await project.person("eddy", ProjectRole.EDITOR)
    await actor.ask(Asked(Change(name="A"), eddy))
    await project.execute("update api_keys set revoked_at = now()")  # nobody is told
    with pytest.raises(Unauthenticated):
        await actor.ask(Asked(Change(name="B"), eddy))
    assert actor.memory.row.name == "A"


async def test_a_grant_is_made_changed_and_taken_back_and_all_are_told_that_it_was(
    project: Project,
) -> None:
    actor = await project.session()
    owner = await project.person("olga", ProjectRole.OWNER)
    guest = await project.person("guest", None)
    told: list[Told] = []
    actor.join(lambda message: told.append(message), principal=service_of("p"))  # type: ignore[func-returns-value]
    dao = project.live.dao
    for rights in (READ, READ | {Right.RUN}, frozenset(Right) - {Right.MANAGE}, frozenset[Right]()):
        await actor.ask(Asked(Share("guest", rights), owner))
        assert await dao.access.rights(guest, actor.key) == rights
        granted = [Grant("guest", rights)] if rights else []
        assert await dao.identities.grants(owner, actor.key, after=None, limit=9) == granted
    await actor.ask(Asked(Share("guest", frozenset()), owner))
    assert [message.notice for message in told] == [SessionChanged("grants")] * 5


@pytest.mark.parametrize(
    ("whom", "rights"),
    [
        ("guest", {Right.RUN}),
        ("guest", {Right.RUN, Right.FORK}),
        ("guest", {Right.READ, Right.MANAGE}),
        ("agent", {Right.READ}),
        ("", {Right.READ}),
        ("a b", set()),
    ],
)
async def test_grants_that_there_are_not(standing: Server, whom: str, rights: set[Right]) -> None:
    live = standing.app.state.sessions
    actor = await Project(live, "").session()
    with pytest.raises(BadInput):
        await actor.ask(Asked(Share(whom, frozenset(rights)), service_of("p")))
    assert actor.memory.revision == 0


async def test_an_archived_session_can_still_be_shared(standing: Server) -> None:
    actor = await Project(standing.app.state.sessions, "").session()
    for command in (
        Change(archived=True),
        Share("guest", READ),
        Change(visibility=Visibility.PRIVATE),
    ):
        await actor.ask(Asked(command, service_of("p")))
    assert actor.memory.row.visibility is Visibility.PRIVATE


async def test_sockets_of_a_key_are_closed_as_soon_as_it_is_revoked(project: Project) -> None:
    actor, other = await project.session(), await project.session()
    eddy = await project.person("eddy", ProjectRole.EDITOR)
    again = await project.person("eddy", ProjectRole.EDITOR)  # another key of the same principal
    ended, staying = [listen(actor, eddy), listen(other, eddy)], listen(actor, again)
    assert eddy.credential is not None
    await project.live.dao.identities.revoke_key(service_of("p"), eddy.credential)
    assert [await end_of(subscriber) for subscriber in ended] == [SIGNED_OUT] * 2
    assert not staying.closed
    assert actor.hub.principals() == {again}


async def test_sockets_are_closed_as_soon_as_what_let_them_in_is_gone(project: Project) -> None:
    actor = await project.session()
    owner = await project.person("olga", ProjectRole.OWNER)
    await actor.ask(Asked(Share("guest", READ), owner))
    await actor.ask(Asked(Share("vera", READ), owner))
    people = {
        role: await project.person(name, role)
        for name, role in [
            ("guest", None),
            ("eddy", ProjectRole.EDITOR),
            ("vera", ProjectRole.VIEWER),
        ]
    }
    owners, guests, eddys, veras = (listen(actor, who) for who in (owner, *people.values()))
    await actor.ask(Asked(Share("guest", frozenset()), owner))
    assert await end_of(guests) == NOT_ALLOWED
    await actor.ask(Asked(Change(visibility=Visibility.PRIVATE), owner))
    assert await end_of(eddys) == NOT_ALLOWED
    assert not veras.closed  # hers is a grant of her own
    await actor.ask(Asked(Share("vera", frozenset()), owner))
    assert await end_of(veras) == NOT_ALLOWED
    await project.live.dao.identities.set_role(service_of("p"), "olga", None)
    assert await end_of(owners) == NOT_ALLOWED


async def test_the_local_principals_sockets_are_closed_when_the_first_key_is_made(
    project: Project,
) -> None:
    live = project.live
    key = await live.dao.create(
        LOCAL, session_id=new_id(), name="", model="offline", workflow=EMPTY, now=live.now()
    )
    subscriber = listen(await live.get(LOCAL, key.id), LOCAL)
    assert live.local
    await project.person("olga", ProjectRole.OWNER)
    assert await end_of(subscriber) == SIGNED_OUT
    assert not live.local


async def test_what_nobody_told_of_is_seen_by_the_poll(fresh_database: str) -> None:
    async with serving(fresh_database) as server:
        project = Project(server.app.state.sessions, fresh_database)
        actor = await project.session()
        eddy = await project.person("eddy", ProjectRole.EDITOR)
        vera = await project.person("vera", ProjectRole.VIEWER)
        eddys, veras = listen(actor, eddy), listen(actor, vera)
        await project.execute("update api_keys set expires_at = now() where principal_id = 'eddy'")
        assert await end_of(eddys) == SIGNED_OUT
        await project.execute("delete from roles")
        assert await end_of(veras) == NOT_ALLOWED


async def test_who_waits_for_a_turn_is_told_when_they_may_no_longer_know_of_it(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, offline_delay_ms=200) as server:
        project = Project(server.app.state.sessions, fresh_database)
        actor = await project.session()
        eddy = await project.person("eddy", ProjectRole.EDITOR)
        done = await actor.ask(Asked(Prompt("hello"), eddy))
        assert done.turn_id is not None
        waiting = asyncio.create_task(until_ended(project.live, eddy, actor.key.id, done.turn_id))
        await eventually(lambda: eddy in actor.hub.principals())
        await project.live.dao.identities.set_role(service_of("p"), "eddy", None)
        with pytest.raises(SessionNotFound):
            await asyncio.wait_for(waiting, 10)
        await actor.ask(Asked(Stop(), service_of("p")))


async def test_sessions_of_every_project_are_read_again_when_another_process_wrote(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as first, serving(fresh_database) as second:
        mine = await Project(first.app.state.sessions, fresh_database).session()
        theirs = await second.app.state.sessions.get(service_of("p"), mine.key.id)
        await mine.ask(Asked(Change(name="Other"), service_of("p")))
        await eventually(lambda: theirs.memory.row.name == "Other")
