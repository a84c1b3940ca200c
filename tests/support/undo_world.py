"""A world in memory, an agent that acts on it, and a runner that undoes what it did.

Things have leaves; tools write them; strangers write them too; tools can be made to fail, to lie,
and to be silent. Nothing here decides anything: the plan, the run and the judgement are the
product's, and a test looks at the world that they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Any

from turnback.core.contracts.states import Observation, Unreadable
from turnback.core.drift import Cell, LedgerEntry, Source, strange
from turnback.core.effects import (
    STANDING_OF_CALL,
    Call,
    CallState,
    Effect,
    EffectClass,
    Json,
    LeafPath,
    ResourceKey,
    Standing,
    Touch,
)
from turnback.core.undo.actions import (
    Action,
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
    CompensationState,
    Policy,
    ResidueRow,
    RunRow,
)
from turnback.core.undo.run import Run

SERVER = "desk"
HOUR = 3_600_000
LIMITS = UndoLimits()
FAR = 10**15
CLEAN = CallState.FAILED_CLEAN

State = dict[Cell, Json]


def thing(id_: str, kind: str = "contact") -> ResourceKey:
    """The key of a thing in this world."""
    return ResourceKey(SERVER, kind, (id_,))


class Fault(StrEnum):
    """What goes wrong with a call of an inverse."""

    REFUSED = "refused"  # for good, and nothing done
    ERROR_BODY = "error_body"  # a success whose body is an error
    LIE = "lie"  # "updated", and nothing done
    WRONG = "wrong"  # "updated", with another value
    COLLATERAL = "collateral"  # done, and another leaf with it
    LOST_AFTER = "lost_after"  # done, and no reply
    LOST_BEFORE = "lost_before"  # not done, and no reply
    BUSY = "busy"  # 503, nothing done
    BUSY_AFTER = "busy_after"  # 503, and done all the same
    NOT_SENT = "not_sent"  # never left us


ONCE = frozenset({Fault.LOST_AFTER, Fault.LOST_BEFORE, Fault.NOT_SENT, Fault.BUSY_AFTER})
"""Faults of one attempt; the others come with every attempt."""


class ToolError(Exception):
    """What a tool answers when it does not do it."""


class Crash(Exception):
    """The process ends here."""


@dataclass
class World:
    """The things there are, and who wrote each leaf last."""

    things: dict[ResourceKey, dict[LeafPath, Json]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    calls: list[tuple[str, str | None]] = field(default_factory=list)
    acted: list[str | None] = field(default_factory=list)
    unreadable: dict[ResourceKey, str] = field(default_factory=dict)
    answers: dict[str, str | None] = field(default_factory=dict)
    original: dict[ResourceKey, dict[LeafPath, Json]] = field(default_factory=dict)
    written: list[tuple[str | None, dict[Cell, Json | None]]] = field(default_factory=list)
    ledger: dict[ResourceKey, list[LedgerEntry]] = field(default_factory=dict)
    late: dict[Cell, Json | None] = field(default_factory=dict)
    born: Iterator[int] = field(default_factory=lambda: count(1))
    watched: bool = True  # whether nobody else has written during an undo

    def begin(self) -> None:
        """From here on the world is the agent's to change."""
        self.original = deepcopy(self.things)

    # reading

    def read(self, key: ResourceKey) -> Observation | Unreadable:
        if key in self.unreadable:
            return Unreadable(self.unreadable[key])
        children = tuple(
            other
            for other in self.things
            if key.kind == "folder" and str(other.key[0]).startswith(f"{key.key[0]}/")
        )
        return Observation(dict(self.things.get(key, {})), {}, children=children)

    def state(self) -> State:
        return {
            Cell(key, path): value
            for key, leaves in self.things.items()
            for path, value in leaves.items()
        }

    def expected(self, undone: Collection[str]) -> State:
        """The world as it would be had these effects never been; what a stranger wrote stays."""
        state = {
            Cell(key, path): value
            for key, leaves in self.original.items()
            for path, value in leaves.items()
        }
        for effect_id, wrote in self.written:
            if effect_id is None or effect_id not in undone:
                for cell, value in wrote.items():
                    if value is None:
                        state.pop(cell, None)
                    else:
                        state[cell] = value
        return state

    def differing(self, undone: Collection[str]) -> set[Cell]:
        """The leaves that are not as an undo of these effects is to leave them."""
        now, expected = self.state(), self.expected(undone)
        return {
            cell for cell in now.keys() | expected.keys() if now.get(cell) != expected.get(cell)
        }

    # strangers

    def stranger(
        self, key: ResourceKey, leaves: Mapping[str, Json] | None, *, late: bool = True
    ) -> None:
        """Somebody else writes these leaves; None: removes the thing. `late`: after the agent."""
        if leaves is None:
            wrote: dict[LeafPath, Json | None] = dict.fromkeys(self.things.pop(key, {}), None)
        else:
            wrote = {(name,): value for name, value in leaves.items()}
            there = self.things.setdefault(key, {})
            if not there and key.kind == "ticket":
                wrote[("made",)] = next(self.born)
            there.update({path: value for path, value in wrote.items() if value is not None})
        cells = {Cell(key, path): value for path, value in wrote.items()}
        self.written.append((None, cells))
        if late:
            self.late.update(cells)

    def stranger_again(self, key: ResourceKey, leaves: Mapping[str, Json]) -> None:
        """Somebody else removes a thing and makes another one under its key."""
        self.stranger(key, None)
        self.stranger(key, leaves)

    # tools

    def act(self, call: Call, *, fault: Fault | None = None) -> None:
        """Do what a tool does; raises `ToolError` where it refuses."""
        args: Any = call.args
        if call.tool == "tell":
            self.told.extend(args["to"])
            return
        key = thing(args["id"], args.get("kind", "contact"))
        match call.tool:
            case "create":
                if key in self.things:
                    raise ToolError("409: it is there already")
                self.things[key] = {(name,): value for name, value in args["leaves"].items()}
                if key.kind == "ticket":
                    self.things[key]["made",] = next(self.born)
            case "delete":
                if self.things.pop(key, None) is None:
                    raise ToolError("404: there is no such thing")
            case "delete_tree":
                for other in [key, *self.read(key).children]:  # type: ignore[union-attr]
                    self.things.pop(other, None)
            case "set" | "replace" | "toggle":
                if key not in self.things:
                    raise ToolError("404: there is no such thing")
                self._write(key, call.tool, args)
            case "refund":
                if self.things[key].get(("status",)) == "refunded":
                    self.things[key]["twice",] = True
                self.things[key]["status",] = "refunded"
            case _:
                raise AssertionError(call.tool)
        if fault is Fault.WRONG and key in self.things:
            for name in args.get("leaves", {}):
                self.things[key][name,] = "wrong"
        if fault is Fault.COLLATERAL and key in self.things:
            self.things[key]["extra",] = "collateral"

    def _write(self, key: ResourceKey, tool: str, args: Any) -> None:
        leaves = self.things[key]
        if tool == "toggle":
            leaves[args["leaf"],] = not leaves[args["leaf"],]
            return
        if tool == "replace":
            leaves.clear()
        for name, value in args["leaves"].items():
            if value is None:
                leaves.pop((name,), None)
            else:
                leaves[name,] = value

    def call(self, call: Call, key: str | None, fault: Fault | None) -> tuple[Answer, str]:
        """What the server answers to a call of an inverse. It keeps answers by key, if it does."""
        self.calls.append((call.tool, key))
        honoured = key if call.key_ms else None
        if fault is Fault.NOT_SENT:
            return Answer.NOT_SENT, "connection refused"
        if fault is Fault.LOST_BEFORE:
            return Answer.LOST, ""
        if fault is Fault.BUSY:
            return Answer.TRANSIENT, "503"
        if honoured is not None and honoured in self.answers:
            error = self.answers[honoured]
        else:
            error = self._answer(call, key, fault)
            if honoured is not None:
                self.answers[honoured] = error
        if fault is Fault.LOST_AFTER:
            return Answer.LOST, ""
        if fault is Fault.BUSY_AFTER:
            return Answer.TRANSIENT, "503"
        return (Answer.OK, "") if error is None else (Answer.REFUSED, error)

    def _answer(self, call: Call, key: str | None, fault: Fault | None) -> str | None:
        if fault in (Fault.REFUSED, Fault.ERROR_BODY):
            return "404" if fault is Fault.REFUSED else '{"error": "no"}'
        if fault is Fault.LIE:
            return None
        try:
            self.act(call, fault=fault)
        except ToolError as error:
            return str(error)
        self.acted.append(key)
        return None


