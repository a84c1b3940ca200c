"""What follows from a contract for one call: its class, its inverse, its people, its moments."""

from __future__ import annotations

from typing import Any

import pytest
from any_json import json_values
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import contract, observed

from turnback.core.contracts import answers, choose
from turnback.core.contracts.model import READ_ONLY, UNDECLARED, Contract, parse
from turnback.core.effects import Call, EffectClass, ResourceKey, worst
from turnback.core.errors import Unresolved

ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
NEW = {"name": "New", "entityType": "person", "observations": []}
KNOWS = {"from": "Bo", "to": "Ann", "relationType": "knows"}
LATER = {"from": "New", "to": "Ann", "relationType": "asks"}
GRAPH = {"entities": [ANN], "relations": [KNOWS, LATER]}


def inverse(of: Contract, args: Any, before: choose.Before, result: Any) -> list[tuple[str, Any]]:
    decision = choose.decide(of, "here", args, before, result)
    return [(c.tool, dict(c.args)) for c in choose.inverse(of, decision, args, before, result)]


# -- the graph


def test_only_what_the_result_says_was_created_is_deleted() -> None:
    of, args = contract("graph", "create_entities"), {"entities": [NEW, ANN]}
    before = observed(of, args, GRAPH)
    assert inverse(of, args, before, {"entities": [NEW]}) == [
        ("delete_entities", {"entityNames": ["New"]}),
        ("create_relations", {"relations": [LATER, KNOWS]}),
    ]


def test_a_call_is_left_out_where_there_is_nothing_for_it() -> None:
    of, args = contract("graph", "create_entities"), {"entities": [NEW]}
    before = observed(of, args, {"entities": [], "relations": []})
    calls = inverse(of, args, before, {"entities": [NEW]})
    assert calls == [("delete_entities", {"entityNames": ["New"]})]


def test_a_success_that_changed_nothing_is_seen() -> None:
    of, args = contract("graph", "create_entities"), {"entities": [ANN]}
    before = observed(of, args, GRAPH)
    assert answers.is_unchanged(of, args, before, {"entities": []})
    assert not answers.is_unchanged(of, args, before, {"entities": [ANN]})
    assert not answers.is_unchanged(UNDECLARED, args, choose.Before(), {})


def test_one_call_for_each_that_the_result_names() -> None:
    of = contract("graph", "add_observations")
    args = {"observations": [{"entityName": name, "contents": ["x"]} for name in ("Ann", "Bo")]}
    result = {
        "results": [
            {"entityName": "Ann", "addedObservations": ["x"]},
            {"entityName": "Bo", "addedObservations": []},
            {"entityName": "Cy", "addedObservations": ["x"]},
        ]
    }
    assert inverse(of, args, observed(of, args, GRAPH), result) == [
        ("delete_observations", {"deletions": [{"entityName": "Ann", "observations": ["x"]}]}),
        ("delete_observations", {"deletions": [{"entityName": "Cy", "observations": ["x"]}]}),
    ]
    assert choose.decide(of, "here", args, observed(of, args, GRAPH), result).narrow


def test_what_was_deleted_is_made_again_from_what_was_observed() -> None:
    of, args = contract("graph", "delete_entities"), {"entityNames": ["Ann", "New"]}
    before = observed(of, args, GRAPH)
    assert inverse(of, args, before, {"text": "ok"}) == [
        ("create_entities", {"entities": [ANN]}),
        ("create_relations", {"relations": [KNOWS, LATER]}),
    ]


def test_scopes_are_those_of_the_server() -> None:
    assert choose.scopes(contract("graph", "create_entities"), {"entities": []}) == ("graph",)


# -- the files


def write(answer: Any) -> choose.Decision:
    of, args = contract("files", "write_file"), {"path": "./a.txt", "content": "new"}
    return choose.decide(of, "here", args, observed(of, args, answer), {"text": "ok"})


def test_writing_over_a_file_is_reversible_and_making_one_is_not() -> None:
    over, made = write({"content": "old"}), write("ENOENT: no such file")
    assert (over.class_, over.case, over.not_kept) == ("reversible", 0, ("the time of change",))
    assert (made.class_, made.case, made.residue) == ("irreversible", 1, "file_left")


