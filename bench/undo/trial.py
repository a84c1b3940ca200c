"""One trial: calls made, perhaps disturbed, taken back; and what is wrong with what was said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.undo.dojo import Fault, Leaves, Path, differing, spelt
from bench.undo.leaves import claimed
from bench.undo.scene import Scene
from bench.undo.service import Undone
from turnback.core.effects import Effect, ResourceKey, Verb
from turnback.core.undo.rows import Claim, CompensationState, Outcome

BACK = frozenset(
    {CompensationState.REVERTED, CompensationState.COMPENSATED, CompensationState.CANCELLED}
)
Act = Callable[[Any], object]


class Rule(StrEnum):
    """What no trial may break."""

    FALSE = "said fully reverted while the world differs"
    OVERWRITTEN = "a stranger's leaf overwritten"
    UNCLAIMED = "leaves that differ and no residue claims"
    MISSED = "drift that was not found"
    IMAGINED = "drift found where there was none"
    CLICKED = "leaves and calls of a second click"
    OVERRUN = "calls over the budget, or reads, counted in the world"
    TWICE = "an inverse that acted twice"
    INSISTED = "a call tried again though refused for good"
    LEFT = "undisturbed, all of it reversible, and not fully back"
    LESS = "a fault that passed, and less was taken back than without it"


class Expected(StrEnum):
    """What must come of the effect that a stranger wrote to.

    `REVIEW`: nothing is written, a person looks. `BACK`: it is taken back all the same, since it is
    already as before, or the stranger's leaves lie beside. `NOTHING`: it cannot be taken back.
    """

    REVIEW = "review"
    BACK = "back"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Trial:
    """What came of one, counted in the world and held against what was said of it.

    `broken` has how often each rule was.
    """

    name: str
    changed: bool
    outcome: Outcome | None
    states: tuple[CompensationState, ...]
    differ: frozenset[Path]
    claimed: int
    overclaimed: int
    calls: int
    broken: Mapping[Rule, int]

    @property
    def fully(self) -> bool:
        return self.outcome is Outcome.FULLY_REVERTED and not self.differ

    @property
    def back(self) -> int:
        """How many effects were taken back."""
        return sum(state in BACK for state in self.states)


def faulty(fault: Fault, *, once: bool) -> Callable[[int], Fault | None]:
    """Of each inverse call, or of the first alone, this goes wrong."""
    return lambda n: None if once and n > 1 else fault


async def taken_back(
    one: Scene,
    name: str,
    *,
    fault: Callable[[int], Fault | None] | None = None,
    late: Callable[[int, str], None] | None = None,
    expects: Expected | None = None,
    least: Trial | None = None,
    once_only: bool = False,
    disturbed: bool = False,
    **asked: Any,
) -> Trial:
    """Take back what a scene's session did, and judge it.

    `fault` and `late` are asked at each call, with how many writes there have been. `expects` is
    what must come of a drift, `least` the trial without the fault, which passes. `once_only`: what
    is refused is refused for good. `disturbed`: that not all of it comes back is no wonder.
    """
    began, start, theirs = len(one.dojo.arrived), one.dojo.leaves, dict(one.theirs)

    def writes() -> int:
        return len(one.writes(began))

    if fault is not None:
        unsent = 0  # a call that does not reach the world counts as well

        def faults(tool: str) -> Fault | None:
            nonlocal unsent
            if tool in one.reads:
                return None
            found = fault(writes() + unsent + 1)
            unsent += found is Fault.NOT_SENT
            return found

        one.dojo.fault = faults
    if late is not None:
        one.dojo.late = lambda tool: late(writes(), tool)
    undone = await one.undo(**asked)
    one.dojo.fault, one.dojo.late = lambda _: None, lambda _: None
    judged = _Judged(
        one, undone, began, start, theirs, await one.service.effects(one.session), one.dojo.leaves
    )
    found: dict[Rule, int] = dict(judged.told())
    found[Rule.CLICKED] = await _clicked(one, undone)
    states = judged.states
    reviewed = CompensationState.NEEDS_REVIEW in states
    if expects is Expected.REVIEW:
        found[Rule.MISSED] = int(not reviewed)
    elif expects is Expected.BACK:
        found[Rule.IMAGINED] = int(not any(state in BACK for state in states))
    elif expects is Expected.NOTHING or not disturbed:
        found[Rule.IMAGINED] = int(reviewed)
    if expects is None and not disturbed and fault is None:
        found[Rule.LEFT] = int(judged.reversible and not judged.fully)
    if once_only:
        sent = [(call.tool, call.args) for call in judged.writes]
        found[Rule.INSISTED] = len(sent) - len(set(sent))
    back = sum(state in BACK for state in states)
    if least is not None:
        found[Rule.LESS] = max(0, least.back - back)
    return Trial(
        name=name,
        changed=bool(differing(one.before, start)),
        outcome=judged.outcome,
        states=states,
        differ=judged.differ,
        claimed=len(judged.ours),
        overclaimed=len(judged.ours - differing(one.before, judged.now)),
        calls=len(judged.writes),
        broken={rule: count for rule, count in found.items() if count},
    )


async def _clicked(one: Scene, undone: Undone | None) -> int:
    """Calls made, and leaves changed, by a second click on the same plan."""
    if undone is None:
        return 0
    before, arrived = one.dojo.leaves, len(one.dojo.arrived)
    again = await one.service.click(one.session, str(undone.plan["plan_id"]))
    assert again == undone.report["undo_id"], "a second click begins no undo of its own"
    return len(one.dojo.arrived) - arrived + len(differing(before, one.dojo.leaves))


class _Judged:
    """A report held against the world, leaf by leaf.

    `start` is the world as the undo began, `theirs` what strangers had written till then, `now` the
    world as it ended. A stranger's leaf ends as the stranger left it; one that a later call of ours
    had written over may also be as the undo found it. What a later call of ours made where a
    stranger had removed something, under an id that was free again, is ours: only what they removed
    may not come back.
    """

    def __init__(
        self,
        one: Scene,
        undone: Undone | None,
        began: int,
        start: Leaves,
        theirs: Leaves,
        effects: Sequence[Effect],
        now: Leaves,
    ) -> None:
        self.one, self.now, self.start, self.theirs = one, now, start, theirs
        self.inverses = Counter(
            (call.tool, spelt(call.args)) for one in effects for call in one.inverse or ()
        )
        self.report = {} if undone is None else undone.report
        self.members = [] if undone is None else undone.plan["members"]
        self.began = began
        self.writes = one.writes(began)
        self.states = tuple(
            CompensationState(item["state"]) for item in self.report.get("items", ())
        )
        outcome = self.report.get("outcome")
        self.outcome = None if outcome is None else Outcome(outcome)
        expected = dict(one.before)
        for path, value in one.theirs.items():
            expected.pop(path, None)
            if value is not None:
                expected[path] = value
        self.differ = differing(expected, now)
        items = self.report.get("items", ())
        self.earlier = {id_ for id_, left in one.residues.items() if left is not None}
        self.earlier -= {item["effect_id"] for item in items}
        one.residues |= {item["effect_id"]: None for item in items}
        one.residues |= {left["effect_id"]: left for left in self.report.get("residues", ())}
        self.ours: frozenset[Path] = frozenset()
        self.every: frozenset[Path] = frozenset()
        self.of_earlier: frozenset[Path] = frozenset()
        for residue in filter(None, one.residues.values()):
            for leaf in residue["leaves"]:
                resource = ResourceKey(leaf["connection"], leaf["kind"], tuple(leaf["key"]))
                claim = Claim(resource, tuple(leaf["path"]), leaf["theirs"])
                paths = claimed(claim, one.before, now)
                self.every |= paths
                self.ours |= frozenset() if claim.theirs else paths
                if residue["effect_id"] in self.earlier:
                    self.of_earlier |= paths

    @property
    def fully(self) -> bool:
        return self.outcome is Outcome.FULLY_REVERTED and not self.differ

    @property
    def reversible(self) -> bool:
        """Whether the plan said that all of it is put back."""
        return bool(self.members) and all(m["verb"] == Verb.REVERT for m in self.members)

    def told(self) -> Iterator[tuple[Rule, int]]:
        """What of it is broken that can be seen of any undo."""
        fully = self.outcome is Outcome.FULLY_REVERTED
        # What an earlier undo has left stays as it reported it: it is no member of this one.
        yield Rule.FALSE, int(fully and bool(self.differ - self.of_earlier))
        yield Rule.UNCLAIMED, len(self.differ - self.every)
        yield Rule.OVERWRITTEN, sum(self._overwritten(path) for path in self.one.theirs)
        yield Rule.OVERRUN, self._overrun()
        acted = Counter((call.tool, call.args) for call in self.writes if call.acted)
        yield Rule.TWICE, (acted - self.inverses).total()

    def _overwritten(self, path: Path) -> bool:
        is_now, value = self.now.get(path), self.one.theirs[path]
        if is_now == value:
            return False
        since = path not in self.theirs or self.theirs[path] != value
        if since or is_now == self.start.get(path):
            return since
        made_again = value is None and path in self.start
        return not made_again or is_now == self.one.before.get(path)

    def _overrun(self) -> int:
        if not self.report:
            return len(self.one.dojo.arrived) - self.began
        budget = self.report["budget"]
        reads = len(self.one.dojo.arrived) - self.began - len(self.writes)
        more: int = max(0, len(self.writes) - budget["calls"]) + max(0, reads - budget["reads"])
        return more