@dataclass
class Agent:
    """A session that acts and logs, as the call path does: read, write the intent, act, read."""

    world: World
    session: str = "session-1"
    turn: str = "turn-1"
    effects: dict[str, Effect] = field(default_factory=dict)
    key_ms: int = HOUR
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def call(
        self,
        tool: str,
        args: dict[str, Json],
        *,
        touches: Sequence[ResourceKey] = (),
        inverse: Callable[[dict[ResourceKey, dict[LeafPath, Json]]], Sequence[Call]] | None = None,
        class_: EffectClass = EffectClass.REVERSIBLE,
        result: Json = None,
        **more: Any,
    ) -> Effect:
        number = next(self.numbers)
        before = {key: self._leaves(key) for key in touches}
        state = CallState.DONE
        try:
            self.world.act(Call(tool, args))
        except ToolError:
            state = CallState.FAILED_CLEAN
        after = {key: self._leaves(key) for key in touches}
        if state is CallState.DONE and touches and before == after:
            state = CallState.DONE_UNCHANGED
        identity = frozenset({"made"})
        effect = Effect(
            id=f"{self.session}-e{number}",
            session_id=self.session,
            turn_id=self.turn,
            step_id=f"step-{number}",
            number=number,
            tool_call_id=f"call-{number}",
            connection=SERVER,
            tool=tool,
            contract="contract-1",
            class_=class_,
            case=0,
            state=state,
            standing=STANDING_OF_CALL[state],
            args=args,
            result=result,
            inverse=None if inverse is None else tuple(inverse(before)),
            touches=tuple(_touch(key, before[key], after[key], identity) for key in touches),
            at=number * 1000,
            **more,
        )
        self.effects[effect.id] = effect
        wrote: dict[Cell, Json | None] = {}
        for touch in effect.touches:
            wrote.update({Cell(touch.resource, path): None for path in touch.removed})
            wrote.update({Cell(touch.resource, path): v for path, v in touch.wrote.items()})
        self.world.written.append((effect.id, wrote))
        if state is CallState.DONE:
            self._log(effect)
        return effect

    def _leaves(self, key: ResourceKey) -> dict[LeafPath, Json]:
        return dict(self.world.things.get(key, {}))

    def _log(self, effect: Effect) -> None:
        for touch in effect.touches:
            entries = self.world.ledger.setdefault(touch.resource, [])
            assert touch.before is not None
            theirs = strange(touch.resource, entries, touch.before)
            if theirs is not None:
                entries.append(theirs)
            entries.append(
                LedgerEntry(
                    touch.resource,
                    Source.EFFECT,
                    touch.wrote,
                    touch.removed,
                    effect.id,
                    self.session,
                )
            )

    def change(self, effect: Effect, **members: Any) -> Effect:
        """What the log has of an effect, otherwise."""
        self.effects[effect.id] = replace(effect, **members)
        return self.effects[effect.id]

    # the tools, with their inverses

    def _undo(self, tool: str, **args: Json) -> Call:
        return Call(tool, args, key_ms=self.key_ms)

    def set(self, key: ResourceKey, leaf: str, value: Json, **more: Any) -> Effect:
        """Write one leaf; the inverse writes that leaf alone."""
        id_, kind = str(key.key[0]), key.kind
        return self.call(
            "set",
            {"id": id_, "kind": kind, "leaves": {leaf: value}},
            touches=[key],
            inverse=lambda before: [
                self._undo("set", id=id_, kind=kind, leaves={leaf: before[key].get((leaf,))})
            ],
            **{"narrow": True, **more},
        )

    def replace(self, key: ResourceKey, leaves: dict[str, Json], **more: Any) -> Effect:
        """Write the whole thing; the inverse does too."""
        id_, kind = str(key.key[0]), key.kind
        return self.call(
            "replace",
            {"id": id_, "kind": kind, "leaves": leaves},
            touches=[key],
            inverse=lambda before: [
                self._undo("replace", id=id_, kind=kind, leaves=_named(before[key]))
            ],
            **more,
        )

    def remake(self, key: ResourceKey, leaves: dict[str, Json], **more: Any) -> Effect:
        """Write the whole thing; the inverse removes it and makes it again."""
        id_, kind = str(key.key[0]), key.kind
        return self.call(
            "replace",
            {"id": id_, "kind": kind, "leaves": leaves},
            touches=[key],
            inverse=lambda before: [
                self._undo("delete", id=id_, kind=kind),
                self._undo("create", id=id_, kind=kind, leaves=_named(before[key])),
            ],
            **more,
        )

    def create(self, key: ResourceKey, leaves: dict[str, Json], **more: Any) -> Effect:
        id_, kind = str(key.key[0]), key.kind
        return self.call(
            "create",
            {"id": id_, "kind": kind, "leaves": leaves},
            touches=[key],
            inverse=lambda _: [self._undo("delete", id=id_, kind=kind)],
            **more,
        )

    def delete(self, key: ResourceKey, **more: Any) -> Effect:
        id_, kind = str(key.key[0]), key.kind
        return self.call(
            "delete",
            {"id": id_, "kind": kind},
            touches=[key],
            inverse=lambda before: [
                self._undo("create", id=id_, kind=kind, leaves=_named(before[key]))
            ],
            **more,
        )

    def set_for_good(self, key: ResourceKey, leaf: str, value: Json, **more: Any) -> Effect:
        """Write one leaf with a tool that has no inverse."""
        return self.call(
            "set",
            {"id": str(key.key[0]), "kind": key.kind, "leaves": {leaf: value}},
            touches=[key],
            class_=EffectClass.IRREVERSIBLE,
            **more,
        )

    def tell(self, *to: str, **more: Any) -> Effect:
        return self.call(
            "tell",
            {"to": list(to)},
            class_=EffectClass.IRREVERSIBLE,
            **{"tells": True, "people": to, **more},
        )

    def charge(self, id_: str, **more: Any) -> Effect:
        """Take money; the inverse gives it back, which leaves both on record."""
        key = thing(id_, "charge")
        return self.call(
            "create",
            {"id": id_, "kind": "charge", "leaves": {"status": "paid"}},
            touches=[key],
            class_=EffectClass.COMPENSABLE,
            inverse=lambda _: [self._undo("refund", id=id_, kind="charge")],
            **{"residue": "payment_refunded", **more},
        )


