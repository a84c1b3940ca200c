"""What vendors' tool sets have taught: each a history of a few calls, held against the world."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from ground import Ground, claimed, grounds, unclaimed
from processes import eventually
from scripted_provider import scripted_provider
from vendors.host import act


@pytest.fixture(scope="module")
async def vendors(
    module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, Ground]]:
    """One service for all of them."""
    folder = tmp_path_factory.mktemp("vendors")
    async with scripted_provider() as provider:
        names = ("tracker", "flags", "booking", "wiki", "bucket")
        async with grounds(module_database, folder, provider, *names) as found:
            yield found


@pytest.fixture
async def g(request: pytest.FixtureRequest, vendors: dict[str, Ground]) -> Ground:
    """A vendor's world as it is at first, and a session of its own."""
    found = vendors[request.param]
    await found.begin()
    return found


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("g", [name], indirect=True)


def states(report: object) -> list[str]:
    assert isinstance(report, dict)
    return [str(item["state"]) for item in report["items"]]


@of("tracker")
async def test_a_label_that_a_person_added_is_not_lost_when_the_list_is_set_back(g: Ground) -> None:
    await g.turn(("edit_ticket", {"id": "T-1", "labels": ["ours"]}))
    assert g.stranger("edit_ticket", id="T-1", labels=["ours", "theirs"])
    found = await g.undo()
    assert states(found) == ["needs_review"]
    assert g.world["tickets"]["T-1"]["labels"] == ["ours", "theirs"]
    assert found is not None
    assert not unclaimed(g.differing(), claimed(found))
    await g.begin()
    await g.turn(("edit_ticket", {"id": "T-1", "title": "ours", "labels": ["ours"]}))
    assert g.stranger("add_watcher", id="T-1", user="theirs")  # beside it
    assert states(await g.undo()) == ["reverted"]
    assert not g.differing()
    assert not g.overwritten()


@of("tracker")
async def test_an_older_turn_that_would_set_the_list_back_waits_for_the_newer_one(
    g: Ground,
) -> None:
    first = await g.turn(("edit_ticket", {"id": "T-1", "labels": ["one"]}))
    second = await g.turn(("edit_ticket", {"id": "T-1", "labels": ["one", "two"]}))
    plan = await g.plan(turn_ids=[first])
    assert [one["turn_id"] for one in plan["missing"]] == [second]
    assert states(await g.undo()) == ["reverted", "reverted"]
    assert not g.differing()


@of("tracker")
async def test_what_an_undo_brings_back_under_a_new_id_is_claimed_beside_what_is_gone(
    g: Ground,
) -> None:
    await g.turn(("drop_ticket", {"id": "T-3"}))
    found = await g.undo()
    assert found is not None
    assert (states(found), found["outcome"]) == (["compensated"], "partially_reverted")
    assert not unclaimed(g.differing(), claimed(found))
    assert {"ticket|T-11", "ticket|T-3|title"} <= claimed(found)


@of("flags")
async def test_a_person_who_is_quicker_than_our_call_is_not_written_over(g: Ground) -> None:
    """Between the look and the call: the vendor holds the call to the etag of the look."""
    await g.turn(("patch_flag", {"key": "beta", "patch": {"note": "ours"}}))
    theirs = ("put_flag", {"key": "beta", "doc": {"on": False, "by": "theirs"}})
    g.script({"count": "put_flag", "at": 1, "strangers": [theirs], "race": True})
    found = await g.undo()
    assert states(found) in (["partly"], ["failed"], ["needs_review"])
    assert g.world["flags"]["beta"]["doc"] == {"on": False, "by": "theirs"}
    assert not g.overwritten()


@of("flags")
async def test_what_a_person_changed_and_left_again_unseen_as_it_was_is_put_back(
    g: Ground,
) -> None:
    ours = {"key": "beta", "patch": {"note": "ours"}}
    theirs = {"key": "beta", "patch": {"note": "theirs"}}
    await g.turn(("patch_flag", ours))
    assert g.stranger("patch_flag", **theirs)
    assert g.stranger("patch_flag", **ours)
    assert states(await g.undo()) == ["reverted"]
    assert not g.differing()
    assert not g.overwritten()
    await g.begin()
    await g.turn(("patch_flag", ours))
    assert g.stranger("patch_flag", **theirs)
    assert states(await g.undo()) == ["needs_review"]
    assert g.stranger("patch_flag", **ours)
    found = await g.undo()
    assert states(found) == ["needs_review"]
    assert found is not None
    assert (claimed(found), claimed(found, theirs=False)) == ({"flag|beta|doc|note"}, set())
    assert g.world["flags"]["beta"]["doc"]["note"] == "ours"
    assert not g.differing()