@pytest.mark.parametrize("answer", [{"content": "bin�ary"}, "EACCES: denied", {"text": "?"}])
def test_what_could_not_be_read_before_is_never_taken_for_absent(answer: Any) -> None:
    decision = write(answer)
    assert (decision.class_, decision.case) == ("irreversible", None)
    assert decision.worse_because is not None
    with pytest.raises(Unresolved, match="Under which case"):
        choose.inverse(contract("files", "write_file"), decision, {}, choose.Before())


def test_a_file_is_written_back_and_moved_back() -> None:
    of, args = contract("files", "write_file"), {"path": "./a.txt", "content": "new"}
    assert choose.touched(of, "here", args) == (ResourceKey("here", "file", ("a.txt",)),)
    before = observed(of, args, {"content": "old"})
    assert inverse(of, args, before, {}) == [("write_file", {"path": "./a.txt", "content": "old"})]

    of, args = contract("files", "move_file"), {"source": "a", "destination": "b"}
    before = observed(of, args, {"content": "x"}, "ENOENT")
    assert inverse(of, args, before, {}) == [("move_file", {"source": "b", "destination": "a"})]
    folder = choose.decide(of, "here", args, observed(of, args, "EISDIR", "ENOENT"), {})
    assert (folder.class_, folder.residue) == ("irreversible", "moved")


def test_before_the_call_the_worst_still_possible_is_shown() -> None:
    of, args = contract("files", "write_file"), {"path": "a", "content": "x"}
    assert choose.worst_possible(of, "here", args) == "irreversible"
    assert choose.worst_possible(of, "here", args, observed(of, args, {"content": "y"})) == (
        "reversible"
    )
    assert choose.classes(of) == {"reversible", "irreversible"}


@pytest.mark.undo(30)
@settings(deadline=None)
@given(args=st.dictionaries(st.text(max_size=4), json_values, max_size=3), result=json_values)
def test_an_undeclared_tool_is_irreversible_whatever_it_is_called_with(
    args: dict[str, Any], result: Any
) -> None:
    decision = choose.decide(UNDECLARED, "here", args, choose.Before(), result)
    assert decision.class_ is EffectClass.IRREVERSIBLE
    assert choose.classes(UNDECLARED) == {EffectClass.IRREVERSIBLE}
    with pytest.raises(Unresolved):
        choose.inverse(UNDECLARED, decision, args, choose.Before(), result)


# -- one of everything


def note(**parts: Any) -> Contract:
    """A contract of a tool that sets a note's text and tag."""
    case = {
        "class": "reversible",
        "inverse": [
            {
                "call": "set_note",
                "args": {
                    "id": {"$1": "$.args.id"},
                    "text": {"$1": "$.before.note[0].text", "if": "$.args.text"},
                },
            }
        ],
        **parts.pop("case", {}),
    }
    return parse(
        {
            "resources": {
                "note": {
                    "key": ["id"],
                    "read": {"call": "get_note", "args": {"id": {"$1": "$.key.id"}}},
                    "state": {"text": {"$1": "$.now.text"}, "tag": {"$1": "$.now.tag"}},
                    **parts.pop("note", {}),
                }
            },
            "touches": [{"note": {"id": {"$1": "$.args.id"}}}],
            "cases": [case],
            **parts,
        },
        of="set_note",
    )


READ_NOTE = {"call": "get_note", "args": {"id": {"$1": "$.key.id"}}}
ARGS = {"id": "n1", "text": "new"}
WAS = {"id": "n1", "text": "old", "tag": "t"}


def decided(of: Contract, result: Any = None, args: Any = ARGS, **options: Any) -> choose.Decision:
    return choose.decide(of, "here", args, observed(of, args, WAS), result, **options)


def test_only_what_the_call_named_is_written_back() -> None:
    of = note()
    back = inverse(of, {"id": "n1", "tag": "x"}, observed(of, {"id": "n1"}, WAS), {})
    assert back == [("set_note", {"id": "n1"})]
    assert inverse(of, ARGS, observed(of, ARGS, WAS), {}) == [
        ("set_note", {"id": "n1", "text": "old"})
    ]


