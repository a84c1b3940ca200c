"""Random histories on a vendor's world, what strangers and faults make of them, and their undo.

Nothing is asserted on the way, only on the world and the report at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ground import Ground, claimed, unclaimed

FAULTS = ["refused", "error_body", "lie", "busy", "busy_after", "dies_before", "dies_after"]
"""What goes wrong with a call of an inverse."""
READ_FAULTS = ["refused", "busy", "dies_before"]


@dataclass
class Told:
    """What came of a story."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    effects: list[dict[str, Any]] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    differ: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)


async def tell(
    g: Ground,
    seed: int,
    *,
    strangers: bool = True,
    faults: bool = True,
    forward_faults: bool = False,
    without: Collection[str] = (),
) -> Told:
    """Live a story and undo all of it; `without` are tools that the agent does not use."""
    random = Random(seed)
    await g.begin()
    for nth in range(random.randint(1, 3)):
        if strangers and nth and random.random() < 0.5:
            someone(g, random, f"theirs-{seed}-{nth}")
        if forward_faults and random.random() < 0.5:
            fault = random.choice(FAULTS)
            g.script({"count": "writes", "at": random.randint(1, 3), "fault": fault})
        calls = [
            chosen(g, random, f"ours-{seed}-{nth}-{n}", without)
            for n in range(random.randint(1, 4))
        ]
        await g.turn(*calls, steps=random.choice([1, 1, 2]))
        g.script()
    for nth in range(random.randint(0, 2) if strangers else 0):
        someone(g, random, f"theirs-{seed}-late-{nth}")
    told = Told(calls=[one[:2] for one in g.calls("forward")])
    g.script(*happenings(g, random, seed, strangers=strangers, faults=faults))
    policy = random.choice(["stop", "independent"])
    more: dict[str, Any] = {"policy": policy}
    if faults and random.random() < 0.15:
        more["calls"] = random.randint(0, 3)
    if random.random() < 0.2:
        more |= {"turn_ids": [random.choice(g.turns)], "with_dependents": True}
    found = await g.undo(**more)
    told.reports += [] if found is None else [found]
    g.script()
    if "turn_ids" in more or (found and random.random() < 0.4):
        g.phase("forward")
        rest = await g.undo(policy="independent")  # what is left is tried again
        told.reports += [] if rest is None else [rest]
    told.effects = await g.effects()
    told.differ, told.claims = g.differing(), claimed(*told.reports)
    told.ours = claimed(*told.reports, theirs=False)
    return told


def chosen(
    g: Ground, random: Random, mark: str, without: Collection[str]
) -> tuple[str, Mapping[str, Any]]:
    """A call that is possible now."""
    acts = [one for one in g.module.acts(g.world, random, mark) if one[0] not in without]
    found: tuple[str, Mapping[str, Any]] = random.choice(acts)
    return found


def someone(g: Ground, random: Random, mark: str) -> None:
    """A stranger does something that is possible."""
    for _ in range(5):
        name, args = random.choice(g.module.strange(g.world, random, mark))
        if g.stranger(name, **args):
            return


def happenings(
    g: Ground, random: Random, seed: int, *, strangers: bool, faults: bool
) -> list[dict[str, Any]]:
    """What happens during the undo."""
    script: list[dict[str, Any]] = []
    if strangers and random.random() < 0.4:
        acts = [random.choice(g.module.strange(g.world, random, f"theirs-{seed}-in"))]
        script.append({"count": "writes", "at": random.randint(1, 4), "strangers": acts})
    for _ in range(random.choice([0, 0, 1, 1, 2]) if faults else 0):
        one = {"count": "writes", "at": random.randint(1, 4), "fault": random.choice(FAULTS)}
        script.append(one | {"times": random.choice([1, 1, 2, 9])})
    if faults and random.random() < 0.2:
        one = {"count": "reads", "at": random.randint(1, 8), "fault": random.choice(READ_FAULTS)}
        script.append(one | {"times": random.choice([1, 1, 9])})
    return script


def assert_true(g: Ground, told: Told) -> None:
    """What the reports say is what the world shows."""
    assert not g.overwritten(), "a stranger's leaf was overwritten"
    left = unclaimed(told.differ, told.claims)
    if any(effect["standing"] == "in_doubt" for effect in told.effects):
        # What a call in doubt has made only its answer would have named.
        there = {_thing(leaf) for leaf in g.began}
        left = {leaf for leaf in left if _thing(leaf) in there}
    assert not left, ("leaves that differ, and no residue claims them", left)
    for one in told.reports:
        assert one["spent"]["calls"] <= one["budget"]["calls"]
        assert one["spent"]["reads"] <= one["budget"]["reads"]
    made = len(g.calls("undo"))
    assert made <= sum(one["spent"]["calls"] for one in told.reports)
    assert not g.calls("after"), "a second click made calls"
    if told.reports and told.reports[-1]["outcome"] == "fully_reverted":
        whole = {e["effect_id"] for e in told.effects if e["standing"] is not None}
        whole -= {item["effect_id"] for one in told.reports for item in one["items"]}
        if not whole and len(told.reports) == 1:
            assert not told.differ
    assert "twice" not in g.world, "something was done twice"


def _thing(leaf: str) -> str:
    return "|".join(leaf.split("|")[:2])


def claims_in_vain(g: Ground, told: Told) -> int:
    """How many leaves are claimed as ours that do not differ.

    What could not be read at the end is claimed for what it may be, and is not counted.
    """
    unread = ("unreadable", "forward_in_doubt", "budget", "lost")
    if any(item["reason"] in unread for one in told.reports for item in one["items"]):
        return 0
    there = g.leaves().keys() | g.expected().keys()
    return len(there - unclaimed(there, told.ours) - told.differ)