def _touch(
    key: ResourceKey,
    before: dict[LeafPath, Json],
    after: dict[LeafPath, Json],
    identity: frozenset[str],
) -> Touch:
    return Touch(
        key,
        before,
        {path: value for path, value in after.items() if before.get(path) != value},
        frozenset(before.keys() - after.keys()),
        identity,
    )


def _named(leaves: Mapping[LeafPath, Json]) -> dict[str, Json]:
    return {path[0]: value for path, value in leaves.items()}


@dataclass
class Store:
    """The rows of one undo run, as the database would hold them, and what went before it."""

    agents: Sequence[Agent]
    plan: Plan
    run: RunRow
    limits: UndoLimits = LIMITS
    compensations: dict[str, CompensationRow] = field(default_factory=dict)
    calls: dict[tuple[str, int], CompensationCallRow] = field(default_factory=dict)
    residues: dict[str, ResidueRow] = field(default_factory=dict)
    prior: list[CompensationCallRow] = field(default_factory=list)
    ledger: dict[ResourceKey, list[LedgerEntry]] = field(default_factory=dict)
    fence: int = 0

    def effects(self) -> dict[str, Effect]:
        return {id_: effect for agent in self.agents for id_, effect in agent.effects.items()}

    def load(self) -> Run:
        """The run as another process finds it."""
        members = self.effects()
        return Run(
            self.run,
            [members[member.effect_id] for member in self.plan.members],
            self.compensations.values(),
            self.calls.values(),
            limits=self.limits,
            prior=self.prior,
            ledger=deepcopy(self.ledger),
        )

    def commit(self, changes: Changes) -> None:
        if changes.run is not None:
            self.run = changes.run
        self.compensations.update({row.effect_id: row for row in changes.compensations})
        self.calls.update({(call.effect_id, call.n): call for call in changes.calls})
        self.residues.update({row.effect_id: row for row in changes.residues})
        for effect in changes.effects:
            self.log(effect)
        for id_, standing in changes.standings:
            self.log(replace(self.effects()[id_], standing=standing))
        for entry in changes.ledger:
            self.ledger.setdefault(entry.resource, []).append(entry)

    def log(self, effect: Effect) -> None:
        for agent in self.agents:
            if effect.id in agent.effects:
                agent.effects[effect.id] = effect

    def state(self, effect: Effect) -> CompensationState:
        return self.compensations[effect.id].state

    @property
    def members(self) -> frozenset[str]:
        return frozenset(member.effect_id for member in self.plan.members)