def test_secrets_without_a_key_make_a_call_irreversible() -> None:
    of = note(note={"secret": ["text"]})
    assert decided(of).class_ == "reversible"
    without = decided(of, keeps_secrets=False)
    assert without.class_ == "irreversible"
    assert "TURNBACK_SECRET_KEY" in str(without.worse_because)


def test_what_cannot_be_read_is_at_best_compensable_and_says_so_without_the_vendors_words() -> None:
    of = note()
    seen = choose.Before(((choose.touched(of, "here", ARGS)[0], choose.Unreadable("it is down")),))
    got = choose.decide(note(case={"inverse": [NAMED]}), "here", ARGS, seen, {})
    why = "what it touches could not be read"
    assert (got.class_, got.worse_because) == ("compensable", why)


NAMED = {"call": "restore_note", "args": {"id": {"$1": "$.args.id"}}}


def test_an_inverse_that_cannot_be_filled_in_makes_the_call_irreversible() -> None:
    call = {"call": "set_note", "args": {"id": {"$1": "$.result.id"}}}
    of = note(case={"inverse": [call]})
    assert decided(of).class_ == "reversible"
    assert decided(of, {"id": "n1"}).class_ == "reversible"
    unfilled = decided(of, {"other": 1})
    assert unfilled.class_ == "irreversible"
    assert "$.result.id" in str(unfilled.worse_because)


def test_a_key_that_cannot_be_made_makes_the_call_irreversible() -> None:
    got = choose.decide(note(), "here", {"id": ["a", {}]}, choose.Before(), {})
    assert got.class_ == "irreversible"


def test_the_mildest_class_that_a_contract_may_have() -> None:
    of = note(at_least="compensable")
    assert (decided(of).class_, choose.classes(of)) == ("compensable", {"compensable"})
    assert decided(of).worse_because == "its contract may promise no more"
    reads = note(at_least="compensable", touches=[])
    reads = reads.model_copy(update={"cases": READ_ONLY.cases})
    assert choose.decide(reads, "here", {}).class_ == "read"


def test_whom_it_tells_and_what_a_person_may_be_shown() -> None:
    of = note(
        case={"class": "irreversible", "inverse": [], "residue": "seen"},
        notifies=[{"$": "$.args.to[*]"}, "all who follow it"],
        names={"subject": {"$1": "$.args.text"}, "count": {"$1": "$.args.none"}},
    )
    got = decided(of, args={**ARGS, "to": ["a@x", "b@x", "a@x", {}]})
    assert got.people == ("a@x", "b@x", "all who follow it")
    assert got.tells
    assert got.names == {"subject": "new"}
    assert not decided(note()).tells


def test_what_only_the_result_names_is_made() -> None:
    of = note(touches=[], makes=[{"note": {"id": {"$1": "$.result.id"}}}])
    of = of.model_copy(
        update={
            "cases": note(
                case={"inverse": [{**NAMED, "args": {"id": {"$1": "$.result.id"}}}]}
            ).cases
        }
    )
    assert choose.touched(of, "here", {}) == ()
    assert choose.made(of, "here", {}, {"id": "n9"}) == (ResourceKey("here", "note", ("n9",)),)
    assert choose.decide(of, "here", {}, choose.Before(), {"id": "n9"}).makes
    assert choose.decide(of, "here", {}, choose.Before(), {}).class_ == "irreversible"


def test_what_was_there_before_was_not_made() -> None:
    of = note(makes=[{"note": {"id": {"$1": "$.result.id"}}}])
    assert decided(of, {"id": "n2"}).class_ == "reversible"
    found = decided(of, {"id": "n1"})
    assert found.class_ == "irreversible"
    assert "was there before" in str(found.worse_because)


