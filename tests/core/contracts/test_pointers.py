"""Pointers into one document: found, not found, not known yet; and no JSON that breaks them."""

from __future__ import annotations

from typing import Any

import pytest
from any_json import json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from turnback.core.contracts.pointers import MAX_TEXT, Document, compiled, matches
from turnback.core.errors import ContractRefused, Unresolved

GRAPH = {"entities": [{"name": "Ann", "tags": ["a", "b"]}, {"name": "Bo", "tags": []}]}

POINTERS = [
    "$.now",
    "$.now.a.b[0]",
    "$.now[*][*]",
    "$.now..name",
    "$.now.entities[?@.name == $.key.name].tags[*]",
    "$.now[?length(@.a) > 1 && @.b != $.key.x]",
    "$.now[?search(@.a, 'x+') || !@.b]",
    "$.now[1:5:2]",
    "$.now[?count(@.*) > 2 || value(@..x) == 1]",
]


def find(text: str, **members: Any) -> list[Any]:
    return compiled(text).find(Document(members))


def test_a_filter_compares_with_another_root() -> None:
    text = "$.now.entities[?@.name == $.key.name].tags[*]"
    assert find(text, now=GRAPH, key={"name": "Ann"}) == ["a", "b"]
    assert find(text, now=GRAPH, key={"name": "Cy"}) == []
    assert compiled(text).roots == {"now", "key"}


def test_a_root_that_is_not_there_yet_is_another_thing_than_nothing() -> None:
    with pytest.raises(Unresolved, match="`result` is not known yet"):
        find("$.result.id", args={})
    with pytest.raises(Unresolved, match="`key` is not known yet"):
        find("$.now[?@.id == $.key.id]", now=[])
    assert find("$.result.id", result={}) == []


def test_one_is_exactly_one() -> None:
    document = Document({"now": GRAPH})
    assert compiled("$.now.entities[0].name").one(document) == "Ann"
    with pytest.raises(Unresolved, match="finds 2, not exactly one"):
        compiled("$.now.entities[*].name").one(document)
    with pytest.raises(Unresolved, match="finds nothing"):
        compiled("$.now.entities[7].name").one(document)


def test_null_is_a_value() -> None:
    assert compiled("$.now.a").one(Document({"now": {"a": None}})) is None


def test_what_before_says_of_a_kind_that_could_not_be_read_is_not_known() -> None:
    document = Document({"before": {"file": [{}], "note": [{"text": "x"}]}}, frozenset({"file"}))
    assert compiled("$.before.note[0].text").one(document) == "x"
    for text in ("$.before.file[*].content", "$.before[*][0]", "$.before..text"):
        with pytest.raises(Unresolved, match="could not be read"):
            compiled(text).find(document)


def test_an_element_of_a_set_that_two_resources_share_is_found_once() -> None:
    link = {"from": "Ann", "to": "Bo"}
    before = {"node": [{"links": [link]}, {"links": [dict(reversed(link.items()))]}]}
    shared = Document({"before": before}, sets=frozenset({("node", "links")}))
    assert compiled("$.before.node[*].links[*]").find(shared) == [link]
    assert compiled("$.before['node'][*]['links'][*]").find(shared) == [link]
    assert len(compiled("$.before.node[*].links").find(shared)) == 2
    assert len(compiled("$.before.node[*].links[*]").find(Document({"before": before}))) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("now.a", "no JSONPath"),
        ("$.now[", "no JSONPath"),
        ("$.now[?@.a == ]", "no JSONPath"),
        ("$.now[?foo(@)]", "no JSONPath"),
        ("$" + "[?" * 300 + "@" + "]" * 300, "no JSONPath"),
        ("$.world.a", "begins at none of `\\$.args`"),
        ("$", "begins at none of"),
        ("$..id", "begins at none of"),
        ("$[*].id", "begins at none of"),
        ("$['now','args'].id", "begins at none of"),
        ("$.now[?@.a == $.world]", "begins at none of"),
        ("$.now[?@.a[?@.b == $.key.c]]", "a filter of a filter"),
        ("$.now[?match(@.a, $.args.pattern)]", "takes a pattern from a document"),
        ("$.now[?search(@.a, '(')]", "no regular expression"),
        ("$.now." + "a" * MAX_TEXT, "characters: make it shorter"),
    ],
)
def test_what_is_no_pointer_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ContractRefused, match=reason):
        compiled(text)


def test_a_look_that_passes_too_many_nodes_ends_unresolved() -> None:
    rows = [{"id": n} for n in range(700)]
    with pytest.raises(Unresolved, match="passes more than"):
        find("$.now[?count($.now[*]) > 1]", now=rows)


def test_a_pattern_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        matches("(.*)(.*)(.*)(.*)(.*)x(.*)y", "x" * 2_000)
    with pytest.raises(Unresolved):
        find("$.now[?match(@, '.*.*.*.*.*x.*y')]", now=["x" * 2_000])


def test_what_is_nested_too_deep_for_a_descent_ends_unresolved() -> None:
    deep: Any = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(Unresolved):
        find("$.now..b", now=deep)


@settings(deadline=None)
@given(value=json_values, key=json_values, text=st.sampled_from(POINTERS))
def test_no_json_breaks_a_pointer(value: Any, key: Any, text: str) -> None:
    document = Document({"now": value, "key": key})
    found = compiled(text).find(document)
    assert isinstance(found, list)


@settings(deadline=None)
@given(text=st.text(alphabet="$@.[]?*'\"()&|=!<> ,:01anowkeyargslength", max_size=40))
def test_no_text_breaks_the_compiler(text: str) -> None:
    try:
        pointer = compiled("$.now" + text)
    except ContractRefused:
        return
    assert "now" in pointer.roots
