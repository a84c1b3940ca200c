"""The log against a real PostgreSQL: intents and results under a fence, the ledger, locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from turnback.core.drift import LedgerEntry, Source
from turnback.core.effects import (
    Call,
    CallState,
    Effect,
    EffectClass,
    ResourceKey,
    Standing,
    Touch,
)
from turnback.core.errors import FencedOff, ResourceBusy
from turnback.core.principal import LOCAL
from turnback.core.tree import NewIds, StateChanged, StepAppended, Tree
from turnback.core.workflow import EMPTY
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.effects import CallOutcome, InDoubt, OpenStep
from turnback.store.ids import new_id
from turnback.store.locks import Held
from turnback.store.outbox import Status, StepWritten
from turnback.store.rows import Commit, Idle, SessionKey
from turnback.store.stands import Stands, StandsKnown

CONTACT = ResourceKey("crm", "contact", (17, "de"))
STEP = OpenStep(new_id(), new_id(), {"content": "I shall", "toolCalls": []})


@pytest.fixture
async def database(fresh_database: str) -> AsyncIterator[Database]:
    database = await Database.open(fresh_database, size=4, connect_timeout=5, statement_timeout=10)
    yield database
    await database.close()


def dao_of(database: Database, **more: str) -> Dao:
    return Dao(database, node_id=new_id(), max_redo_depth=3, directory_cache=100, **more)


@pytest.fixture
def dao(database: Database) -> Dao:
    return dao_of(database, secret_key="not a good one")


async def running(dao: Dao) -> tuple[SessionKey, str]:
    """A session with a run of fence 1, and its HEAD."""
    key = await dao.create(
        LOCAL, session_id=new_id(), name="x", model="offline", workflow=EMPTY, now=now()
    )
    ids = NewIds(new_id(), new_id(), new_id())
    events = Tree(key.id, EMPTY.hash).prompt(ids, by="local")
    notices = tuple(
        StepWritten(e.step.id) if isinstance(e, StepAppended) else Status(e.state)
        for e in events
        if isinstance(e, StepAppended | StateChanged)
    )
    commit = Commit(
        id=new_id(),
        key=key,
        principal="local",
        now=now(),
        guard=Idle(0, claims=True),
        events=events,
        notices=notices,
        payload='{"content":"do"}',
        node_id=dao.node_id,
    )
    assert await dao.commit(commit) is not None
    return key, ids.step


def now() -> datetime:
    return datetime.now(UTC)


def effect_of(key: SessionKey, **more: object) -> Effect:
    values = {
        "id": new_id(),
        "session_id": key.id,
        "turn_id": STEP.turn_id,
        "step_id": STEP.id,
        "number": 0,
        "tool_call_id": "c1",
        "connection": "crm",
        "tool": "set_phone",
        "contract": "sha256:1",
        "class_": EffectClass.REVERSIBLE,
        "case": 0,
        "state": CallState.INTENT,
        "standing": Standing.IN_DOUBT,
        "args": {"id": 17, "phone": "2"},
        "touches": (Touch(CONTACT, {("phone",): "1"}, {}),),
        "names": {"subject": "Ann"},
        "people": ("ann@x",),
        "at": 1_700_000_000_123,
    }
    return Effect(**(values | more))  # type: ignore[arg-type]


async def intended(dao: Dao, key: SessionKey, head: str, **more: object) -> Effect:
    await dao.effects.open(key, fence=1, head_step=head, step=STEP)
    effect = effect_of(key)
    made = await dao.effects.intend(
        key,
        effect,
        fence=1,
        held=Held(new_id(), 0),
        lock_expiry=9,
        call_key=f"f:{effect.id}",
        before=[1],
        shown=effect.args,
        **more,  # type: ignore[arg-type]
    )
    return replace(effect, number=made.number)


def done(effect: Effect) -> tuple[Effect, LedgerEntry]:
    ended = replace(
        effect,
        state=CallState.DONE,
        standing=Standing.IN_FORCE,
        result={"ok": True},
        inverse=(Call("set_phone", {"id": 17, "phone": "1"}),),
        touches=(Touch(CONTACT, {("phone",): "1"}, {("phone",): "2"}, frozenset({("fax",)})),),
    )
    entry = LedgerEntry(
        CONTACT,
        Source.EFFECT,
        {("phone",): "2"},
        frozenset({("fax",)}),
        effect_id=effect.id,
        session_id=effect.session_id,
    )
    return ended, entry


@pytest.mark.parametrize("secret", [False, True])
async def test_an_intent_and_its_result_are_read_back_as_they_were(
    dao: Dao, secret: bool, database: Database
) -> None:
    key, head = await running(dao)
    effect = await intended(dao, key, head, secret=secret, proposed={"id": 17})
    [logged] = await dao.effects.of_step(key, STEP.id)
    assert logged.effect == effect
    assert (logged.before, logged.key, logged.proposed) == ([1], f"f:{effect.id}", {"id": 17})
    ended, entry = done(effect)
    theirs = LedgerEntry(CONTACT, Source.STRANGER, {("name",): "B"})
    wrote = await dao.effects.end(
        key,
        ended,
        fence=1,
        outcome=CallOutcome.REPLIED,
        ledger_entries=[theirs, entry],
        at=now(),
        secret=secret,
    )
    assert wrote
    [logged] = await dao.effects.standing(key)
    assert (logged.effect, logged.before) == (ended, None)
    assert await dao.ledger.entries("local", [CONTACT]) == {CONTACT: [theirs, entry]}
    assert await dao.ledger.entries("local", [CONTACT], newest=1) == {CONTACT: [entry]}
    assert await dao.ledger.positions("local", [CONTACT]) == {CONTACT: 2}
    # It had ended: nothing more is written.
    assert not await dao.effects.end(
        key, ended, fence=1, outcome=None, ledger_entries=[entry], at=now()
    )
    assert await dao.ledger.positions("local", [CONTACT]) == {CONTACT: 2}
    async with database.connection() as connection:
        rows = await connection.fetch("select e::text, l::text from effects e, ledger l")
    assert ('"fax"' in str(rows).replace("\\", "")) is not secret
    without = dao_of(database, secret_key="another")
    [read] = await without.effects.standing(key)
    assert read.effect.purged is secret


async def test_an_intent_finds_what_the_ledger_has_of_its_things(dao: Dao) -> None:
    key, head = await running(dao)
    ended, entry = done(await intended(dao, key, head))
    other = ResourceKey("crm", "contact", (18,))
    entries = [LedgerEntry(CONTACT, Source.STRANGER, {("name",): "B"}), entry]
    end = {"fence": 1, "outcome": CallOutcome.REPLIED, "at": now()}
    await dao.effects.end(key, ended, ledger_entries=entries, **end)  # type: ignore[arg-type]
    for newest, found in ((9, entries), (1, [entry])):
        made = await dao.effects.intend(
            key,
            effect_of(key),
            fence=1,
            held=Held(new_id(), 0),
            lock_expiry=9,
            call_key="f",
            over_doubt=True,
            shown={},
            project_id="local",
            resources=[CONTACT, other],
            newest=newest,
        )
        assert made.known == {CONTACT: found, other: []}


async def test_effects_are_numbered_in_the_order_of_their_intents(dao: Dao) -> None:
    key, head = await running(dao)
    first, second = [await intended(dao, key, head, over_doubt=True) for _ in range(2)]
    assert (first.number, second.number) == (1, 2)
    assert [e.effect.id for e in await dao.effects.of_session(key, after=1, limit=9)] == [second.id]


async def test_where_effects_stand_is_read_each_time_whichever_process_has_changed_it(
    dao: Dao, database: Database
) -> None:
    key, head = await running(dao)
    first, second = [await intended(dao, key, head, over_doubt=True) for _ in range(2)]
    known = StandsKnown()
    assert list(await dao.stands.of(key, known)) == [
        Stands(effect.id, STEP.id, "crm.set_phone", Standing.IN_DOUBT) for effect in (first, second)
    ]
    other = dao_of(database).effects
    await other.stand(key, first.id, was=Standing.IN_DOUBT, now=Standing.IN_FORCE)
    third = await intended(dao, key, head, over_doubt=True)
    stands = await dao.stands.of(key, known)
    assert [(one.id, one.standing) for one in stands] == [
        (first.id, Standing.IN_FORCE),
        (second.id, Standing.IN_DOUBT),
        (third.id, Standing.IN_DOUBT),
    ]
    await other.stand(key, second.id, was=Standing.IN_DOUBT, now=None)
    await other.stand(key, first.id, was=Standing.IN_FORCE, now=Standing.REVERTED)
    stands = await dao.stands.of(key, known)
    assert [(one.id, one.standing) for one in stands] == [
        (first.id, Standing.REVERTED),
        (third.id, Standing.IN_DOUBT),
    ]
    assert await dao.stands.of(key, known) == stands
    assert stands == await dao.stands.of(key, StandsKnown())


async def test_a_call_like_one_that_is_in_doubt_is_not_intended_until_that_was_looked_into(
    dao: Dao,
) -> None:
    key, head = await running(dao)
    effect = await intended(dao, key, head)
    with pytest.raises(InDoubt) as doubt:
        await intended(dao, key, head)
    assert doubt.value.effect_ids == [effect.id]
    clean = replace(effect, state=CallState.FAILED_CLEAN, standing=None)
    await dao.effects.end(key, clean, fence=1, outcome=CallOutcome.LOST, at=now())
    assert (await intended(dao, key, head)).number == 2


async def test_without_its_run_or_its_open_step_nothing_is_written(dao: Dao) -> None:
    key, head = await running(dao)
    with pytest.raises(FencedOff):
        await dao.effects.open(key, fence=2, head_step=head, step=STEP)
    with pytest.raises(FencedOff):
        await dao.effects.open(key, fence=1, head_step=new_id(), step=STEP)
    none = Held(new_id(), 0)
    for fence in (1, 2):  # no step is open, and then it is another's run
        with pytest.raises(FencedOff):
            await dao.effects.intend(
                key, effect_of(key), fence=fence, held=none, lock_expiry=9, call_key="f", shown={}
            )
        await dao.effects.open(key, fence=1, head_step=head, step=STEP)
    assert await dao.effects.opened(key) == STEP
    effect = await intended(dao, key, head)
    with pytest.raises(FencedOff):
        await dao.effects.end(key, effect, fence=2, outcome=None, at=now())
    [logged] = await dao.effects.of_step(key, STEP.id)
    assert logged.effect.state is CallState.INTENT


# -- locks


def hold(dao: Dao, *resources: ResourceKey, patience: float = 0.0, expiry: float = 9.0):  # type: ignore[no-untyped-def]
    return dao.locks.hold("local", resources, expiry=expiry, grace=9, patience=patience)


async def test_a_thing_is_worked_on_by_one_call_at_a_time_whichever_process_makes_it(
    database: Database, dao: Dao
) -> None:
    other, at_once, most = dao_of(database), 0, 0
    things = [ResourceKey("crm", "contact", (n,)) for n in range(3)]

    async def work(of: Dao, *which: int) -> None:
        nonlocal at_once, most
        async with hold(of, *(things[n] for n in which), patience=20):
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.005)
            at_once -= 1

    pairs = [(0, 1), (1, 2), (2, 0), (0, 1, 2)] * 3
    await asyncio.gather(*(work((dao, other)[n % 2], *pair) for n, pair in enumerate(pairs)))
    assert most == 1


async def test_who_does_not_get_all_of_them_has_none_and_is_told(dao: Dao) -> None:
    one, two = ResourceKey("crm", "contact", (1,)), ResourceKey("crm", "contact", ("1",))
    async with hold(dao, two):
        with pytest.raises(ResourceBusy, match="lock_patience"):
            async with hold(dao, one, two):
                pass
        async with hold(dao, one):
            pass


async def test_a_lock_that_ran_out_is_anybodys_and_its_holder_cannot_send_any_more(
    dao: Dao,
) -> None:
    key, head = await running(dao)
    await dao.effects.open(key, fence=1, head_step=head, step=STEP)
    async with hold(dao, CONTACT, expiry=0.01) as lost:
        await asyncio.sleep(0.05)
        async with hold(dao, CONTACT) as held:
            with pytest.raises(ResourceBusy):
                await dao.effects.intend(
                    key, effect_of(key), fence=1, held=lost, lock_expiry=9, call_key="f", shown={}
                )
            await dao.effects.intend(
                key, effect_of(key), fence=1, held=held, lock_expiry=9, call_key="f", shown={}
            )


async def test_a_dead_processs_locks_are_had_after_a_grace(database: Database, dao: Dao) -> None:
    dead = dao_of(database)
    async with hold(dead, CONTACT, expiry=60):
        with pytest.raises(ResourceBusy):
            async with dao.locks.hold("local", [CONTACT], expiry=9, grace=9, patience=0):
                pass
        await asyncio.sleep(0.05)
        async with dao.locks.hold("local", [CONTACT], expiry=9, grace=0.01, patience=0):
            pass


async def test_locks_of_the_same_holder_that_were_taken_later_are_not_dropped_with_the_first(
    dao: Dao,
) -> None:
    times, holder = {"expiry": 9.0, "grace": 9.0, "patience": 0.0}, new_id()
    first = await dao.locks.take("local", [CONTACT], holder=holder, **times)
    await dao.locks.release(holder)
    second = await dao.locks.take("local", [CONTACT], holder=holder, **times)
    await dao.locks.drop(first)
    with pytest.raises(ResourceBusy):
        await dao.locks.take("local", [CONTACT], **times)
    await dao.locks.drop(second)
    await dao.locks.drop(await dao.locks.take("local", [CONTACT], **times))