@of("flags")
async def test_what_an_inverse_left_half_way_is_nobody_elses(g: Ground) -> None:
    await g.turn(("delete_flag", {"key": "old"}))
    g.script({"count": "archive_flag", "at": 1, "fault": "refused", "times": 9})
    found = await g.undo()
    assert states(found) == ["partly"]
    assert found is not None
    assert g.differing() == claimed(found, theirs=False) == {"flag|old|archived"}


@of("flags")
async def test_a_world_names_what_an_undo_wrote_over(g: Ground) -> None:
    """What the others are held to: a person's value, however it came there, if it was seen."""
    ours = {"key": "beta", "patch": {"note": "ours"}}
    theirs = {"key": "beta", "patch": {"note": "theirs"}}
    gone = {"key": "beta", "patch": {"note": None}}

    def wrote_over() -> None:
        with g.kept.open() as doc:
            act(g.module, doc, "undo", "patch_flag", gone)

    await g.turn(("patch_flag", ours))
    assert g.stranger("patch_flag", **theirs)
    wrote_over()
    assert [leaf for leaf, _ in g.overwritten()] == ["flag|beta|doc|note"]
    assert g.differing() == {"flag|beta|doc|note"}
    await g.begin()
    await g.turn(("patch_flag", ours))
    assert g.stranger("patch_flag", **theirs)
    await g.turn(("get_flag", {"key": "dark"}), ("get_flag", {"key": "beta"}))
    assert g.stranger("patch_flag", **ours)
    wrote_over()
    assert [leaf for leaf, _ in g.overwritten()] == ["flag|beta|doc|note"]
    await g.begin()
    await g.turn(("patch_flag", ours))
    assert g.stranger("patch_flag", **theirs)
    await g.turn(("get_flag", {"key": "dark"}))
    assert g.stranger("patch_flag", **ours)
    wrote_over()
    assert not g.overwritten()


@of("flags")
async def test_each_of_several_things_is_held_to_its_own_etag(g: Ground) -> None:
    await g.turn(("put_flag", {"key": "dark", "doc": {"on": True}}))
    await g.turn(("switch_off", {"keys": ["beta", "dark"]}))
    assert states(await g.undo()) == ["reverted", "reverted"]
    assert not g.differing()


@of("booking")
async def test_what_a_vendor_refused_is_in_doubt_no_longer(g: Ground) -> None:
    room = {"room": "101", "night": "n"}
    await g.turn(("hold_room", room), ("hold_room", room))
    assert [one["state"] for one in await g.effects()] == ["done", "failed_clean"]
    found = await g.undo()
    assert found is not None
    assert found["outcome"] == "fully_reverted"
    assert not g.differing()


@of("wiki")
async def test_what_an_answer_names_in_prose_is_taken_back(g: Ground) -> None:
    await g.turn(("open_talk", {"title": "Home", "text": "ours"}))
    await g.turn(("open_talk", {"title": "Nowhere", "text": "ours"}))
    assert [one["state"] for one in await g.effects()] == ["done", "failed_clean"]
    assert states(await g.undo()) == ["reverted"]
    assert not g.differing()


@pytest.mark.undo(11)
@of("tracker")
@pytest.mark.parametrize("fault", ["dies_before", "dies_after"])
async def test_a_call_in_whose_middle_the_server_died_is_made_again_by_its_key_and_taken_back(
    g: Ground, fault: str
) -> None:
    """The server is started again by the service, and keeps answers by their keys."""
    g.script({"count": "writes", "at": 1, "fault": fault})
    await g.turn(("create_ticket", {"title": "ours"}))
    [effect] = await g.effects()
    assert effect["standing"] == "in_doubt"
    await eventually(g.is_back)
    found = await g.undo()
    assert found is not None
    assert found["outcome"] == "fully_reverted"
    assert not g.differing()
    assert [one[0] for one in g.calls("undo")] == ["create_ticket", "trash_ticket"]
    assert found["spent"]["calls"] == 2
    assert len(g.world["trash"]) == 1


