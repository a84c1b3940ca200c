"""Rounds and medians: measured things and their floors in turn, so that a slow minute hits both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

Act = Callable[[], Awaitable[float]]
"""Does the thing once; the seconds that count of it."""


@dataclass(frozen=True)
class Series:
    """One thing over several rounds: the median of each, in seconds."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest round."""
        return min(self.rounds), max(self.rounds)

    def __add__(self, other: Series) -> Series:
        return Series(tuple(a + b for a, b in zip(self.rounds, other.rounds, strict=True)))

    def over(self, floor: Series) -> float:
        """The median of the rounds' ratios to the floor of the same round."""
        pairs = zip(self.rounds, floor.rounds, strict=True)
        return statistics.median(mine / its for mine, its in pairs)


async def in_turn(
    acts: Mapping[str, Act], *, rounds: int = 7, times: int = 30, warm: int = 20
) -> dict[str, Series]:
    """Every act once, in order, again and again: `warm` turns not counted, then the rounds."""
    for _ in range(warm):
        for act in acts.values():
            await act()
    medians: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        taken: dict[str, list[float]] = {name: [] for name in acts}
        for _ in range(times):
            for name, act in acts.items():
                taken[name].append(await act())
        for name, values in taken.items():
            medians[name].append(statistics.median(values))
    return {name: Series(tuple(values)) for name, values in medians.items()}


def timed(act: Callable[[], Awaitable[object]]) -> Act:
    """The act, timed as a whole."""

    async def run() -> float:
        began = time.perf_counter()
        await act()
        return time.perf_counter() - began

    return run


@dataclass(frozen=True)
class Row:
    """One line of the table. `floor` has the figure's unit; `met` is None without a target."""

    name: str
    figure: float
    unit: str
    floor: float | None
    ratio: float | None
    target: str
    met: bool | None
    floor_spread: tuple[float, float] | None = None


def against(
    name: str, series: Series, floor: Series, *, at_most: float, of: str, scale: float = 1000.0
) -> Row:
    """The row of something that may take `at_most` times its floor, which is called `of`; ms."""
    ratio = series.over(floor)
    low, high = floor.spread
    return Row(
        name=name,
        figure=series.median * scale,
        unit="ms",
        floor=floor.median * scale,
        ratio=ratio,
        target=f"≤ {at_most:g} {of}" if at_most != 1 else f"≤ {of}",
        met=ratio <= at_most,
        floor_spread=(low * scale, high * scale),
    )


def bounded(name: str, figure: float, *, unit: str, at_most: float) -> Row:
    """The row of something with a bound of its own."""
    return Row(name, figure, unit, None, None, f"≤ {at_most:g} {unit}", figure <= at_most)


def told(name: str, figure: float, *, unit: str) -> Row:
    """The row of something that is only told."""
    return Row(name, figure, unit, None, None, "", None)
