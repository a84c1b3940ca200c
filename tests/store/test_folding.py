"""What agents' steps say, as stored: smaller, the same when it comes back, readable for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

from turnback.core.tree import Role
from turnback.store import folding
from turnback.store.folding import fold, unfold
from turnback.store.ids import new_id


def step(calls: int, usage: dict[str, int] | None = None) -> str:
    """The payload of a step of so many calls."""
    ids = [new_id() for _ in range(calls)]
    said = {
        "content": "I raise two of the bounds.",
        "toolCalls": [
            {"toolName": "modifyOperator", "toolCallId": id_, "input": {"operatorId": f"op{n}"}}
            for n, id_ in enumerate(ids)
        ],
        "toolResults": [
            {"toolCallId": id_, "output": f"Modified operator op{n}", "isError": False}
            for n, id_ in enumerate(ids)
        ],
    }
    return orjson.dumps(said | ({"usage": usage} if usage else {})).decode()


def test_a_step_of_calls_takes_a_third_of_its_json() -> None:
    payload = step(2)
    counted, folded = fold(Role.AGENT, payload)
    assert folded is not None
    assert 3 * len(folded) < len(payload)
    assert unfold(counted, folded) == payload


def test_what_is_counted_stands_beside_it() -> None:
    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    counted, _ = fold(Role.AGENT, step(3, usage))
    assert orjson.loads(counted) == {"calls": 3, "usage": usage}


def test_what_a_user_says_and_what_is_short_stays_as_it_is() -> None:
    for role, payload in ((Role.USER, step(2)), (Role.AGENT, '{"content":"?"}')):
        assert fold(role, payload) == (payload, None)
        assert unfold(payload, None) == payload


@given(st.dictionaries(st.text(), st.text() | st.integers(0, 10**9) | st.none(), max_size=40))
def test_whatever_is_said_comes_back(said: dict[str, object]) -> None:
    payload = orjson.dumps(said | {"toolCalls": []}).decode()
    assert unfold(*fold(Role.AGENT, payload)) == payload


def test_the_dictionary_is_the_one_that_stored_steps_need() -> None:
    dictionary = Path(folding.__file__).with_name("dictionary-2.txt").read_bytes()
    assert hashlib.sha256(dictionary).hexdigest() == (
        "06993f4111769f924c43cd0513894f41fb3c75f26d365dee60fc207d510a006f"
    )