def test_covers_and_needs_are_resources() -> None:
    key = [{"note": {"id": {"$1": "$.result.other"}}}]
    of = note(case={"covers": key, "needs": key})
    other = (ResourceKey("here", "note", ("n2",)),)
    assert decided(of).covers == ()
    assert (decided(of, {"other": "n2"}).covers, decided(of, {"other": "n2"}).needs) == (
        other,
        other,
    )


def test_the_vendors_window_to_cancel() -> None:
    cancel = {
        "call": "unsend",
        "args": {"id": {"$1": "$.result.id"}},
        "until": {"$1": "$.result.until"},
        "confirmed": {"equal": [{"$1": "$.result.state"}, "recalled"]},
    }
    of = note(case={"class": "irreversible", "inverse": [], "cancel": cancel})
    result = {"id": 5, "until": "2026-01-02T03:04:05Z"}
    got = decided(of, result)
    call = choose.cancel_call(got, of, ARGS, result)
    assert call is not None
    assert (call.tool, call.args) == ("unsend", {"id": 5})
    assert answers.is_confirmed(call, {"state": "recalled"})
    assert not answers.is_confirmed(call, {"state": "too late"})
    assert not answers.is_confirmed(call, {})
    assert not answers.is_confirmed(Call("unsend", {}), {"state": "recalled"})
    assert choose.cancel_call(decided(note()), note(), ARGS, result) is None


@pytest.mark.parametrize(
    ("at", "said", "when"),
    [
        (30, None, 1_000 + 30_000),
        ({"$1": "$.result.t"}, 1_767_322_800, 1_767_322_800_000),
        ({"$1": "$.result.t"}, 1_767_322_800_500, 1_767_322_800_500),
        ({"$1": "$.result.t"}, "2026-01-02T03:00:00Z", 1_767_322_800_000),
        ({"$1": "$.result.t"}, "2026-01-02 05:00:00.25+02:00", 1_767_322_800_000),
        ({"$1": "$.result.t"}, "2026-01-01T21:30:00-0530", 1_767_322_800_000),
        ({"$1": "$.result.t"}, "tomorrow", None),
        ({"$1": "$.result.t"}, True, None),
        ({"$1": "$.result.t"}, None, None),
        ({"$1": "$.result.none"}, 1, None),
    ],
)
def test_a_moment_is_seconds_after_or_as_the_result_says(at: Any, said: Any, when: Any) -> None:
    assert answers.moment(at, {}, {"t": said}, sent=1_000) == when


def test_the_vendor_is_made_to_compare() -> None:
    call = {**NAMED, "if_match": {"etag": {"$1": "$.now.etag"}, "of": {"$1": "$.key.id"}}}
    of = note(case={"inverse": [call]})
    got = choose.inverse(of, decided(of, {}), ARGS, observed(of, ARGS, WAS), {})[0]
    sent = choose.guarded(got, {"id": "n1"}, {"etag": "e7"})
    assert (sent.args, sent.if_match) == ({"id": "n1", "etag": "e7", "of": "n1"}, {})
    with pytest.raises(Unresolved):
        choose.guarded(got, {"id": "n1"}, {})
    assert choose.guarded(sent, {}, {}) is sent


@pytest.mark.undo(9)
def test_an_error_in_the_body_of_a_success_is_a_failure() -> None:
    of = note(error_if={"differ": [{"$1": "$.result.status"}, "ok"]})
    assert answers.is_error(UNDECLARED, {}, is_error=True, answer={})
    assert answers.is_error(UNDECLARED, {}, is_error=False, answer={"error": "denied"})
    assert not answers.is_error(UNDECLARED, {}, is_error=False, answer={"error": None})
    assert answers.is_error(of, ARGS, is_error=False, answer={"status": "failed"})
    assert not answers.is_error(of, ARGS, is_error=False, answer={"status": "ok"})


def test_a_compensation_is_verified_by_its_contract() -> None:
    of = note(
        case={
            "class": "compensable",
            "residue": "refunded",
            "verify": {"equal": [{"$1": "$.now.tag"}, "refunded"], "exists": {"$": "$.result.id"}},
        }
    )
    verify = decided(of).verify
    assert verify is not None
    assert answers.is_verified(verify, ARGS, now={"tag": "refunded"}, result={"id": 1}) is True
    assert answers.is_verified(verify, ARGS, now={"tag": "open"}, result={"id": 1}) is False


