"""Carrying an undo out: the core's plan and run, over the real log, with an environment's tools.

The rows of the run are kept in memory, the effects' standings and the ledger's entries as well, so
that a second run goes on from the first. Time goes on by itself where the run waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from turnback.core.contracts import answers, choose
from turnback.core.contracts.choose import Before
from turnback.core.contracts.model import UNDECLARED, Contract
from turnback.core.contracts.states import Observation
from turnback.core.drift import LedgerEntry
from turnback.core.effects import Effect, Json, ResourceKey
from turnback.core.errors import Lost, NotSent
from turnback.core.undo.actions import (
    Answer,
    Answered,
    Event,
    Finish,
    HeldTaken,
    Observed,
    Read,
    Send,
    Settle,
    Settled,
    StandDown,
    TakeBackHeld,
    Wait,
)
from turnback.core.undo.budget import Budget, UndoLimits
from turnback.core.undo.plan import Plan, begin, make_plan
from turnback.core.undo.rows import (
    Changes,
    CompensationCallRow,
    CompensationRow,
    Policy,
    ResidueRow,
    RunRow,
)
from turnback.core.undo.run import Run
from turnback.store.ids import new_id
from turnback.tools import observing
from turnback.tools.settle import now_ms

if TYPE_CHECKING:
    from bench.undo.scene import Scene

checking: tuple[object, object] | None = None
"""The world as it is at a check and as it was after the effect's step: for a control alone."""

LIMITS = UndoLimits()
FOR_EVER = 2**62
MOST_ACTIONS = 5_000


@dataclass
class Ended:
    """A run that is over, with the rows that it left and the effects as they stand."""

    plan: Plan
    run: RunRow
    effects: dict[str, Effect]
    compensations: dict[str, CompensationRow]
    calls: dict[tuple[str, int], CompensationCallRow]
    residues: dict[str, ResidueRow]
    ledger: dict[ResourceKey, list[LedgerEntry]]
    earlier: tuple[CompensationCallRow, ...] = ()
    sent: list[str] = field(default_factory=list)


async def carry(
    scene: Scene,
    earlier: Ended | None = None,
    *,
    policy: Policy = Policy.INDEPENDENT,
    budget: Budget | None = None,
) -> Ended:
    """Plan for all that stands, and go on until the run is over; `earlier` is the run before."""
    if earlier is None:
        effects = [one.effect for one in await scene.effects()]
        ledger = await scene.ledger(effects)
    else:
        effects, ledger = list(earlier.effects.values()), earlier.ledger
    now = now_ms()
    plan = make_plan(
        [effect.id for effect in effects],
        effects=effects,
        sessions=frozenset({scene.actor.key.id}),
        now=now,
        limits=LIMITS,
        policy=policy,
        budget=budget,
        with_dependents=True,
    )
    assert plan.runnable
    row, members = begin(
        plan,
        run_id=new_id(),
        plan_id=new_id(),
        session_id=scene.actor.key.id,
        generation=1 if earlier is None else earlier.run.generation + 1,
        now=now,
        earlier=None if earlier is None else earlier.compensations,
    )
    ended = Ended(
        plan,
        row,
        {effect.id: effect for effect in effects},
        {member.effect_id: member for member in members},
        {},
        {},
        ledger,
        () if earlier is None else (*earlier.earlier, *earlier.calls.values()),
    )
    await go_on(scene, ended)
    return ended


async def go_on(scene: Scene, ended: Ended) -> None:
    """A run from its rows, to its end; of one that is over, nothing."""
    run = Run(
        ended.run,
        [ended.effects[id_] for id_ in ended.compensations],
        ended.compensations.values(),
        ended.calls.values(),
        limits=LIMITS,
        prior=ended.earlier,
        ledger=ended.ledger,
    )
    now = max(now_ms(), ended.run.started_at)
    hands = _Hands(scene, run)
    for _ in range(MOST_ACTIONS):
        action = run.next(now, lease_until=FOR_EVER)
        now += 1
        match action:
            case Wait(until):
                now = max(now, until)
                continue
            case Finish():
                _commit(ended, run.take())
                return
            case Send():
                _commit(ended, run.take())
                ended.sent.append(action.key)
                event: Event = await hands.send(action)
            case Read():
                event = await hands.read(action)
            case Settle(effect_id):
                event = Settled(run.effects[effect_id])
            case TakeBackHeld(effect_id):
                event = HeldTaken(run.effects[effect_id])
            case StandDown():
                raise AssertionError("the lease is for ever")
            case _:
                assert_never(action)
        run.feed(event, now)
    raise AssertionError("a run that goes in circles")


@dataclass
class _Hands:
    scene: Scene
    run: Run
    seen: dict[str, Before] = field(default_factory=dict)
    results: dict[str, Json] = field(default_factory=dict)

    def _contract(self, tool: str) -> Contract:
        found = self.scene.registry.get(self.scene.dojo.name, tool)
        return UNDECLARED if found is None else found.contract

    async def read(self, action: Read) -> Observed:
        global checking
        effect = self.run.effects[action.effect_id]
        was = self.scene.steps.get(effect.tool_call_id)
        checking = None if was is None else (self.scene.dojo.leaves, was)
        before = Before(
            tuple(
                [
                    seen
                    for resource in action.resources
                    for seen in (await self._look(resource)).observed
                ]
            )
        )
        self.seen[action.effect_id] = before
        return Observed(action.effect_id, action.why, dict(before.observed))

    async def _look(self, resource: ResourceKey) -> Before:
        limits = self.scene.calls.limits
        tool = next(
            effect.tool
            for effect in self.run.effects.values()
            if any(touch.resource == resource for touch in effect.touches)
        )
        return await observing.observe(
            self.scene.dojo,
            self._contract(tool),
            [resource],
            seconds=limits.tool_timeout,
            max_bytes=limits.max_before,
        )

    async def send(self, action: Send) -> Answered:
        call, contract = action.call, self._contract(action.call.tool)
        for key, seen in self.seen.get(action.effect_id, Before()).observed:
            if call.if_match and isinstance(seen, Observation):
                names = self._contract(self.run.effects[action.effect_id].tool).resources[key.kind]
                call = choose.guarded(call, dict(zip(names.key, key.key, strict=True)), seen.answer)
        try:
            reply = await self.scene.dojo.call(
                call.tool, call.args, timeout=self.scene.calls.limits.tool_timeout, key=action.key
            )
        except NotSent as error:
            return Answered(action.effect_id, action.n, Answer.NOT_SENT, error.message)
        except Lost as error:
            return Answered(action.effect_id, action.n, Answer.LOST, error.message)
        failed = answers.is_error(
            contract, call.args, is_error=reply.is_error, answer=reply.document
        )
        answer = Answer.REFUSED if failed else Answer.OK
        return Answered(action.effect_id, action.n, answer, reply.text if failed else "")


def _commit(ended: Ended, changes: Changes) -> None:
    ended.run = changes.run or ended.run
    ended.compensations.update({row.effect_id: row for row in changes.compensations})
    ended.calls.update({(row.effect_id, row.n): row for row in changes.calls})
    ended.residues.update({row.effect_id: row for row in changes.residues})
    for effect in changes.effects:
        ended.effects[effect.id] = effect
    for effect_id, standing in changes.standings:
        ended.effects[effect_id] = replace(ended.effects[effect_id], standing=standing)
    known: Mapping[ResourceKey, list[LedgerEntry]] = ended.ledger
    for entry in changes.ledger:
        known[entry.resource].append(entry)
