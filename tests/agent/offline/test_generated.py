"""Sentences made from the offline stand-in's grammar do what they mean; others end too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from offline_turns import CHAIN, follow, links, properties

from turnback.agent import vocabulary
from turnback.agent.grammar import parse
from turnback.agent.offline import WHO
from turnback.agent.prompt import outline
from turnback.agent.vocabulary import NAMES
from turnback.core.operators import CATALOG
from turnback.core.workflow import Workflow

KEYWORDS = {
    word.lower()
    for table in (
        itertools.chain.from_iterable(NAMES.values()),
        NAMES,
        (phrase for phrase, _ in vocabulary.COMPARISONS),
        vocabulary.INTRODUCE,
        vocabulary.FUNCTIONS,
        vocabulary.ARTICLES,
        vocabulary.VERBS,
        vocabulary.PLAIN_VERBS,
        (" ".join(phrase) for phrase in (*vocabulary.BEFORE, *vocabulary.BEHIND)),
        "after behind following between and or then called named it that this last newest latest",
    )
    for phrase in ([table] if isinstance(table, str) else table)
    for word in phrase.split()
} | {
    "columns", "column", "rows", "row", "only", "csv", "file", "operator", "node", "one", "desc",
    "asc", "ascending", "descending", "per", "against", "grouped", "port", "me", "all", "as",
}  # fmt: skip


bare = st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True).filter(
    lambda word: word not in KEYWORDS and word + "s" not in KEYWORDS and word[:-1] not in KEYWORDS
)


quotable = st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="\"'`"),
    min_size=1,
    max_size=12,
)


@st.composite
def words(draw: st.DrawFn) -> tuple[str, str]:
    """A name as a sentence has it, and as it is meant."""
    if draw(st.booleans()):
        word = draw(bare)
        return word, word
    word = draw(quotable)
    return draw(st.sampled_from(['"{}"', "'{}'", "`{}`"])).format(word), word


@st.composite
def named(draw: st.DrawFn, *, most: int = 4) -> tuple[str, list[str]]:
    """Some names, as in `a, b and c`."""
    pairs = draw(st.lists(words(), min_size=1, max_size=most))
    *init, last = [said for said, _ in pairs]
    said = f"{', '.join(init)}{draw(st.sampled_from([' and ', ', and ', ', ']))}{last}"
    return (said if init else last), [meant for _, meant in pairs]


COMPARED = {"=": "=", "is": "=", ">": ">", "<": "<", ">=": ">=", "<=": "<=", "!=": "!=",
            "is not": "!=", "at least": ">=", "at most": "<=", "above": ">", "below": "<",
            "greater than": ">", "is less than": "<", "equals": "="}  # fmt: skip


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, list[dict[str, str]]]:
    said, meant = [], []
    for _ in range(draw(st.integers(1, 3))):
        attribute, real_attribute = draw(words())
        if draw(st.integers(0, 4)) == 0:
            sign = draw(st.sampled_from(["is null", "is not null"]))
            said.append(f"{attribute} {sign}")
            meant.append({"attribute": real_attribute, "condition": sign})
        else:
            sign = draw(st.sampled_from(sorted(COMPARED)))
            value, real_value = draw(words() | st.integers(-999, 999).map(lambda n: (str(n),) * 2))
            said.append(f"{attribute} {sign} {value}")
            meant.append(
                {
                    "attribute": real_attribute,
                    "condition": COMPARED[sign],
                    "value": real_value,
                }
            )
    return " or ".join(said), meant


@st.composite
def described(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    """A type, the words behind its name, and the properties that they mean."""
    kind = draw(st.sampled_from(sorted(NAMES)))
    one, other = draw(words()), draw(words())
    match kind:
        case "CSVFileScan":
            return kind, f"of {one[0]}", {"fileName": one[1]}
        case "TextInput":
            return kind, f"of {one[0]}", {"textInput": one[1]}
        case "Filter":
            said, meant = draw(conditions())
            return kind, f"{draw(st.sampled_from(['on', 'where']))} {said}", {"predicates": meant}
        case "Projection":
            said, columns = draw(named())
            return kind, f"on columns {said}", {"attributes": columns}
        case "Sort":
            order = draw(st.sampled_from(["", " ascending", " descending", " desc"]))
            direction = "DESC" if "desc" in order.split(" ")[-1][:4] else "ASC"
            key = {"attribute": one[1], "sortPreference": direction}
            return kind, f"by {one[0]}{order}", {"attributes": [key]}
        case "Limit":
            rows = draw(st.integers(0, 10**9))
            return kind, f"of {rows} rows", {"limit": rows}
        case "KeywordSearch":
            return kind, f"for {one[0]} in {other[0]}", {"attribute": other[1], "keyword": one[1]}
        case "TypeCasting":
            cast = draw(st.sampled_from(["integer", "double", "string", "timestamp"]))
            unit = {"attribute": one[1], "resultType": cast}
            return kind, f"of {one[0]} to {cast}", {"typeCastingUnits": [unit]}
        case "HashJoin":
            return (
                kind,
                f"on {one[0]} = {other[0]}",
                {"buildAttributeName": one[1], "probeAttributeName": other[1]},
            )
        case "Aggregate":
            function = draw(st.sampled_from(["sum", "count", "average", "min", "max"]))
            said, keys = draw(named(most=2))
            made = {
                "aggFunction": function,
                "attribute": one[1],
                "result attribute": f"{function}_{one[1]}",
            }
            return (
                kind,
                f"of {function} of {one[0]} by {said}",
                {"aggregations": [made], "groupByKeys": keys},
            )
        case "LineChart":
            return kind, f"of {one[0]} by {other[0]}", {"lines": [{"y": one[1], "x": other[1]}]}
        case "BarChart":
            return kind, f"of {one[0]} per {other[0]}", {"value": one[1], "fields": other[1]}
        case "PieChart":
            return kind, f"of {one[0]} by {other[0]}", {"value": one[1], "name": other[1]}
        case "Scatterplot":
            return kind, f"of {one[0]} against {other[0]}", {"yColumn": one[1], "xColumn": other[1]}
        case "Histogram":
            return kind, f"of {one[0]}", {"value": one[1]}
        case "WordCloud":
            return kind, f"of {one[0]}", {"textColumn": one[1]}
        case _:
            return kind, "", {}


@st.composite
def additions(draw: st.DrawFn, workflow: Workflow) -> tuple[str, str, dict[str, Any], list[str]]:
    """A sentence that adds an operator; what it adds, and after which others."""
    kind, details, meant = draw(described())
    verb = draw(st.sampled_from(["add", "Create", "insert", "please put", "now ADD"]))
    name = draw(st.sampled_from([*NAMES[kind], kind]))
    article = draw(st.sampled_from(["a", "an", "the", "another", ""]))
    after: list[str] = []
    behind = ""
    if CATALOG.types[kind].input_ports:
        after = [draw(st.sampled_from(sorted(workflow.operators)))]
        behind = f"after {after[0]}"
    tail = [part for part in (details, behind) if part]
    if draw(st.booleans()):
        tail.reverse()
    return " ".join(filter(None, [verb, article, name, *tail])), kind, meant, after


@settings(deadline=None)
@given(st.data())
def test_generated_additions_mean_what_they_say(data: st.DataObject) -> None:
    sentence, kind, meant, after = data.draw(additions(CHAIN))
    done = follow(sentence, CHAIN)
    assert done.outputs == [done.outputs[0]]
    assert not done.outputs[0].startswith("[ERROR]"), done.outputs
    assert list(done.workflow.operators) == [*CHAIN.operators, "op5"]
    assert done.workflow.operators["op5"]["operatorType"] == kind
    assert properties(done.workflow, "op5").items() >= meant.items()
    assert links(done.workflow) - links(CHAIN) == {(source, "op5", "0") for source in after}
    for name, operator in CHAIN.operators.items():
        assert done.workflow.operators[name] is operator


@settings(deadline=None)
@given(st.data())
def test_generated_changes_mean_what_they_say(data: st.DataObject) -> None:
    kind, details, meant = data.draw(described().filter(lambda one: one[1]))
    before = follow(f"add a {NAMES[kind][0]} called Mine").workflow
    name = data.draw(st.sampled_from(["op1", "it", f"the {NAMES[kind][0]}", "Mine", '"mine"']))
    assume(not (name == "Mine" and kind in ("HashJoin", "Union")))
    verb = data.draw(st.sampled_from(["change", "set", "modify"]))
    done = follow(f"{verb} {name} to {details.partition(' ')[2]}", before)
    assert properties(done.workflow, "op1") == {**properties(before, "op1"), **meant}
    assert done.workflow.operators["op1"]["customDisplayName"] == "Mine"


@settings(deadline=None)
@given(st.data())
def test_several_commands_do_what_each_does_one_turn_after_the_other(data: st.DataObject) -> None:
    sentences: list[str] = []
    one_by_one = CHAIN
    for _ in range(data.draw(st.integers(2, 4))):
        if len(one_by_one.operators) > 1 and data.draw(st.integers(0, 3)) == 0:
            gone = data.draw(st.sampled_from(sorted(one_by_one.operators)))
            sentences.append(f"{data.draw(st.sampled_from(['delete', 'remove']))} {gone}")
        else:
            sentences.append(data.draw(additions(one_by_one))[0])
        one_by_one = follow(sentences[-1], one_by_one).workflow
    said = sentences[0]
    for sentence in sentences[1:]:
        said += data.draw(st.sampled_from([" then ", ", and then ", "; ", ". Then ", ";\n"]))
        said += sentence
    done = follow(said, CHAIN)
    assert outline(done.workflow) == outline(one_by_one)
    assert len(done.moves) == len(sentences) + 1


@settings(deadline=None)
@given(st.lists(st.sampled_from(["op1", "op2", "op3", "op4"]), min_size=1, max_size=4, unique=True))
def test_generated_deletions_take_the_links_along_and_nothing_else(gone: Sequence[str]) -> None:
    done = follow(f"delete {', '.join(gone)}", CHAIN)
    assert list(done.workflow.operators) == [n for n in CHAIN.operators if n not in gone]
    assert links(done.workflow) == {
        link for link in links(CHAIN) if not {link[0], link[1]} & set(gone)
    }


VOCABULARY = [*sorted(KEYWORDS), "op1", "op2", "op9", "x", "5", ",", ".", ";", "=", ">", '"', "'s"]


@settings(deadline=None, max_examples=300)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join)
    | st.lists(st.sampled_from(VOCABULARY) | st.text(max_size=3), max_size=10).map("".join)
)
def test_whatever_is_said_it_answers_and_ends(sentence: str) -> None:
    done = follow(sentence, CHAIN)
    assert done.last
    if done.last.startswith(WHO):
        assert done.workflow is CHAIN
    else:
        assert parse(sentence)


def test_a_prompt_that_is_too_long_is_refused_without_being_parsed() -> None:
    done = follow("add a filter on x > 1; " * 8_000)
    assert done.last.startswith(WHO)
    assert len(done.last) < 3_000
