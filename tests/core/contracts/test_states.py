"""States: what a read's answer says of a resource, its leaves, and the difference of two."""

from __future__ import annotations

from typing import Any

import pytest
from any_json import json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from turnback.core.contracts.equality import canonical, same
from turnback.core.contracts.model import ById, Contract, parse
from turnback.core.contracts.states import (
    ABSENT,
    Observation,
    Unreadable,
    body,
    changed,
    difference,
    flattened,
    observe,
    read_call,
)
from turnback.core.effects import Call, ResourceKey
from turnback.core.errors import Unresolved


def contract(**resource: Any) -> Contract:
    read = {"call": "get", "args": {"id": {"$1": "$.key.id"}}, **resource.pop("read", {})}
    return parse({"resources": {"thing": {"key": ["id"], "read": read, **resource}}}, of="test")


KEY = ResourceKey("here", "thing", ("t1",))


def seen(of: Contract, answer: Any, **reply: Any) -> Observation | Unreadable:
    return observe(of, KEY, **{"is_error": False, "text": "", "structured": answer, **reply})


def leaves(value: Any, mode: Any = "exact") -> dict[Any, Any]:
    return dict(flattened(value, mode))


def test_a_read_is_a_call_by_the_key() -> None:
    assert read_call(contract(state={"a": {"$1": "$.now.a"}}), KEY) == Call("get", {"id": "t1"})


def test_the_state_is_compared_and_the_rest_is_kept() -> None:
    of = contract(state={"name": {"$1": "$.now.name"}}, keep={"etag": {"$1": "$.now.etag"}})
    found = seen(of, {"name": "x", "etag": "e1", "updated_at": 5})
    assert isinstance(found, Observation)
    assert found.leaves == {("name",): "x"}
    assert found.parts == {"name": "x", "etag": "e1"}


@pytest.mark.parametrize(
    ("answer", "is_read"),
    [
        ("one page", True),
        ("Sorry, the service is down.", False),
        ({"text": "a page", "more": True}, False),
        ({"text": "a page", "more": False}, True),
    ],
)
def test_an_answer_that_its_contract_calls_a_failure_is_no_state(
    answer: Any, is_read: bool
) -> None:
    sorry = {"exists": {"$": "$.now[?search(@, '^Sorry')]"}}
    more = {"equal": [{"$1": "$.now.more"}, True]}
    for condition, text, structured in (
        (sorry, answer if isinstance(answer, str) else answer["text"], None),
        (more, "", answer if isinstance(answer, dict) else {"text": answer}),
    ):
        fails = not is_read and (condition is sorry) is isinstance(answer, str)
        of = contract(state={"text": {"$1": "$.now.text"}}, read={"error_if": condition})
        found = seen(of, structured, text=text)
        assert isinstance(found, Unreadable) is fails, found


def test_leaves_go_by_index_by_value_or_by_id() -> None:
    assert leaves({"a": [1, {"b": 2}], "c": []}) == {("a", "0"): 1, ("a", "1", "b"): 2, ("c",): []}
    assert leaves(["x", {"b": 1, "a": 2}], "set") == {
        ('"x"',): "x",
        ('{"a":2,"b":1}',): {"b": 1, "a": 2},
    }
    assert leaves([{"id": 3, "v": "x"}], ById(by="id")) == {("3", "id"): 3, ("3", "v"): "x"}


def test_the_order_of_a_set_is_nothing_and_a_doubled_element_is_something() -> None:
    assert leaves([1, 2], "set") == leaves([2, 1], "set")
    assert leaves([1, 1], "set") != leaves([1], "set")


def test_the_order_of_a_list_by_id_is_nothing() -> None:
    one, two = {"id": "a", "v": 1}, {"id": "b", "v": 2}
    assert leaves([one, two], ById(by="id")) == leaves([two, one], ById(by="id"))


@pytest.mark.parametrize("items", [[{"id": 1}, {"id": 1}], [{"id": 1}, {"id": "1"}], [{}], [3]])
def test_a_list_by_id_without_its_ids_cannot_be_read(items: Any) -> None:
    with pytest.raises(Unresolved):
        leaves(items, ById(by="id"))
    of = contract(state={"rows": {"$1": "$.now.rows"}}, compare={"rows": {"by": "id"}})
    assert isinstance(seen(of, {"rows": items}), Unreadable)


def test_a_resource_without_a_leaf_is_not_there() -> None:
    of = contract(state={"name": {"$": "$.now.rows[?@.id == $.key.id].name"}})
    assert seen(of, {"rows": []}) == ABSENT
    found = seen(of, {"rows": [{"id": "t1", "name": "x"}]})
    assert isinstance(found, Observation)
    assert not found.absent


def test_an_error_that_means_absent_and_one_that_does_not() -> None:
    of = contract(read={"error_is": {"absent": "^404|not found"}}, state={"a": {"$1": "$.now.a"}})
    assert seen(of, None, is_error=True, text="404: no such thing") == ABSENT
    assert seen(of, {"error": "it was not found"}) == ABSENT
    assert isinstance(seen(of, None, is_error=True, text="503"), Unreadable)
    assert isinstance(seen(of, {"error": "503"}), Unreadable)


