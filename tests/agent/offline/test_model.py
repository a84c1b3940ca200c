"""The offline stand-in as a model: it streams, and says what it knows."""

from __future__ import annotations

import asyncio
import re

from offline_turns import follow

from turnback.agent.loop import Delta, RunLimits, StepDraft, run_turn
from turnback.agent.models import resolve
from turnback.agent.prompt import OUTSIDE_OPENS
from turnback.agent.recipes import RECIPES
from turnback.agent.steps import PastStep
from turnback.agent.vocabulary import NAMES
from turnback.core.operators import CATALOG
from turnback.core.tree import EndReason, Role
from turnback.core.workflow import EMPTY
from turnback.settings import Settings


async def test_it_streams_word_by_word_and_arguments_in_pieces() -> None:
    settings = Settings(offline_delay_ms=1)
    items: list[Delta | StepDraft] = []
    started = asyncio.get_running_loop().time()
    async for item in run_turn(
        model=resolve(settings),
        history=[PastStep(role=Role.USER, content="add a filter on amount > 100")],
        workflow=EMPTY,
        stop=asyncio.Event(),
        limits=RunLimits.of(settings),
        new_id=iter("abcdef").__next__,
        new_link_id=iter("abcdef").__next__,
    ):
        items.append(item)
    drafts = [item for item in items if isinstance(item, StepDraft)]
    pieces = [item for item in items if isinstance(item, Delta)]
    assert asyncio.get_running_loop().time() - started > 0.001 * len(pieces) / 2
    said = [delta.text for delta in pieces if delta.text and delta.step_index == 1]
    assert said == re.findall(r"\s*\S+", drafts[0].content)
    assert len([delta for delta in pieces if delta.tool]) > 3
    assert drafts[-1].end_reason is EndReason.COMPLETE
    assert all(draft.usage is None for draft in drafts)


def test_what_stands_outside_is_none_of_the_persons_words() -> None:
    told = follow(f'load sales.csv{OUTSIDE_OPENS}{{"notTakenBack": []}}]')
    assert [one["operatorType"] for one in told.workflow.operators.values()] == ["CSVFileScan"]


def test_every_recipe_and_type_is_named_in_the_help() -> None:
    answer = follow("help").last
    for name in (*RECIPES, *(names[0] for names in NAMES.values())):
        assert name in answer
    assert set(NAMES) == CATALOG.known
