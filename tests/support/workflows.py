"""Workflows and edits for tests: the files in `tests/data`, and hypothesis strategies.

Ids come from a small pool, so that random edits often fit the random workflow they are made of.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from turnback.core.edits import Edit
from turnback.core.errors import InvalidEdit
from turnback.core.operators import CATALOG
from turnback.core.workflow import Workflow, apply, load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DATA = Path(__file__).parents[1] / "data"
FILES = sorted((DATA / "workflows").glob("*.json"))
LIMITS = {"max_bytes": 1_000_000, "max_depth": 50}
IDS = [*"abcdef"]
PORTS = ["input-0", "input-1", "output-0", "output-1"]
EDITS: TypeAdapter[tuple[Edit, ...]] = TypeAdapter(tuple[Edit, ...])

# How a property here is tested: a shared machine may be slow without being wrong.
several = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)


def link_ids(start: str = "new") -> Callable[[], str]:
    """A maker of link ids that never repeats."""
    numbers = count(1)
    return lambda: f"{start}-{next(numbers)}"


def edits(*items: dict[str, Any]) -> tuple[Edit, ...]:
    """Edits from their form on the wire."""
    return EDITS.validate_python(items)


def make(workflow: Workflow, *items: dict[str, Any] | Edit) -> Workflow:
    """The workflow after the edits, each given as a model or in its form on the wire."""
    return apply(
        workflow,
        EDITS.validate_python(items),
        new_link_id=link_ids(),
        known_types=CATALOG.known,
    )


def applicable(workflow: Workflow, wanted: Sequence[Edit]) -> tuple[Edit, ...]:
    """Those of the edits that can be made, one after the other."""
    kept: tuple[Edit, ...] = ()
    for edit in wanted:
        try:
            make(workflow, *kept, edit)
        except InvalidEdit:
            continue
        kept = (*kept, edit)
    return kept


@st.composite
def operators(draw: st.DrawFn, operator_id: str) -> dict[str, Any]:
    """An operator that takes two inputs and gives one output, with members nobody knows."""
    members = {
        "operatorID": operator_id,
        "operatorType": draw(st.sampled_from(["Filter", "Union", "HomeMade"])),
        "operatorProperties": draw(OBJECTS),
        "inputPorts": [{"portID": "input-0"}, {"portID": "input-1", "displayName": "right"}],
        "outputPorts": [{"portID": "output-0"}],
        **draw(OBJECTS),
    }
    return draw(shuffled(members))


@st.composite
def shuffled(draw: st.DrawFn, members: dict[str, Any]) -> dict[str, Any]:
    """The same members in another order."""
    return {name: members[name] for name in draw(st.permutations(list(members)))}


@st.composite
def links(draw: st.DrawFn, ids: Sequence[str]) -> dict[str, Any]:
    """A link without an id, between any two of the operators."""
    source, target = draw(st.permutations(ids))[:2]
    return {
        **draw(OBJECTS),
        "source": {"operatorID": source, "portID": "output-0"},
        "target": {"operatorID": target, "portID": draw(st.sampled_from(PORTS[:2]))},
    }


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A workflow document; any of its members may be absent, and their order is any."""
    ids = draw(st.lists(st.sampled_from(IDS), unique=True, max_size=5))
    members: dict[str, Any] = {
        "operators": [draw(operators(operator_id)) for operator_id in ids],
        "operatorPositions": {
            operator_id: {"x": draw(NUMBERS), "y": 40, **draw(OBJECTS)}
            for operator_id in draw(st.lists(st.sampled_from(IDS), unique=True, max_size=4))
        },
        "links": [
            {"linkID": f"link-{number}", **draw(links(ids))}
            for number in range(draw(st.integers(0, 4)) if len(ids) > 1 else 0)
        ],
        "commentBoxes": [
            {"commentBoxID": name, **draw(OBJECTS)}
            for name in draw(st.lists(st.sampled_from(IDS), unique=True, max_size=2))
        ],
        "settings": draw(OBJECTS),
        **draw(OBJECTS),
    }
    kept = draw(st.lists(st.sampled_from(list(members)), unique=True, min_size=1))
    return {name: members[name] for name in kept}


def workflows() -> st.SearchStrategy[Workflow]:
    """A loaded workflow."""
    return documents().map(lambda document: load(document, **LIMITS))


@st.composite
def edit_lists(draw: st.DrawFn, max_size: int = 6) -> tuple[Edit, ...]:
    """Edits of every kind; many fit a workflow of `workflows`, many do not."""
    ids = st.sampled_from(IDS)
    link_id = st.sampled_from(["link-0", "link-1", "link-2", "mine"])
    position = st.fixed_dictionaries({"x": st.integers(-500, 500), "y": st.floats(-500, 500)})

    def edit(op: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({"op": st.just(op), **members})

    link = links(IDS)
    any_edit = st.one_of(
        edit("addOperator", operator=ids.flatmap(operators)),
        edit("addOperator", operator=ids.flatmap(operators), position=position),
        edit("changeOperator", operatorID=ids, set=OBJECTS, unset=st.lists(TEXT, max_size=2)),
        edit(
            "changeOperator",
            operatorID=ids,
            set=st.fixed_dictionaries({"operatorProperties": OBJECTS}),
        ),
        edit("removeOperator", operatorID=ids),
        edit("moveOperator", operatorID=ids, position=position),
        edit("addLink", link=link),
        edit("addLink", link=st.builds(lambda i, rest: {"linkID": i, **rest}, link_id, link)),
        edit("changeLink", linkID=link_id, set=link | OBJECTS),
        edit("removeLink", linkID=link_id),
        edit(
            "addComment",
            comment=st.builds(lambda i, rest: {**rest, "commentBoxID": i}, ids, OBJECTS),
        ),
        edit("changeComment", commentBoxID=ids, set=OBJECTS),
        edit("removeComment", commentBoxID=ids),
        edit("moveComment", commentBoxID=ids, position=position),
        edit("changeSettings", set=OBJECTS, unset=st.lists(TEXT, max_size=2)),
        edit("replaceWorkflow", workflow=documents()),
    )
    return EDITS.validate_python(draw(st.lists(any_edit, max_size=max_size)))
