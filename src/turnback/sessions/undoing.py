"""From what is to be undone to a plan, and from a plan that was agreed to to its run.

A plan is made from the log alone. When it is to be run it is made again: only what comes to the
same digest is begun, and the commit that begins it compares what other sessions may have written in
between (undo.md 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnback.core import tree
from turnback.core.effects import Effect, Verb
from turnback.core.errors import (
    NotOverwritable,
    PlanChanged,
    PlanRefused,
    PlanRequired,
    UndoInProgress,
    UnknownEffect,
)
from turnback.core.undo.asked import AskedUndo
from turnback.core.undo.budget import UndoLimits
from turnback.core.undo.plan import OPEN_STANDINGS, Plan, begin, make_plan
from turnback.core.undo.progress import Phase, Progress, progress
from turnback.core.undo.residue import acknowledged
from turnback.core.undo.rows import Changes, Reason, ResidueStatus, RunStatus
from turnback.sessions.memory import Memory
from turnback.sessions.plans import now_ms
from turnback.settings import Settings
from turnback.store.ids import is_id, new_id
from turnback.store.rows import UndoBegins, UndoWrite
from turnback.store.undo_plans import StoredPlan
from turnback.undo.runner import Step


def undo_limits(settings: Settings) -> UndoLimits:
    """The limits of the settings as the core has them, in ms."""
    return UndoLimits(
        reads_per_member=settings.undo_reads,
        tokens=settings.undo_tokens,
        run_ms=round(settings.undo_timeout * 1000),
        attempts=settings.undo_attempts,
        effect_attempts=settings.undo_effect_attempts,
        backoff_ms=round(settings.undo_backoff * 1000),
        longest_backoff_ms=round(settings.undo_backoff_max * 1000),
        read_lag_ms=round(settings.read_lag * 1000),
    )


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A plan as the log has it now, and the effects that it speaks of, by id."""

    plan: Plan
    effects: Mapping[str, Effect]


@dataclass(frozen=True, slots=True)
class Begun:
    """What a commit writes to begin a run, and what is told of it."""

    write: UndoWrite
    told: Progress


def steps_from(known: tree.Tree, first: tree.Step) -> list[str]:
    """The steps that a revert to before `first` leaves, newest first."""
    left: list[str] = []
    for step in known.path():
        left.append(step.id)
        if step.id == first.id:
            break
    return left