def test_a_doubt_is_settled_by_what_is_found() -> None:
    of = note(
        find={
            "call": "list_notes",
            "args": {"client": {"$1": "$.key"}},
            "found": {"$": "$.now.notes[?@.client == $.key]"},
            "result": {"id": {"$1": "$.item.id"}},
            "after": 60,
        }
    )
    assert answers.find_call(of, ARGS, "k1") == Call("list_notes", {"client": "k1"})
    assert answers.find_call(note(), ARGS, "k1") is None

    def found(*notes: Any, since: float = 100) -> answers.Found:
        return answers.found(of, ARGS, "k1", {"notes": list(notes)}, since=since)

    mine = {"id": 4, "client": "k1"}
    assert found(mine, {"id": 5, "client": "k2"}) == answers.Applied({"id": 4})
    assert found() == answers.NotApplied()
    assert isinstance(found(since=10), answers.StillInDoubt)
    assert isinstance(found(mine, mine), answers.StillInDoubt)
    assert isinstance(found({"client": "k1"}), answers.StillInDoubt)
    assert isinstance(answers.found(note(), ARGS, "k1", {}, since=100), answers.StillInDoubt)


def test_the_inverse_is_written_down_with_the_intent() -> None:
    call = {
        "call": "set",
        "args": {"id": {"$1": "$.result.id"}, "t": {"$1": "$.before.note[0].text"}},
    }
    of = note(case={"inverse": [call, {**NAMED, "skip": {"exists": {"$": "$.args.text"}}}]})
    at = choose.document(of, ARGS, observed(of, ARGS, WAS))
    assert choose.template(of.cases[0], at) == [
        {"call": "set", "args": {"id": {"$1": "$.result.id"}, "t": "old"}}
    ]


TEXTS = st.sampled_from(["a", "b", ""])


@settings(deadline=None)
@given(
    args=st.fixed_dictionaries({"path": TEXTS, "content": TEXTS}),
    answer=st.fixed_dictionaries({"content": TEXTS}) | st.sampled_from(["ENOENT", "EACCES"]),
    result=json_values,
)
def test_what_is_shown_before_the_call_is_never_milder_than_what_it_turns_out(
    args: Any, answer: Any, result: Any
) -> None:
    of = contract("files", "write_file")
    before = observed(of, args, answer)
    first = choose.worst_possible(of, "here", args)
    then = choose.worst_possible(of, "here", args, before)
    at_last = choose.decide(of, "here", args, before, result).class_
    assert worst((first, then)) == first
    assert worst((then, at_last)) == then


WHENS = st.sampled_from(
    [
        {"exists": {"$": "$.args.text"}},
        {"empty": {"$": "$.args.tag"}},
        {"equal": [{"$1": "$.before.note[0].tag"}, "t"]},
        {"exists": {"$": "$.before.note[0].text"}},
        {"unreadable": ["note"]},
        {"equal": [{"$1": "$.result.status"}, "ok"]},
        {"differ": [{"$1": "$.result.status"}, {"$1": "$.args.text"}]},
        {"exists": {"$": "$.args.text"}, "empty": {"$": "$.result.status"}},
    ]
)
CASES = st.sampled_from(
    [
        {"class": "read"},
        {"class": "reversible", "inverse": [NAMED]},
        {"class": "compensable", "residue": "left", "inverse": [NAMED]},
        {"class": "irreversible", "residue": "gone"},
    ]
)