@dataclass
class Runner:
    """What carries a run out. `before` is called ahead of each read or wait, as strangers come.

    `faults` says what goes wrong, by effect and ordinal of the call. `crash_at`: the moments, of
    all before and after an action, at which the process ends; another goes on from the rows.
    `verifies`: whether the contract of a charge can tell that it is given back; where it cannot,
    the refund's own contract says that it makes something.
    """

    world: World
    store: Store
    faults: Mapping[tuple[str, int], Fault] = field(default_factory=dict)
    busy: int = 3
    before: Callable[[Action], None] = lambda _: None
    settled: Callable[[Effect], Effect] = lambda effect: effect
    held: Callable[[Effect], Effect] = lambda effect: replace(
        effect, state=CallState.FAILED_CLEAN, standing=Standing.CANCELLED
    )
    confirms: bool | None = None
    passes: bool | None = None
    verifies: bool = True
    made: tuple[ResourceKey, ...] = ()
    may_have_made: bool = False
    crash_at: frozenset[int] = frozenset()
    eager: bool = False
    now: int = HOUR
    moments: Iterator[int] = field(default_factory=lambda: count(0))
    attempts: dict[tuple[str, int], int] = field(default_factory=dict)

    def carry_out(self) -> Store:
        """Go on until the run is over, through all crashes."""
        for _ in range(100):
            try:
                self._process()
            except Crash:
                continue
            return self.store
        raise AssertionError("a run that never ends")

    def _process(self) -> None:
        run = self.store.load()
        for _ in range(2_000):
            action = run.next(self.now, lease_until=FAR)
            if self.eager or isinstance(action, Send | Finish):
                self._moment()
                self.store.commit(run.take())
            self._moment()
            if isinstance(action, Finish):
                return
            if isinstance(action, Wait):
                self.before(action)
                self.now = max(self.now, action.until)
                continue
            event = self.perform(action)
            self._moment()
            self.now += 1
            run.feed(event, self.now)
        raise AssertionError("a run that goes in circles")

    def _moment(self) -> None:
        if next(self.moments) in self.crash_at:
            raise Crash

    def perform(self, action: Action) -> Event:
        match action:
            case Read(effect_id, why, resources):
                self.before(action)
                seen = {key: self.world.read(key) for key in resources}
                adds = not self.verifies and any(key.kind == "charge" for key in resources)
                return Observed(effect_id, why, seen, self._passes(seen), adds=adds)
            case Send(effect_id, n, key, call):
                answer, detail = self.world.call(call, key, self._fault(effect_id, n))
                made = self.made if answer is Answer.OK else ()
                doubt = self.may_have_made
                return Answered(effect_id, n, answer, detail, self.confirms, made, doubt)
            case Settle(effect_id):
                self.before(action)
                effect = self.settled(self.store.effects()[effect_id])
                self._log(effect)
                return Settled(effect)
            case TakeBackHeld(effect_id):
                effect = self.held(self.store.effects()[effect_id])
                self.store.log(effect)
                return HeldTaken(effect)
            case StandDown() | Wait() | Finish():
                raise AssertionError(action)

    def _passes(self, seen: Mapping[ResourceKey, Observation | Unreadable]) -> bool | None:
        """What a contract's `verify` says; of a charge that is given back, that it is."""
        if self.passes is not None:
            return self.passes
        for key, sight in seen.items():
            if self.verifies and key.kind == "charge" and isinstance(sight, Observation):
                return sight.leaves.get(("status",)) == "refunded"
        return None

    def _log(self, effect: Effect) -> None:
        """What is found out of a doubt is in the log at once, whatever becomes of the process."""
        if effect.state not in (CallState.INTENT, CallState.IN_DOUBT):
            standing = STANDING_OF_CALL[effect.state]
            self.store.log(replace(effect, standing=standing))

    def _fault(self, effect_id: str, n: int) -> Fault | None:
        fault = self.faults.get((effect_id, n))
        attempt = self.attempts[effect_id, n] = self.attempts.get((effect_id, n), 0) + 1
        if fault in ONCE and attempt > 1:
            return None
        if fault is Fault.BUSY and attempt > self.busy:
            return None
        return fault


