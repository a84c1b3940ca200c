"""Templates: each form filled in, refused, and filled in as far as is known."""

from __future__ import annotations

from typing import Any

import pytest
from any_json import json_values
from hypothesis import given, settings

from turnback.core.contracts.pointers import Document
from turnback.core.contracts.templates import (
    filled,
    parents,
    parsed,
    plain_path,
    resolved,
    sources,
    taken,
)
from turnback.core.errors import ContractRefused, Unresolved

DOCUMENT = Document(
    {
        "args": {
            "id": 7,
            "fields": {"phone": "new", "fax": None},
            "path": "a//b/./c.txt",
            "said": "Created issue #42: see https://x/42, issue #42, ticket #42",
        },
        "before": {"contact": [{"phone": "old", "mail": "m", "tags": ["x"]}]},
    }
)


def fill(template: Any, document: Document = DOCUMENT) -> Any:
    return resolved(parsed(template), document)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ({"id": {"$1": "$.args.id"}}, {"id": 7}),
        ({"ids": {"$": "$.args.id"}}, {"ids": [7]}),
        ({"none": {"$": "$.args.none[*]"}}, {"none": []}),
        ({"$1": "$.before.contact[0].tags"}, ["x"]),
        ({"a": {"$1": "$.before.contact[0].phone", "if": "$.args.fields.phone"}}, {"a": "old"}),
        ({"a": {"$1": "$.before.contact[0].mail", "if": "$.args.fields.mail"}, "b": 1}, {"b": 1}),
        ([1, {"$1": "$.args.id", "if": "$.args.none"}], [1]),
        (
            {"$1": "$.before.contact[0]", "only": "$.args.fields", "else": None},
            {"phone": "old", "fax": None},
        ),
        ({"$literal": {"$1": "$.args.id"}}, {"$1": "$.args.id"}),
        ({"$form": "path", "of": {"$1": "$.args.path"}}, "a/b/c.txt"),
        ({"$form": "casefold", "of": "ANN@X.ORG"}, "ann@x.org"),
        ({"$form": "text", "of": {"$1": "$.args.id"}}, "7"),
        ({"$form": "text", "of": 7.0}, "7"),
        ({"$form": "text", "of": "7"}, "7"),
        ({"$form": "number", "of": "42"}, 42),
        ({"$form": "number", "of": {"$1": "$.args.id"}}, 7),
        ({"$match": "(?:issue|ticket) #([0-9]+)", "of": {"$1": "$.args.said"}}, "42"),
        (
            {"$form": "number", "of": {"$match": "#([0-9]+)", "of": {"$1": "$.args.said"}}},
            42,
        ),
        ({"$parents": "$.args.path"}, ["a/b", "a"]),
        ("as it is", "as it is"),
    ],
)
def test_each_form_is_filled_in(template: Any, value: Any) -> None:
    assert fill(template) == value


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ({"$2": "$.args.id"}, "no form of a pointer"),
        ({"$match": "#([0-9]+)"}, "`of`, the pointer to the text"),
        ({"$match": "#[0-9]+", "of": {"$1": "$.args.said"}}, "has to have one group"),
        ({"$match": "#([0-9]+", "of": {"$1": "$.args.said"}}, "no regular expression"),
        ({"$": "$.args.id", "if": "$.args.id"}, "`if` does not go with"),
        ({"$1": "$.args.id", "else": 1}, "`else` goes with `only`"),
        ({"$1": 5}, "takes the text of a JSONPath"),
        ({"$1": "args.id"}, "no JSONPath"),
        ({"$form": "upper", "of": "x"}, "`\\$form` is one of `path`, `casefold`, `text`"),
        ({"$form": "path"}, "needs `of`"),
        ({"a": {1, 2}}, "A `set` is no JSON value"),
    ],
)
def test_what_is_no_template_is_refused_with_the_reason(template: Any, reason: str) -> None:
    with pytest.raises(ContractRefused, match=reason):
        parsed(template)


def test_a_template_that_is_nested_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    with pytest.raises(ContractRefused, match="make it flatter"):
        parsed(deep)


@pytest.mark.parametrize(
    "template",
    [
        {"$1": "$.args.none"},
        {"$1": "$.before.contact[0]", "only": "$.args.fields"},
        {"$1": "$.args.id", "only": "$.args.fields"},
        {"$form": "path", "of": {"$1": "$.args.id"}},
        {"$1": "$.args.id", "if": "$.args.none"},
        {"$form": "number", "of": "4x"},
        {"$match": "(?:issue|pull) ([0-9]+)", "of": {"$1": "$.args.said"}},
        {"$match": "([a-z]+) #", "of": {"$1": "$.args.said"}},
        {"$match": "(4)", "of": {"$1": "$.args.id"}},
    ],
)
def test_what_is_not_there_is_unresolved(template: Any) -> None:
    with pytest.raises(Unresolved):
        fill(template)


def test_what_is_known_is_written_in_and_the_rest_stays() -> None:
    template = parsed(
        {
            "id": {"$1": "$.result.id"},
            "old": {"$1": "$.before.contact[0]"},
            "name": {"$1": "$.args.id"},
            "gone": {"$1": "$.args.id", "if": "$.args.none"},
        }
    )
    half = filled(template, DOCUMENT)
    assert half == {
        "id": {"$1": "$.result.id"},
        "old": {"$literal": {"phone": "old", "mail": "m", "tags": ["x"]}},
        "name": 7,
    }
    later = Document({"result": {"id": "r1"}})
    assert resolved(half, later) == fill(template, DOCUMENT.having(result={"id": "r1"}))


@settings(deadline=None)
@given(value=json_values)
def test_a_value_that_looks_like_a_pointer_stays_a_value(value: Any) -> None:
    value = {"$1": "$.args.id", "value": value}
    half = filled(parsed({"a": {"$1": "$.args.v"}}), Document({"args": {"v": value}}))
    assert resolved(parsed(half), Document({})) == {"a": value}


def test_it_is_known_where_the_values_of_a_template_come_from() -> None:
    template = parsed(
        {
            "a": {"$1": "$.before.contact[0].phone"},
            "b": [{"$form": "path", "of": {"$1": "$.before.contact[0].mail"}}],
            "c": {"$": "$.before.contact[*].tags[*]"},
            "d": {"$1": "$.before.contact[0].mail", "if": "$.args.none"},
            "e": {"$1": "$.before.contact[0]", "only": "$.args.fields", "else": None},
        }
    )
    contact = ("before", "contact", 0)
    assert list(taken(template, DOCUMENT)) == [
        (*contact, "phone"),
        (*contact, "mail"),
        (*contact, "tags", 0),
        (*contact, "phone"),
        (*contact, "fax"),
    ]


def test_masks_are_no_sources() -> None:
    template = parsed({"a": {"$1": "$.before.x[0].p", "if": "$.args.p"}, "b": {"$literal": {}}})
    assert [pointer.text for pointer in sources(template)] == ["$.before.x[0].p"]


def test_plain_paths_keep_what_may_lead_over_a_link() -> None:
    assert plain_path("/a/./b//c/") == "/a/b/c"
    assert plain_path("a/../b") == "a/../b"
    assert plain_path("./") == "."
    assert parents("/a/b/c") == ["/a/b", "/a"]
    assert parents("a") == []