def test_an_answer_that_means_absent() -> None:
    of = contract(
        read={"absent_if": {"equal": [{"$1": "$.now.trashed"}, True]}},
        state={"a": {"$1": "$.now.a"}},
    )
    assert seen(of, {"trashed": True, "a": 1}) == ABSENT
    assert seen(of, {"trashed": 1, "a": 1}) != ABSENT


def test_what_lost_something_or_is_too_much_is_no_before_state() -> None:
    of = contract(state={"a": {"$1": "$.now.a"}}, lossy="�")
    assert isinstance(seen(of, {"a": {"b": ["x�y"]}}), Unreadable)
    assert isinstance(seen(of, {"a": "xy"}), Observation)
    assert isinstance(seen(of, {"a": "x" * 100}, limit=50), Unreadable)
    own = of.model_copy(update={"max_before": 50})
    assert isinstance(seen(own, {"a": "x" * 100}, limit=5_000), Unreadable)


@pytest.mark.parametrize("value", [float("nan"), 2**70, "\0", "\ud800"])
def test_what_cannot_be_kept_is_no_before_state(value: Any) -> None:
    assert isinstance(seen(contract(state={"a": {"$1": "$.now.a"}}), {"a": value}), Unreadable)


def test_a_thing_with_two_names_is_one() -> None:
    of = contract(state={"a": {"$1": "$.now.a"}}, canonical={"id": {"$1": "$.now.id"}})
    found = seen(of, {"id": "c9", "a": 1})
    assert isinstance(found, Observation)
    assert found.canonical == ResourceKey("here", "thing", ("c9",))
    same_name = seen(of, {"id": "t1", "a": 1})
    assert isinstance(same_name, Observation)
    assert same_name.canonical is None


def test_what_it_lies_in_and_what_lies_in_it() -> None:
    of = contract(
        state={"a": {"$1": "$.now.a"}},
        inside=[{"thing": {"id": {"$1": "$.now.parent"}}}],
        children=[{"thing": {"id": {"$": "$.now.rows[*].id"}}}],
    )
    found = seen(of, {"a": 1, "parent": "p", "rows": [{"id": 1}, {"id": 2}]})
    assert isinstance(found, Observation)
    assert [one.key for one in found.inside] == [("p",)]
    assert [one.key for one in found.children] == [(1,), (2,)]


def test_a_reply_is_read_as_json_where_it_is_one() -> None:
    assert body("ignored", {"a": 1}) == {"a": 1}
    assert body(" [1, 2]") == [1, 2]
    assert body("{not json") == {"text": "{not json"}
    assert body("7") == {"text": "7"}
    assert body('{"id": 9007199254740993}') == {"id": 9007199254740993}


@pytest.mark.parametrize("text", ['{"id": 1180591620717411303424}', '["\\u0000"]', "[" * 5_000])
def test_a_reply_whose_values_would_not_be_kept_is_text(text: str) -> None:
    assert body(text) == {"text": text}


def test_equal_numbers_are_equal_and_truth_is_no_number() -> None:
    assert same({"a": 1.0, "b": [2]}, {"b": [2.0], "a": 1})
    assert not same(True, 1)
    assert not same("1", 1)
    assert difference({("a",): True}, {("a",): 1}).wrote == {("a",): 1}


modes = st.sampled_from(["exact", "set"])
rows = st.lists(
    st.fixed_dictionaries({"id": st.integers(0, 5), "v": json_values}),
    max_size=4,
    unique_by=lambda row: row["id"],
)


@settings(deadline=None)
@given(value=json_values, goal=json_values, mode=modes)
def test_a_difference_made_gives_the_goal(value: Any, goal: Any, mode: Any) -> None:
    one, other = leaves(value, mode), leaves(goal, mode)
    assert same_leaves(changed(one, difference(one, other)), other)
    assert not difference(other, other)


@settings(deadline=None)
@given(value=rows, goal=rows)
def test_a_difference_made_gives_the_goal_by_id(value: Any, goal: Any) -> None:
    one, other = leaves(value, ById(by="id")), leaves(goal, ById(by="id"))
    assert same_leaves(changed(one, difference(one, other)), other)


@settings(deadline=None)
@given(value=json_values, other=json_values)
def test_exact_leaves_are_equal_only_of_equal_values(value: Any, other: Any) -> None:
    assert same_leaves(leaves(value), leaves(other)) == (canonical(value) == canonical(other))


@settings(deadline=None)
@given(answer=json_values, error=st.booleans(), text=st.text(max_size=20))
def test_no_reply_breaks_an_observation(answer: Any, error: bool, text: str) -> None:
    of = contract(
        read={"error_is": {"absent": "^x"}, "absent_if": {"empty": {"$": "$.now.a"}}},
        state={"a": {"$1": "$.now.a"}, "b": {"$": "$.now..b"}},
        compare={"a": "set", "b": {"by": "id"}},
        canonical={"id": {"$1": "$.now.a"}},
    )
    found = observe(of, KEY, is_error=error, text=text, structured=answer)
    assert isinstance(found, Observation | Unreadable)


def same_leaves(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(same(one[path], other[path]) for path in one)
