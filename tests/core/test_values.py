"""What JSON values can be held, and that none is changed in silence."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from workflows import JSON, several

from turnback.core.errors import InvalidWorkflow
from turnback.core.values import check, parse, pointer, shown


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": ["x\0"]}, "/a/0"),
        ({"a": {"b\0": 1}}, "/a"),
        ({"a": 2**64}, "/a"),
        ({"a": -(2**63) - 1}, "/a"),
        ({"a": float("nan")}, "/a"),
        ({"a": [1, float("-inf")]}, "/a/1"),
        ({"a/b~c": (1, 2)}, "/a~1b~0c"),
        ({"a": {1: 2}}, "/a"),
        ({"a": "\ud800"}, "/a"),
        ({"a": {"b": {"c": {"d": 1}}}}, "/a/b/c"),
        ({"a": {"b": [[]]}}, "/a/b/0"),
        ({"a": b"bytes"}, "/a"),
    ],
)
def test_what_cannot_be_held_is_refused_with_its_path(value: object, path: str) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        check(value, (), 3)
    assert refused.value.data == {"path": path}


@several
@given(JSON)
def test_every_other_json_value_passes_and_is_read_back_as_it_was(value: object) -> None:
    check(value, (), 50)
    assert orjson.dumps(parse(orjson.dumps(value))) == orjson.dumps(value)


def test_the_largest_and_the_lowest_whole_numbers_are_held() -> None:
    value = [2**64 - 1, -(2**63)]
    check(value, (), 1)
    assert parse(b"[18446744073709551615, -9223372036854775808]") == value


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": [18446744073709551616]}',
        b'{"a": [-9223372036854775809]}',
        b'{"a": [' + b"9" * 10_000 + b"]}",
        b'{"a": [1e999]}',
        b'{"a": [NaN]}',
        b'{"a": [-Infinity]}',
        b'{"a": ["\\ud800"]}',
    ],
)
def test_text_that_a_parser_would_round_or_refuse_blindly_gets_its_path(text: bytes) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        check(parse(text), (), 50)
    assert refused.value.data == {"path": "/a/0"}


def test_long_digits_inside_text_are_no_number() -> None:
    assert parse(b'{"id": "123456789012345678901234567890"}') == {"id": "1234567890" * 3}


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[1,]", b"[" * 100_000, b"{'a': 1}"])
def test_what_is_not_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)


def test_a_path_and_a_text_are_bounded_and_printable_when_shown() -> None:
    assert len(pointer(("a" * 1_000,))) == 300
    assert shown("x" * 500) == "x" * 79 + "…"
    assert shown("a\nb\ud800\0é") == r"a\nb\ud800\x00é"
