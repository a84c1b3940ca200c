"""Content addresses: a workflow goes apart into blobs and comes together again, checked."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workflows import FILES, LIMITS, applicable, edit_lists, make, several, workflows

from turnback.core.errors import SnapshotMissing
from turnback.core.workflow import EMPTY, Assembly, assemble, load, load_json, operators_in, parts
from turnback.core.workflow.manifest import BUCKETS, INLINE, bucket_of, unfold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.core.edits import Edit
    from turnback.core.workflow import Workflow


def fetched(top_hash: str, blobs: dict[str, bytes]) -> dict[str, bytes]:
    """What a store gets in its three fetches: the top, what it lists, what its buckets list."""
    listed = parts(blobs[top_hash])
    in_buckets = [name for part in listed for name in operators_in(blobs[part])]
    return {name: blobs[name] for name in (top_hash, *listed, *in_buckets)}


@several
@given(workflows())
def test_blobs_then_assemble_is_the_identity(workflow: Workflow) -> None:
    again = assemble(workflow.hash, fetched(workflow.hash, workflow.blobs()))
    assert again.encoded() == workflow.encoded()
    assert again == workflow
    assert again.blobs() == workflow.blobs()


@several
@given(workflows(), edit_lists())
def test_the_blobs_since_a_version_complete_its_own(
    before: Workflow, wanted: Sequence[Edit]
) -> None:
    after = make(before, *applicable(before, wanted))
    new = after.blobs(since=before)
    assert not new.keys() & before.blobs().keys()
    both = before.blobs() | new
    assert fetched(after.hash, both) == after.blobs()
    assert assemble(after.hash, both).encoded() == after.encoded()


def test_a_bucket_that_an_edit_empties_is_no_new_blob_where_another_was_empty() -> None:
    operator = {"operatorID": "a", "operatorType": "Filter"}
    before = make(EMPTY, {"op": "addOperator", "operator": operator})
    after = make(before, {"op": "removeOperator", "operatorID": "a"})
    assert not after.blobs(since=before).keys() & before.blobs().keys()


@several
@given(workflows(), edit_lists())
def test_versions_of_one_assembly_share_what_they_have_in_common(
    before: Workflow, wanted: Sequence[Edit]
) -> None:
    after = make(before, *applicable(before, wanted))
    assembly = Assembly(before.blobs() | after.blobs())
    one, other = assembly.workflow(before.hash), assembly.workflow(after.hash)
    assert (one.encoded(), other.encoded()) == (before.encoded(), after.encoded())
    for name, operator in one.operators.items():
        same = before.operators[name] is after.operators.get(name)
        assert not same or other.operators[name] is operator


@several
@given(workflows())
def test_a_version_needs_no_blobs_since_itself(workflow: Workflow) -> None:
    assert workflow.blobs(since=workflow) == {}
    assert workflow.blobs(since=load(workflow.content(), **LIMITS)) == {}


@several
@given(workflows(), st.data())
def test_a_missing_or_damaged_blob_is_found_whichever_it_is(
    workflow: Workflow, data: st.DataObject
) -> None:
    blobs = workflow.blobs()
    name = data.draw(st.sampled_from(sorted(blobs)))
    missing = {other: blob for other, blob in blobs.items() if other != name}
    with pytest.raises(SnapshotMissing) as refused:
        assemble(workflow.hash, missing)
    assert refused.value.data == {"hash": name}
    damaged = blobs[name][:-1] + bytes([blobs[name][-1] ^ 1])
    with pytest.raises(SnapshotMissing):
        assemble(workflow.hash, {**blobs, name: damaged})


def test_what_is_no_top_blob_is_not_taken_for_one() -> None:
    workflow = load_json(FILES[0].read_bytes(), **LIMITS)
    for name, blob in workflow.blobs().items():
        if name != workflow.hash:
            with pytest.raises(SnapshotMissing):
                assemble(name, workflow.blobs())
            assert parts(blob) == []
    assert parts(b"") == operators_in(b"") == operators_in(b"B?") == []


def test_no_text_of_a_user_is_taken_for_a_manifest() -> None:
    forged = load({"settings": {"B": "0" * 40}, "T": "T" + "0" * 460, "B": ["B"]}, **LIMITS)
    manifests = [blob for blob in forged.blobs().values() if parts(blob) or operators_in(blob)]
    assert manifests == [forged.blobs()[forged.hash]]


def large() -> Workflow:
    """A workflow of about 50 KB with 70 operators, out of those of a file."""
    files = {path.name: load_json(path.read_bytes(), **LIMITS) for path in FILES}
    document: dict[str, Any] = copy.deepcopy(files["join-and-chart.json"].content())
    models = document["operators"]
    document["operators"] = [
        {**models[n % len(models)], "operatorID": f"operator-{n}"} for n in range(70)
    ]
    document["operatorPositions"] = {f"operator-{n}": {"x": n, "y": n} for n in range(70)}
    document["links"] = []
    return load(document, **LIMITS)


def test_two_operators_changed_in_a_large_workflow_cost_three_small_blobs() -> None:
    before = large()
    assert 40_000 < len(before.encoded()) < 60_000
    after = make(
        before,
        *(
            {"op": "changeOperator", "operatorID": name, "set": {"isDisabled": "now"}}
            for name in ("operator-3", "operator-44")
        ),
    )
    new = after.blobs(since=before)
    buckets = [blob for blob in new.values() if blob.startswith(b"O")]
    assert len(new) == 3
    assert len(buckets) == 2
    assert sum(map(len, new.values())) < len(before.encoded()) / 7


def in_one_bucket(count: int) -> Workflow:
    """A workflow whose operators all fall into one bucket."""
    names = [f"o{n}" for n in range(100 * BUCKETS) if bucket_of(f"o{n}") == 0][:count]
    return load(
        {"operators": [{"operatorID": name, "operatorType": "Limit"} for name in names]}, **LIMITS
    )


@pytest.mark.parametrize("count", [1, INLINE, INLINE + 1, 3 * INLINE])
def test_a_bucket_is_one_blob_until_it_has_many_operators(count: int) -> None:
    workflow = in_one_bucket(count)
    sections, empty = 2, 1
    buckets = len(workflow.blobs()) - sections - empty - 1
    assert buckets == (1 if count <= INLINE else 1 + count)
    assert assemble(workflow.hash, fetched(workflow.hash, workflow.blobs())) == workflow


@pytest.mark.parametrize(
    ("before", "after"), [(INLINE, INLINE + 1), (INLINE + 1, INLINE), (0, INLINE + 1), (1, 0)]
)
def test_a_bucket_that_comes_to_have_many_operators_or_few_is_whole(
    before: int, after: int
) -> None:
    one, other = in_one_bucket(before), in_one_bucket(after)
    both = one.blobs() | other.blobs(since=one)
    assert assemble(other.hash, both) == other
    assert assemble(one.hash, both) == one


@several
@given(workflows())
def test_buckets_that_were_stored_by_the_addresses_of_their_operators_are_read(
    workflow: Workflow,
) -> None:
    blobs = workflow.blobs()
    as_before = {
        name: blob
        for bucket in parts(blobs[workflow.hash])[:BUCKETS]
        if bucket in blobs
        for name, blob in unfold(bucket, blobs[bucket]).items()
    }
    assert assemble(workflow.hash, fetched(workflow.hash, blobs | as_before)) == workflow


def test_equal_operators_are_one_blob_in_every_version() -> None:
    before = large()
    there = {"op": "moveOperator", "operatorID": "operator-3", "position": {"x": -1, "y": -1}}
    back = {**there, "position": before.positions["operator-3"]}
    assert make(before, there, back) == before
    assert len(make(before, there).blobs(since=before)) == 2


def test_the_empty_workflow_is_a_handful_of_blobs() -> None:
    assert sum(map(len, EMPTY.blobs().values())) < 700
