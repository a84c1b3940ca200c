"""Blobs as they are stored: smaller, the same when they come back, and readable for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from turnback.core.edits import AddOperator
from turnback.core.workflow import EMPTY, apply
from turnback.store import packing
from turnback.store.packing import pack, unpack

OPERATOR = {
    "operatorID": "op7",
    "operatorType": "Filter",
    "operatorVersion": "N/A",
    "operatorProperties": {
        "predicates": [{"attribute": "price", "condition": ">", "value": "40"}],
    },
    "inputPorts": [
        {
            "portID": "input-0",
            "displayName": "",
            "disallowMultiInputs": False,
            "isDynamicPort": False,
            "dependencies": [],
        }
    ],
    "outputPorts": [
        {
            "portID": "output-0",
            "displayName": "",
            "disallowMultiInputs": False,
            "isDynamicPort": False,
        }
    ],
    "showAdvanced": False,
    "isDisabled": False,
    "customDisplayName": "Keep what costs more than 40",
    "dynamicInputPorts": False,
    "dynamicOutputPorts": False,
}


def blobs_of_one_operator() -> list[bytes]:
    edit = AddOperator(op="addOperator", operator=OPERATOR, position={"x": 0, "y": 0})
    made = apply(EMPTY, (edit,), new_link_id=lambda: "link", known_types=frozenset({"Filter"}))
    return list(made.blobs().values())


def test_every_blob_of_a_workflow_comes_back_and_none_grows() -> None:
    for blob in blobs_of_one_operator():
        assert unpack(pack(blob)) == blob
        assert len(pack(blob)) <= len(blob)


def test_an_operator_takes_a_fifth_of_its_json() -> None:
    operator = max(blobs_of_one_operator(), key=len)
    assert b'"operatorID":"op7"' in operator
    assert len(pack(operator)) * 5 < len(operator)


@given(st.sampled_from([b"{", b"[", b"T", b"B", b"O"]), st.binary(max_size=2_000))
def test_whatever_begins_as_a_blob_does_comes_back(first: bytes, rest: bytes) -> None:
    assert unpack(pack(first + rest)) == first + rest


def test_blobs_that_were_stored_without_the_dictionary_are_read() -> None:
    blob = max(blobs_of_one_operator(), key=len)
    assert unpack(zstandard.compress(blob)) == blob


def test_damaged_data_is_no_error_here_for_its_address_shows_it() -> None:
    packed = pack(max(blobs_of_one_operator(), key=len))
    for damaged in (packed[: len(packed) // 2], packed[:1] + b"\xff" * 40, b"\x28\xb5\x2f\xfdx"):
        assert unpack(damaged) == b""


def test_the_dictionary_is_the_one_that_stored_blobs_need() -> None:
    dictionary = Path(packing.__file__).with_name("dictionary-1.txt").read_bytes()
    assert hashlib.sha256(dictionary).hexdigest() == (
        "745d646e46466850f6fa993febaebba0b37dc7b87734700688969434848f0d85"
    )
