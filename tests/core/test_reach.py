"""What a purge must keep: exactly the blobs that the workflows left are made of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnback.core.workflow import Reach, Workflow, load

OPERATORS = st.dictionaries(st.integers(0, 40), st.integers(0, 3), max_size=12)


def workflow(operators: dict[int, int]) -> Workflow:
    return load(
        {
            "operators": [
                {"operatorID": f"o{id_}", "operatorType": "Limit", "limit": value}
                for id_, value in operators.items()
            ],
            "links": [],
        },
        max_bytes=10**6,
        max_depth=50,
    )


def reached(stored: dict[str, bytes], workflows: list[Workflow]) -> set[str]:
    """The stored blobs that are reached, read one at a time."""
    reach = Reach()
    wanted = reach.want(bytes.fromhex(w.hash) for w in workflows)
    while wanted:
        address, *wanted = wanted
        if (blob := stored.get(address.hex())) is not None:
            wanted += reach.follow([blob])
    return {hash_ for hash_ in stored if bytes.fromhex(hash_) in reach}


@given(left=st.lists(OPERATORS, max_size=4), gone=st.lists(OPERATORS, max_size=4))
def test_the_blobs_of_the_workflows_left_are_reached_and_no_others(
    left: list[dict[int, int]], gone: list[dict[int, int]]
) -> None:
    kept = [workflow(operators) for operators in left]
    needed = {hash_ for one in kept for hash_ in one.blobs()}
    stored = {
        hash_: blob for one in (*kept, *map(workflow, gone)) for hash_, blob in one.blobs().items()
    }
    assert reached(stored, kept) == needed


def test_a_damaged_or_missing_manifest_names_nothing() -> None:
    one = workflow({1: 1, 2: 2})
    blobs = one.blobs()
    assert reached(blobs | {one.hash: b""}, [one]) == {one.hash}
    assert reached(blobs | {one.hash: blobs[one.hash][:-1]}, [one]) == {one.hash}
    assert reached({h: b for h, b in blobs.items() if h != one.hash}, [one]) == set()