@of("tracker")
async def test_what_a_stranger_wrote_before_a_doubt_was_settled_is_not_taken_for_ours(
    g: Ground,
) -> None:
    """The look that follows the call comes late: what is there by then may be anybody's."""
    g.script({"count": "writes", "at": 1, "fault": "dies_after"})
    await g.turn(("create_ticket", {"title": "ours"}))
    [made] = g.world["tickets"].keys() - {"T-1", "T-2", "T-3"}
    assert g.stranger("add_watcher", id=made, user="theirs")
    await eventually(g.is_back)
    assert states(await g.undo()) == ["needs_review"]
    assert g.world["tickets"][made]["watchers"] == ["theirs"]
    assert not g.overwritten()


@of("booking")
@pytest.mark.parametrize("fault", ["dies_before", "dies_after"])
async def test_an_undo_does_not_make_a_payment_that_may_never_have_been_made(
    g: Ground, fault: str
) -> None:
    g.script({"count": "writes", "at": 1, "fault": fault})
    await g.turn(("charge", {"amount": 5, "of": "ours"}))
    found = await g.undo()
    assert found is not None
    assert (states(found), found["outcome"]) == (["in_doubt"], "not_reverted")
    assert not g.calls("undo")
    assert len(g.world["payments"]) == (fault == "dies_after")


@of("booking")
async def test_a_payment_in_doubt_is_made_by_its_key_when_it_is_asked_for_again(g: Ground) -> None:
    g.script({"count": "writes", "at": 1, "fault": "dies_after"})
    await g.turn(("charge", {"amount": 5, "of": "ours"}))
    await eventually(g.is_back)
    await g.turn(("charge", {"amount": 5, "of": "ours"}))
    assert len(g.world["payments"]) == 1
    assert [one["state"] for one in await g.effects()] == ["done"]
    assert states(await g.undo()) == ["compensated"]
    assert [one["state"] for one in g.world["payments"].values()] == ["refunded"]


@of("tracker")
async def test_what_a_call_in_doubt_may_have_changed_is_claimed(g: Ground) -> None:
    g.script({"count": "writes", "at": 1, "fault": "dies_after"})
    await g.turn(("add_task", {"id": "T-1", "text": "ours"}))
    found = await g.undo()
    assert found is not None
    assert found["outcome"] != "fully_reverted"
    assert g.differing()
    assert not unclaimed(g.differing(), claimed(found))


@pytest.mark.undo(39)
@of("tracker")
async def test_of_two_sessions_that_wrote_one_thing_the_others_writing_stands(g: Ground) -> None:
    await g.turn(("edit_ticket", {"id": "T-2", "title": "first", "assignee": "first"}))
    other = replace(g, turns=[])
    other.session = await g.server.session()
    await other.turn(("edit_ticket", {"id": "T-2", "title": "second"}))
    found = await g.undo()
    assert states(found) == ["needs_review"]
    ticket = g.world["tickets"]["T-2"]
    assert (ticket["title"], ticket["assignee"]) == ("second", "first")
    assert states(await other.undo()) == ["reverted"]
    assert g.world["tickets"]["T-2"]["title"] == "first"
    assert states(await g.undo()) == ["reverted"]
    assert not g.differing()


@of("bucket")
async def test_what_a_person_wrote_into_a_copy_is_not_removed_with_it(g: Ground) -> None:
    await g.turn(("copy_folder", {"source": "docs", "path": "copy"}))
    assert g.stranger("put_object", path="copy/a.txt", body="theirs")
    found = await g.undo()
    assert found is not None
    assert states(found) == ["needs_review"]
    assert g.world["objects"]["copy/a.txt"]["body"] == "theirs"
    assert not unclaimed(g.differing(), claimed(found))
    await g.begin()
    await g.turn(("copy_folder", {"source": "docs", "path": "copy"}))
    assert states(await g.undo()) == ["reverted"]
    assert not g.differing()


@of("bucket")
async def test_what_went_with_a_folder_is_claimed(g: Ground) -> None:
    await g.turn(("remove_folder", {"path": "docs"}))
    found = await g.undo()
    assert found is not None
    assert states(found) == ["needs_you"]
    assert any(leaf.startswith("object|docs/a.txt") for leaf in g.differing())
    assert not unclaimed(g.differing(), claimed(found))