@settings(deadline=None)
@given(
    cases=st.lists(st.tuples(CASES, WHENS | st.none()), max_size=4),
    args=st.fixed_dictionaries({"id": st.just("n1")}, optional={"text": TEXTS, "tag": TEXTS}),
    seen=st.sampled_from([WAS, {**WAS, "tag": "u"}, "404", "503"]),
    result=st.fixed_dictionaries({}, optional={"status": st.sampled_from(["ok", "a", "no"])}),
)
def test_the_more_is_known_of_a_call_the_milder_it_gets_and_never_the_worse(
    cases: Any, args: Any, seen: Any, result: Any
) -> None:
    of = note(note={"read": {**READ_NOTE, "error_is": {"absent": "^404"}}})
    of = of.model_copy(
        update={"cases": parse({"cases": [{**c, "when": w} for c, w in cases]}, of="x").cases}
    )
    before = observed(of, args, seen)
    shown = choose.decide(of, "here", args)
    known = choose.decide(of, "here", args, before)
    done = choose.decide(of, "here", args, before, result)
    assert done.class_ in choose.classes(of) or done.worse_because
    for earlier, later in ((shown, known), (known, done)):
        assert worst((earlier.class_, later.class_)) == earlier.class_ or later.worse_because
    if seen != "503":
        assert worst((shown.class_, done.class_)) == shown.class_
        assert (done.case is None) == (done.possible == ())


@settings(deadline=None)
@given(args=st.dictionaries(st.sampled_from(["id", "text", "to"]), json_values), result=json_values)
def test_no_call_is_milder_than_its_contract_allows(args: Any, result: Any) -> None:
    of = note()
    try:
        before = observed(of, args, WAS)
    except Unresolved:
        before = choose.Before()
    decision = choose.decide(of, "here", args, before, result)
    allowed = choose.classes(of)
    assert decision.class_ in allowed or decision.worse_because is not None
    assert decision.class_ not in (EffectClass.READ,)


TASKS = parse(
    {
        "resources": {
            "ticket": {
                "key": ["id"],
                "read": {"call": "get", "args": {"id": {"$1": "$.key.id"}}},
                "state": {
                    "title": {"$1": "$.now.title"},
                    "labels": {"$1": "$.now.labels"},
                    "spec": {"$1": "$.now.spec"},
                    "tasks": {"$1": "$.now.tasks"},
                },
                "keep": {"version": {"$1": "$.now.version"}},
                "compare": {"labels": "set", "tasks": {"by": "id"}},
            }
        },
        "touches": [{"ticket": {"id": {"$1": "$.args.id"}}}],
        "cases": [
            {
                "class": "reversible",
                "narrow": True,
                "inverse": [
                    {
                        "call": "put",
                        "args": {
                            "id": {"$1": "$.args.id"},
                            "labels": {"$1": "$.before.ticket[0].labels", "if": "$.args.labels"},
                            "size": {"$1": "$.before.ticket[0].spec.size", "if": "$.args.size"},
                            "spec": {
                                "$1": "$.before.ticket[0].spec",
                                "only": "$.args.spec",
                                "else": None,
                            },
                            "version": {"$1": "$.before.ticket[0].version"},
                        },
                    },
                    {
                        "for_each": {"$": "$.before.ticket[0].tasks[?@.id == $.args.task]"},
                        "call": "set_task",
                        "args": {"task": {"$1": "$.item.id"}, "done": {"$1": "$.item.done"}},
                    },
                ],
            }
        ],
    },
    of="put",
)


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({}, set()),
        ({"labels": ["b"]}, {("labels",)}),
        ({"size": 2}, {("spec", "size")}),
        ({"spec": {"hue": 1, "new": 2}}, {("spec", "hue"), ("spec", "new")}),
        ({"task": "t2"}, {("tasks", "t2", "id"), ("tasks", "t2", "done")}),
    ],
)
def test_what_an_inverse_takes_from_before_is_known_leaf_by_leaf(args: Any, paths: Any) -> None:
    args = {"id": "T1", "spec": {}, **args}
    tasks = [{"id": "t1", "done": False}, {"id": "t2", "done": True}]
    answer = {"title": "x", "labels": ["a"], "spec": {"size": 1, "hue": 3}, "tasks": tasks}
    before = observed(TASKS, args, {**answer, "version": 4})
    decision = choose.decide(TASKS, "here", args, before, {})
    assert choose.taken(TASKS, decision, args, before, {}) == (
        {ResourceKey("here", "ticket", ("T1",)): paths} if paths else {}
    )
