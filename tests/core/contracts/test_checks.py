"""What a contract may not say: each rule, a contract that breaks it, and the reason given."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import FILE

from turnback.core.contracts.checks import (
    check,
    contradictions,
)
from turnback.core.contracts.model import READ_ONLY, Contract, parse
from turnback.core.contracts.together import server_contradictions
from turnback.core.errors import ContractRefused
from turnback.tools import overlays

GOOD: dict[str, Any] = {
    "resources": {
        "note": {
            "key": ["id"],
            "read": {"call": "get_note", "args": {"id": {"$1": "$.key.id"}}},
            "state": {"text": {"$1": "$.now.text"}},
            "keep": {"etag": {"$1": "$.now.etag"}},
        },
        "folder": {"key": ["path", "drive"]},
    },
    "touches": [{"note": {"id": {"$1": "$.args.id"}}}],
    "cases": [
        {
            "class": "reversible",
            "inverse": [
                {
                    "call": "set_note",
                    "args": {
                        "id": {"$1": "$.args.id"},
                        "text": {"$1": "$.before.note[0].text"},
                    },
                }
            ],
        }
    ],
}

COMPENSABLE = {"class": "compensable", "residue": "seen"}
GONE = {"class": "irreversible", "inverse": [], "residue": "gone"}


def changed(**parts: Any) -> dict[str, Any]:
    """The good contract with parts of it replaced; a name with `__` goes into its parts."""
    made = deepcopy(GOOD)
    for name, value in parts.items():
        place: Any = made
        *above, last = name.split("__")
        for step in above:
            place = place[int(step) if step.isdecimal() else step]
        place[int(last) if last.isdecimal() else last] = value
    return made


def case(**parts: Any) -> dict[str, Any]:
    """The good contract with its case changed."""
    return changed(cases=[{**GOOD["cases"][0], **parts}])


def inverse(**args: Any) -> dict[str, Any]:
    """The good contract with other arguments of its inverse."""
    return case(inverse=[{"call": "set_note", "args": args}])


ID = {"$1": "$.args.id"}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    # what a class promises
    ("notifies", changed(notifies=["the team"]), "`reversible` and notifies people"),
    ("its case notifies", case(notifies=[{"$": "$.args.to"}]), "`reversible` and notifies people"),
    ("no inverse", case(inverse=[]), "`reversible` and has no `inverse`"),
    ("touches nothing", changed(touches=[]), "neither `touches` nor `makes`"),
    ("cannot be read", changed(resources__note={"key": ["id"]}), "has no `read` by which"),
    (
        "covers what cannot be read",
        case(covers=[{"folder": {"path": ID, "drive": "c"}}]),
        "a `folder` has no `read`",
    ),
    ("verify", case(verify={"exists": {"$": "$.now.a"}}), "`verify` cannot be declared"),
    ("a residue", case(residue="left"), "`reversible` and has a residue"),
    ("settles", case(settles={"at": 5}), "`settles` says when a residue"),
    ("no residue", case(**{"class": "compensable"}), "`compensable` and has no `residue`"),
    ("no way back", case(**COMPENSABLE, inverse=[]), "`compensable` and has no `inverse`"),
    (
        "irreversible with one",
        case(**{**GONE, "inverse": GOOD["cases"][0]["inverse"]}),
        "has an inverse",
    ),
    ("a read that inverts", case(**{"class": "read"}), "`read` and has `inverse`"),
    ("a read that touches", changed(cases=[{"class": "read"}]), "`read`, and it has `touches`"),
    (
        "a read that tells",
        changed(touches=[], cases=[{"class": "read", "notifies": ["a"]}]),
        "`read` and has `notifies`",
    ),
    (
        "an agent for a clean one",
        case(agentic={"tools": ["t"], "prompt": "p", "calls": 1, "tokens": 1, "seconds": 1}),
        "`agentic` is for a `compensable` case",
    ),
    ("narrow, without one", case(**GONE, narrow=True), "`narrow` is about an inverse"),
    ("not kept, without one", case(**GONE, not_kept=["x"]), "`not_kept` is about an inverse"),
    # inverses
    ("a value of the arguments", inverse(id=ID, text={"$1": "$.args.old"}), "may only name"),
    (
        "of each argument",
        case(
            inverse=[
                {
                    "for_each": {"$": "$.args.rows[*]"},
                    "call": "set_note",
                    "args": {"id": ID, "text": {"$1": "$.item.text"}},
                }
            ]
        ),
        "may only name",
    ),
    ("all arguments", case(inverse=[{"call": "set_note", "args": {"$1": "$.args"}}]), "may only"),
    ("names nothing", inverse(text="old"), "names nothing"),
    ("delete the latest", case(inverse=[{"call": "undo_last"}]), "names nothing"),
    ("the last of a list", inverse(id={"$1": "$.result.notes[-1].id"}), "takes the last"),
    ("a toggle", case(inverse=[{"call": "tool", "args": {"id": ID}}]), "a toggle"),
    ("all of the call again", case(inverse=[{"call": "tool", "args": {"$1": "$.args"}}]), "toggle"),
    ("what is now", inverse(id=ID, text={"$1": "$.now.text"}), "points to `now`"),
    ("its key", inverse(id={"$1": "$.key.id"}), "points to `key`"),
    ("an item of nothing", inverse(id={"$1": "$.item.id"}), "points to `item`"),
    ("a part that is none", inverse(id=ID, text={"$1": "$.before.note[0].txt"}), "has no `txt`"),
    ("a kind not touched", inverse(id=ID, text={"$1": "$.before.folder[0].x"}), "not among what"),
    (
        "a guard of before",
        case(inverse=[{**GOOD["cases"][0]["inverse"][0], "if_match": {"e": {"$1": "$.before.x"}}}]),
        "points to `before`",
    ),
    # resources
    ("undeclared", changed(touches=[{"mail": {"id": ID}}]), "not among `resources`"),
    ("half a key", changed(touches=[{"folder": {"path": ID}}]), "not by its key's members"),
    (
        "two lists",
        changed(touches=[{"folder": {"path": {"$": "$.args.a"}, "drive": {"$": "$.args.b"}}}]),
        "by two lists",
    ),
    ("the result", changed(touches=[{"note": {"id": {"$1": "$.result.id"}}}]), "`makes`"),
    ("before", changed(touches=[{"note": {"id": {"$1": "$.before.id"}}}]), "points to `before`"),
    (
        "reads by before",
        changed(resources__note__read__args={"a": {"$1": "$.args.a"}}),
        "`read` points",
    ),
    (
        "a state of args",
        changed(resources__note__state={"a": {"$1": "$.args.a"}}),
        "`state` points",
    ),
    ("no state", changed(resources__note__state={}), "no `state` that is compared"),
    ("our name", changed(resources__note__keep={"key": {"$1": "$.now.k"}}), "which is ours"),
    ("kept twice", changed(resources__note__keep={"text": {"$1": "$.now.k"}}), "both in"),
    ("compares none", changed(resources__note__compare={"tag": "set"}), "no part of its `state`"),
    ("known by none", changed(resources__note__identity=["tag"]), "no part of its `state`"),
    ("hides none", changed(resources__note__secret=["tag"]), "which is no part of it"),
    ("a key twice", changed(resources__note__key=["id", "id"]), "member of its key twice"),
    ("state unread", changed(resources__folder__state={"a": 1}), "no `read` that it comes from"),
    (
        "another canonical",
        changed(resources__note__canonical={"name": {"$1": "$.now.n"}}),
        "no member of its key",
    ),
    ("lies in none", changed(resources__note__inside=[{"box": {"id": 1}}]), "`box`, which is not"),
    (
        "the same whatever its key",
        changed(resources__note__read__args={}),
        "read the same whatever its key is",
    ),
    (
        "each of nothing",
        changed(touches=[{"note": {"id": ID}, "for_each": {"$": "$.args.rows[*]"}}]),
        "`touches` has `for_each`, and nothing of it points to `item`",
    ),
    # the rest
    ("when nothing", case(when={"equal": [1, 1]}), "`when` asks nothing"),
    ("unchanged always", changed(unchanged={"differ": ["a", "b"]}), "`unchanged` asks nothing"),
    (
        "verified by nothing",
        case(**COMPENSABLE, verify={"equal": [1, 1]}),
        "`verify` asks nothing",
    ),
    (
        "the same when",
        changed(
            cases=[
                {**GOOD["cases"][0], "when": {"exists": {"$": "$.args.a"}}},
                {"class": "irreversible", "when": {"exists": {"$": "$.args.a"}}},
            ]
        ),
        "case 1 has the same `when` as case 0",
    ),
    (
        "finds everything",
        changed(find={"call": "list", "found": {"$": "$.now.notes[*]"}}),
        "another's work too",
    ),
    (
        "each call the same",
        case(inverse=[{**GOOD["cases"][0]["inverse"][0], "for_each": {"$": "$.args.rows[*]"}}]),
        "its inverse `set_note` has `for_each`",
    ),
    (
        "no one of the list",
        inverse(id=ID, text={"$1": "$.before.note.text"}),
        "is a list: say which, `$.before.note[0].text`",
    ),
    ("no more cases", changed(cases=[GOOD["cases"][0], GONE]), "never count"),
    ("when of now", case(when={"exists": {"$": "$.now.a"}}), "`when` points to `now`"),
    ("unchanged of now", changed(unchanged={"exists": {"$": "$.now.a"}}), "`unchanged` points"),
    ("an error of before", changed(error_if={"exists": {"$": "$.before.a"}}), "`error_if` points"),
    ("a scope of results", changed(one_at_a_time=[{"$1": "$.result.a"}]), "`one_at_a_time` points"),
    ("finds one", changed(find={"call": "get", "found": {"$1": "$.now.a"}}), "takes a list"),
    (
        "cancels anything",
        case(
            **GONE,
            cancel={"call": "c", "until": 5, "confirmed": {"exists": {"$": "$.result.a"}}},
        ),
        "`cancel` names nothing",
    ),
    (
        "confirms itself",
        case(
            **GONE,
            cancel={"call": "c", "args": {"a": ID}, "until": 5, "confirmed": {"equal": [1, 1]}},
        ),
        "asks nothing",
    ),
    ("a secret that is none", changed(secret=["password"]), "`secret` takes pointers"),
    (
        "shows a secret",
        changed(secret=[{"$1": "$.args.login"}], names={"who": {"$1": "$.args.login.name"}}),
        "`names` shows a secret",
    ),
    ("a secret key", changed(secret=[ID]), "`touches` shows a secret"),
    (
        "shows a secret part",
        changed(resources__note__secret=["text"], names={"was": {"$1": "$.before.note[0].text"}}),
        "`names` shows a secret",
    ),
]


def test_the_contract_that_they_are_made_of_is_good() -> None:
    check(parse(GOOD, of="tool"), tool="tool")


@pytest.mark.undo(31)
@pytest.mark.parametrize(
    ("given", "reason"), [pytest.param(g, r, id=name) for name, g, r in REFUSED]
)
def test_a_contradiction_is_refused_with_the_reason(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ContractRefused) as refused:
        check(parse(given, of="tool"), tool="tool")
    assert any(reason in one for one in refused.value.data["reasons"])
    assert refused.value.message.startswith("The contract of `tool`: ")


NOT_OF_THE_MODEL: list[tuple[str, dict[str, Any], str]] = [
    ("an unknown part", changed(whatever=1), "there is no part `whatever`"),
    ("a slip of the pen", changed(notify=["x"]), "`notify`: perhaps `notifies`"),
    ("a part left out", changed(cases=[{}]), "at `cases.0.class`, `class` is missing"),
    (
        "a cancel without its proof",
        case(**GONE, cancel={"call": "c", "args": {"a": ID}, "until": 5}),
        "at `cases.0.cancel.confirmed`, `confirmed` is missing",
    ),
    ("one for a list", changed(touches={"note": {"id": ID}}), "should be a list"),
    ("a text for an object", changed(touches=["note"]), "should be an object"),
    ("a pointer as a text", inverse(id="$.args.id"), '`{$1: "$.args.id"}`'),
    (
        "a state as a text",
        changed(resources__note__state={"text": "$.now.text"}),
        "at `resources.note.state.text`, `$.now.text` is a text here",
    ),
    ("a root that is none", inverse(id={"$1": "$.arg.id"}), "begins at none of"),
    ("an unknown class", case(**{"class": "undoable"}), "Input should be 'read', 'reversible'"),
    ("code", case(when="args.x > 3"), "at `cases.0.when`"),
    ("an empty condition", case(when={}), "a condition needs"),
    ("a condition of a value", case(when={"exists": 3}), "`exists` takes a pointer"),
    ("no pointer", inverse(id={"$1": "args.id"}), "is no JSONPath"),
    ("no pattern", changed(resources__note__read__error_is={"absent": "("}), "no regular"),
    ("a key nowhere", changed(key={"honoured": 5}), "a key goes to one place"),
    ("a key twice", changed(key={"arg": "a", "meta": "b", "honoured": 5}), "goes to one place"),
    ("two kinds", changed(touches=[{"note": {"id": 1}, "folder": {}}]), "one kind each"),
    ("held for ever", changed(hold=10**6), "less than or equal to"),
    ("a set of more", changed(resources__note__compare={"text": "bag"}), "compare"),
]


@pytest.mark.parametrize(
    ("given", "reason"), [pytest.param(g, r, id=name) for name, g, r in NOT_OF_THE_MODEL]
)
def test_what_is_not_of_the_model_is_refused_with_its_place(
    given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ContractRefused) as refused:
        parse(given, of="tool")
    assert reason in refused.value.message


def test_a_text_that_looks_like_a_pointer_can_be_meant() -> None:
    given = inverse(id=ID, text={"$1": "$.before.note[0].text"}, shown={"$literal": "$.args.id"})
    assert list(contradictions(parse(given, of="tool"), tool="tool")) == []


def test_every_reason_is_told_at_once() -> None:
    given = changed(notifies=["x"], touches=[], unchanged={"exists": {"$": "$.key.a"}})
    assert len(list(contradictions(parse(given, of="tool"), tool="tool"))) >= 3


ALLOWED = {
    "nothing is set where nothing was": case(
        inverse=[{"call": "tool", "args": {"id": ID, "text": ""}}]
    ),
    "a swap by the same call": {
        **changed(
            touches=[{"note": {"id": {"$1": "$.args.a"}}}, {"note": {"id": {"$1": "$.args.b"}}}]
        ),
        "cases": [
            {
                "class": "reversible",
                "inverse": [
                    {"call": "tool", "args": {"a": {"$1": "$.args.b"}, "b": {"$1": "$.args.a"}}}
                ],
            }
        ],
    },
    "keys of each": changed(
        touches=[{"note": {"id": {"$1": "$.item.id"}}, "for_each": {"$": "$.args.rows[*]"}}],
        cases=[
            {
                "class": "reversible",
                "inverse": [
                    {
                        "for_each": {"$": "$.args.rows[*]"},
                        "call": "trash",
                        "args": {"id": {"$1": "$.item.id"}},
                    }
                ],
            }
        ],
    ),
    "a thing that is only one": changed(
        resources={
            "volume": {"key": [], "read": {"call": "get"}, "state": {"v": {"$1": "$.now.v"}}}
        },
        touches=[{"volume": {}}],
        cases=[{"class": "reversible", "inverse": [{"call": "unmute"}]}],
    ),
    "a step on the way, and then the value": case(
        inverse=[
            {"call": "tool", "args": {"id": ID, "text": "open"}},
            {"call": "tool", "args": {"id": ID, "text": {"$1": "$.before.note[0].text"}}},
        ]
    ),
    "a thing that has a name all the same": changed(
        resources={
            "volume": {"key": ["of"], "read": {"call": "get"}, "state": {"v": {"$1": "$.now.v"}}}
        },
        touches=[{"volume": {"of": "the room"}}],
        cases=[
            {
                "class": "reversible",
                "inverse": [{"call": "set", "args": {"v": {"$1": "$.before.volume[0].v"}}}],
            }
        ],
    ),
    "all that was given, as it was before": changed(
        resources={
            "note": {
                **GOOD["resources"]["note"],
                "state": {"all": {"$1": "$.now"}},
                "keep": {},
            }
        },
        cases=[
            {
                "class": "reversible",
                "inverse": [
                    {"call": "tool", "args": {"$1": "$.before.note[0].all", "only": "$.args"}}
                ],
            }
        ],
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_only_looks_like_a_contradiction_is_allowed(name: str) -> None:
    assert list(contradictions(parse(ALLOWED[name], of="tool"), tool="tool")) == []


def together(**contracts: Contract) -> list[tuple[str, str]]:
    return list(server_contradictions(contracts, tools=[*contracts, "get_note"]))


def test_the_contracts_of_a_server_have_to_go_together() -> None:
    tool = parse(GOOD, of="tool")
    tells = parse(changed(notifies=["x"], cases=[GONE]), of="set_note")
    silent = parse(changed(cases=[GONE]), of="set_note")
    assert together(tool=tool, set_note=silent) == []
    assert "notifies people" in together(tool=tool, set_note=tells)[0][1]
    assert "declared to change nothing" in together(tool=tool, set_note=READ_ONLY)[0][1]
    [(named, reason)] = together(tool=tool)
    assert (named, "`set_note`, which its server does not have" in reason) == ("tool", True)
    reading = list(server_contradictions({"tool": tool, "get_note": silent}))
    assert "which changes something" in reading[0][1]


def test_the_tests_overlay_is_good() -> None:
    assert set(overlays.read(FILE)) == {"graph", "files"}


@settings(deadline=None)
@given(
    given=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=6)
        | st.just({"$1": "$.args.id"}),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*Contract.model_fields, "class", "inverse", "note", "id", "$"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_is_no_contract_is_refused_and_nothing_else(given: Any) -> None:
    try:
        check(parse(given, of="tool"), tool="tool")
    except ContractRefused:
        return
    assert isinstance(given, dict)
