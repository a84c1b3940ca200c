"""The world in memory that undos are tried on, and an agent that changed it."""

from __future__ import annotations

import pytest
from undo_ended import ANNA, BERT
from undo_world import Agent, World


@pytest.fixture
def world() -> World:
    there = World()
    for key in (ANNA, BERT):
        there.things[key] = {("phone",): "A", ("mail",): "M"}
    there.begin()
    return there


@pytest.fixture
def agent(world: World) -> Agent:
    return Agent(world)