class UndoPlanning:
    """Plans over one session's memory."""

    def __init__(self, memory: Memory, settings: Settings) -> None:
        self._memory = memory
        self._settings = settings
        self._limits = undo_limits(settings)

    async def foresee(self, asked: AskedUndo) -> Foreseen:
        """The plan for what is asked. Raises the refusals of a revert where one is asked for."""
        memory, known = self._memory, self._memory.tree
        key, dao = memory.key, memory.dao
        steps: list[str] = []
        head_before = head_after = None
        if asked.to_before is not None:
            first = known.step_on_path(asked.to_before)
            head_before, head_after = known.head.step_id, known.parent(first).step_id
            steps = steps_from(known, first)
        named = [id_ for id_ in asked.ids if is_id(id_)]
        own = await dao.effects.standing(key, among=OPEN_STANDINGS)
        others = await dao.effects.of_others(key, named, steps=[s for s in steps if is_id(s)])
        effects = [logged.effect for logged in (*own, *others)]
        at = set(steps)
        ids = [*named, *(effect.id for effect in effects if effect.step_id in at)]
        touched = dict.fromkeys(touch.resource for one in own for touch in one.effect.touches)
        now = round(now_ms().timestamp() * 1000)
        plan = make_plan(
            ids,
            effects=effects,
            sessions=frozenset({key.id}),
            now=now,
            limits=self._limits,
            policy=asked.policy,
            with_dependents=asked.with_dependents,
            head_before=head_before,
            head_after=head_after,
            positions=await dao.ledger.positions(memory.row.project_id, touched),
        )
        budget = asked.within(plan.budget)
        return Foreseen(replace(plan, budget=budget), {effect.id: effect for effect in effects})

    async def named(self, turn_ids: Sequence[str], effect_ids: Sequence[str]) -> tuple[str, ...]:
        """What somebody has named, if it is there. Raises `UnknownTurn`, `UnknownEffect`."""
        known, key = self._memory.tree, self._memory.key
        for turn_id in turn_ids:
            known.turn(turn_id)
        there = await self._memory.dao.effects.by_id(key, [i for i in effect_ids if is_id(i)])
        ours = {
            effect.id
            for effect in (logged.effect for logged in there)
            if effect.session_id == key.id or effect.turn_id in known.turns
        }
        for effect_id in effect_ids:
            if effect_id not in ours:
                raise UnknownEffect(f"Unknown effect: {effect_id}")
        return (*turn_ids, *effect_ids)

    async def show(self, asked: AskedUndo, *, by: str) -> tuple[StoredPlan, Foreseen]:
        """A plan, kept for who asks so that they can have it run."""
        foreseen = await self.foresee(asked)
        stored = await self._memory.dao.undo_plans.keep(
            self._memory.key,
            by=by,
            asked=asked,
            plan=foreseen.plan,
            seconds=self._settings.undo_plan_ttl,
        )
        return stored, foreseen

    async def rest_of(self, undo_id: str) -> tuple[str, ...]:
        """The effects of an earlier run, of which a new plan takes those that still stand."""
        undo = await self._memory.dao.undos.get(self._memory.key, undo_id)
        return tuple(row.effect_id for row in undo.members)

    async def joined(self, plan_id: str) -> str | None:
        """The run that this plan began, if somebody has had it run."""
        return await self._memory.dao.undo_plans.run_of(self._memory.key, plan_id)

    def refuse_while_under_way(self) -> None:
        """Raise `UndoInProgress` while an undo's run has not ended."""
        if (undo := self._memory.undo) is not None:
            raise UndoInProgress(
                "The session is busy with an undo; wait for its end or stop it", undoId=undo.id
            )

    async def beginning(self, plan_id: str, *, by: str) -> Begun | None:
        """The start of this plan's run; None where nothing is left to undo.

        Raises `UnknownPlan`, `PlanChanged`, `PlanRefused`.
        """
        stored = await self._memory.dao.undo_plans.get(self._memory.key, plan_id, by=by)
        asked = stored.asked
        if asked.to_before is not None:  # what was agreed to moves HEAD too
            plan = (await self.foresee(asked)).plan
            asked = replace(asked, to_before=None, ids=tuple(m.effect_id for m in plan.members))
        return await self._agreed(stored, asked, by=by)

    async def beginning_with(
        self, first: tree.Step, plan_id: str | None, *, by: str
    ) -> Begun | None:
        """The start of the undo of all that was done from this step on, with a revert to before it.

        Without a plan, nobody has looked: only what is taken back wholly is begun. Raises
        `PlanRequired` then, and as `beginning` does.
        """
        asked = AskedUndo(to_before=first.id)
        if plan_id is not None:
            stored = await self._memory.dao.undo_plans.get(self._memory.key, plan_id, by=by)
            if stored.asked.to_before == first.id:
                asked = stored.asked
            return await self._agreed(stored, asked, by=by)
        foreseen = await self.foresee(asked)
        if not foreseen.plan.members:
            return None
        if not foreseen.plan.plain:
            shown, foreseen = await self.show(asked, by=by)
            raise PlanRequired(
                "Not all of this can be taken back; look at the plan, and send it again with its"
                " `planId`",
                planId=shown.id,
                plan=ShownPlan(shown, foreseen),
            )
        stored, foreseen = await self.show(asked, by=by)
        return await self._begin(stored, foreseen, by=by)

    async def _agreed(self, stored: StoredPlan, asked: AskedUndo, *, by: str) -> Begun | None:
        foreseen = await self.foresee(asked)
        if stored.is_old or foreseen.plan.digest != stored.digest:
            shown, foreseen = await self.show(asked, by=by)
            raise PlanChanged(
                "What this would do has changed since you looked; look at the new plan",
                planId=shown.id,
                plan=ShownPlan(shown, foreseen),
            )
        if not foreseen.plan.members:
            return None
        return await self._begin(stored, foreseen, by=by)

    async def _begin(self, stored: StoredPlan, foreseen: Foreseen, *, by: str) -> Begun:
        plan, memory = foreseen.plan, self._memory
        if not plan.runnable:
            raise PlanRefused(
                "The plan cannot be run as it is: something in force depends on what it undoes, or"
                " its effects on each other; ask for one with what depends on them",
                missing=[edge.first for edge in plan.missing],
                cycle=list(plan.cycle),
            )
        ids = [member.effect_id for member in plan.members]
        generation, earlier = await memory.dao.undo_runs.earlier(memory.key, ids)
        run, rows = begin(
            plan,
            run_id=new_id(),
            plan_id=stored.id,
            session_id=memory.key.id,
            generation=generation + 1,
            now=round(now_ms().timestamp() * 1000),
            earlier=earlier,
        )
        write = UndoWrite(
            run=run,
            revision=1,
            changes=Changes(run=run, compensations=rows),
            begins=UndoBegins(
                plan={
                    "digest": plan.digest,
                    "effects": ids,
                    "headBefore": plan.head_before,
                    "headAfter": plan.head_after,
                },
                standings=tuple((m.effect_id, m.standing) for m in plan.members),
                positions=plan.positions,
            ),
        )
        return Begun(write, progress(run, rows, foreseen.effects, revision=1, by=by))

    async def overwriting(self, residue_id: str, *, by: str) -> Begun:
        """The start of one effect's undo over what somebody else has written, as a person saw it.

        If it has changed again by then, it is left again. Raises `UnknownResidue`,
        `NotOverwritable`, `PlanRefused`.
        """
        dao, key = self._memory.dao, self._memory.key
        undo = await dao.undos.of_residue(key, residue_id)
        effect_id = undo.residues[residue_id].effect_id
        [row] = [row for row in undo.members if row.effect_id == effect_id]
        asked = AskedUndo(ids=(effect_id,))
        stored, foreseen = await self.show(asked, by=by)
        members = [(member.effect_id, member.verb) for member in foreseen.plan.members]
        is_theirs = row.reason is Reason.DRIFT and bool(row.values) and effect_id not in undo.secret
        if not is_theirs or members != [(effect_id, Verb.REVERT)]:
            raise NotOverwritable(
                "There is nothing of somebody else's here to be overwritten, or not any more;"
                " look at the effect again"
            )
        begun = await self._begin(stored, foreseen, by=by)
        changes, begins = begun.write.changes, begun.write.begins
        assert begins is not None
        rows = tuple(replace(one, overwrites=row.values) for one in changes.compensations)
        write = replace(
            begun.write,
            changes=replace(changes, compensations=rows),
            begins=replace(begins, overwrites=residue_id),
        )
        return replace(begun, write=write)

    async def acknowledging(self, residue_id: str) -> Begun | None:
        """That a person has taken note of a residue; None where they have, or it is settled.

        Raises `UnknownResidue`.
        """
        undo = await self._memory.dao.undos.of_residue(self._memory.key, residue_id)
        row = undo.residues[residue_id]
        if row.status is not ResidueStatus.OPEN:
            return None
        revision = undo.revision + 1
        noted = {**undo.residues, residue_id: acknowledged(row)}
        ended = undo.run.status is RunStatus.ENDED
        told = replace(undo, revision=revision, residues=noted).progress(
            Phase.SETTLED if ended else None
        )
        return Begun(UndoWrite(run=undo.run, revision=revision, acknowledges=residue_id), told)

    async def stopping(self) -> Begun | None:
        """What stops the run under way; None where nothing is to be stopped."""
        under_way = self._memory.undo
        if under_way is None or under_way.stopped:
            return None
        undo = await self._memory.dao.undos.get(self._memory.key, under_way.id)
        revision = undo.revision + 1
        told = replace(undo.progress(Phase.RUN), revision=revision)
        return Begun(UndoWrite(run=replace(undo.run, stopped=True), revision=revision), told)

    async def caught_up(self, step: Step) -> Step:
        """A step of the run under way, with what people have made of its residues meanwhile."""
        under_way = self._memory.undo
        if under_way is None:
            return step
        undo = await self._memory.dao.undos.get(self._memory.key, under_way.id)
        items = []
        for item in step.told.items:
            left = item.residue
            if left is not None and left.residue_id in undo.residues:
                status = undo.residues[left.residue_id].status
                item = replace(item, residue=replace(left, status=status))
            items.append(item)
        return replace(step, told=replace(step.told, items=tuple(items)))

    async def taking_over(self) -> Begun:
        """What makes the run under way this process's."""
        under_way = self._memory.undo
        assert under_way is not None
        undo = await self._memory.dao.undos.get(self._memory.key, under_way.id)
        revision = undo.revision + 1
        told = replace(undo.progress(Phase.RUN), revision=revision)
        return Begun(UndoWrite(run=undo.run, revision=revision), told)


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan that somebody is shown; `api/rest/undo_plans.py` writes it."""

    stored: StoredPlan
    foreseen: Foreseen