def planned(
    *agents: Agent,
    asked: Sequence[str] | None = None,
    policy: Policy = Policy.STOP,
    budget: Budget | None = None,
    limits: UndoLimits = LIMITS,
    with_dependents: bool = False,
    now: int = HOUR,
    earlier: Store | None = None,
) -> Store:
    """A plan for what is asked, all that these agents did if nothing is, and its first rows."""
    effects = [effect for agent in agents for effect in agent.effects.values()]
    plan = make_plan(
        asked if asked is not None else [effect.id for effect in effects],
        effects=effects,
        sessions=frozenset(agent.session for agent in agents),
        now=now,
        limits=limits,
        policy=policy,
        budget=budget,
        with_dependents=with_dependents,
    )
    generation = 1 if earlier is None else earlier.run.generation + 1
    run, compensations = begin(
        plan,
        run_id=f"run-{generation}",
        plan_id=f"plan-{generation}",
        session_id=agents[0].session,
        generation=generation,
        now=now,
        earlier=None if earlier is None else earlier.compensations,
    )
    return Store(
        agents,
        plan,
        run,
        limits,
        {row.effect_id: row for row in compensations},
        prior=[] if earlier is None else [*earlier.prior, *earlier.calls.values()],
        ledger=agents[0].world.ledger,
    )


def undo(world: World, *agents: Agent, faults: Any = None, **options: Any) -> Store:
    """Plan and carry out; options of the plan and of the runner."""
    plans = {"asked", "policy", "budget", "limits", "with_dependents", "earlier"}
    plan_options = {name: options.pop(name) for name in list(options) if name in plans}
    store = planned(*agents, **plan_options)
    assert store.plan.runnable
    return Runner(world, store, faults=faults or {}, **options).carry_out()
