"""What sentences mean to the offline stand-in, by example, on real workflows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from offline_turns import CHAIN, follow, links, properties, standing

from turnback.agent.offline import Call
from turnback.core.operators import CATALOG


@pytest.mark.parametrize(
    ("sentence", "kind", "wanted"),
    [
        ("add a CSV scan of sales.csv", "CSVFileScan", {"fileName": "sales.csv"}),
        ('Load "my sales.csv".', "CSVFileScan", {"fileName": "my sales.csv"}),
        (
            "add a filter on amount > 100",
            "Filter",
            {"predicates": [{"attribute": "amount", "condition": ">", "value": "100"}]},
        ),
        (
            "Please create a filter where region = 'EU' or country is not US!",
            "Filter",
            {
                "predicates": [
                    {"attribute": "region", "condition": "=", "value": "EU"},
                    {"attribute": "country", "condition": "!=", "value": "US"},
                ]
            },
        ),
        (
            "filter the rows where amount is at least 5",
            "Filter",
            {"predicates": [{"attribute": "amount", "condition": ">=", "value": "5"}]},
        ),
        (
            "keep only the rows where name is not empty",
            "Filter",
            {"predicates": [{"attribute": "name", "condition": "is not null"}]},
        ),
        ("keep the first 10 rows", "Limit", {"limit": 10}),
        ("add a limit of 3", "Limit", {"limit": 3}),
        ("limit to 7 rows", "Limit", {"limit": 7}),
        ("keep only columns a, b and c", "Projection", {"attributes": ["a", "b", "c"]}),
        (
            "sort by amount descending, name",
            "Sort",
            {
                "attributes": [
                    {"attribute": "amount", "sortPreference": "DESC"},
                    {"attribute": "name", "sortPreference": "ASC"},
                ]
            },
        ),
        ('search for "late" in note', "KeywordSearch", {"attribute": "note", "keyword": "late"}),
        (
            "convert amount to number",
            "TypeCasting",
            {"typeCastingUnits": [{"attribute": "amount", "resultType": "double"}]},
        ),
        (
            "average amount by region, year",
            "Aggregate",
            {
                "aggregations": [
                    {
                        "aggFunction": "average",
                        "attribute": "amount",
                        "result attribute": "average_amount",
                    }
                ],
                "groupByKeys": ["region", "year"],
            },
        ),
        (
            "add a line chart of total by year",
            "LineChart",
            {"lines": [{"y": "total", "x": "year"}]},
        ),
        ("add a pie chart of total by name", "PieChart", {"value": "total", "name": "name"}),
        ("add a scatter plot of y against x", "Scatterplot", {"xColumn": "x", "yColumn": "y"}),
        ("add a histogram of age", "Histogram", {"value": "age"}),
        ("insert a word cloud of text", "WordCloud", {"textColumn": "text"}),
        ("remove duplicates", "Distinct", {}),
        ("add a Python function", "PythonUDFV2", {}),
        ("add a union", "Union", {}),
    ],
)
def test_a_sentence_adds_the_operator_it_names(
    sentence: str, kind: str, wanted: dict[str, Any]
) -> None:
    done = follow(sentence, CHAIN)
    assert done.workflow.operators["op5"]["operatorType"] == kind
    assert properties(done.workflow, "op5").items() >= wanted.items()
    # A chart is followed only when that is said; a source follows nothing.
    fed = {("op3", "op5", "0")} if CATALOG.types[kind].input_ports else set()
    assert links(done.workflow) - links(CHAIN) == fed
    assert done.last.startswith("Done: added a")


@pytest.mark.parametrize(
    ("sentence", "gone", "made"),
    [
        ("delete op3", {("op2", "op3", "0"), ("op3", "op4", "0")}, set()),
        ("remove the filter", {("op1", "op2", "0"), ("op2", "op3", "0")}, set()),
        ("delete op4 and the CSV scan", {("op1", "op2", "0"), ("op3", "op4", "0")}, set()),
        ("add a limit of 5 after op2", set(), {("op2", "op5", "0")}),
        ("add a limit of 5 after the filter", set(), {("op2", "op5", "0")}),
        (
            "insert a limit of 5 between op2 and op3",
            {("op2", "op3", "0")},
            {("op2", "op5", "0"), ("op5", "op3", "0")},
        ),
        (
            "insert a limit of 5 before the bar chart",
            {("op3", "op4", "0")},
            {("op3", "op5", "0"), ("op5", "op4", "0")},
        ),
        ("add a limit of 5 to op2", set(), {("op2", "op5", "0")}),
        ("add a filter to the filter: x ≥ 3", set(), {("op2", "op5", "0")}),
        (
            "delete everything",
            {("op1", "op2", "0"), ("op2", "op3", "0"), ("op3", "op4", "0")},
            set(),
        ),
        ("add a join of op1 and op2 on id", set(), {("op1", "op5", "0"), ("op2", "op5", "1")}),
        ("join op1 with op2 on id = cid", set(), {("op1", "op5", "0"), ("op2", "op5", "1")}),
        ("union op1 and op2", set(), {("op1", "op5", "0"), ("op2", "op5", "0")}),
        ("connect op1 to op3", set(), {("op1", "op3", "0")}),
        ("link the CSV scan -> op4", set(), {("op1", "op4", "0")}),
        ("disconnect op2 from op3", {("op2", "op3", "0")}, set()),
        (
            "disconnect op2 from op3 and then connect op1 to op3",
            {("op2", "op3", "0")},
            {("op1", "op3", "0")},
        ),
        (
            "keep amount > 1 and note is null",
            set(),
            {("op3", "op5", "0"), ("op5", "op6", "0")},
        ),
        (
            "add a filter, then sort it by x; keep the first 3 rows",
            set(),
            {("op3", "op5", "0"), ("op5", "op6", "0"), ("op6", "op7", "0")},
        ),
    ],
)
def test_a_sentence_changes_the_links_it_means_and_no_others(
    sentence: str, gone: set[Any], made: set[Any]
) -> None:
    done = follow(sentence, CHAIN)
    assert done.last.startswith("Done: ")
    assert links(done.workflow) == (links(CHAIN) - gone) | made


@pytest.mark.parametrize(
    ("sentence", "operator_id", "wanted"),
    [
        (
            "change op2 to amount > 200",
            "op2",
            {"predicates": [{"attribute": "amount", "condition": ">", "value": "200"}]},
        ),
        (
            "set the condition of the filter to x <= 1",
            "op2",
            {"predicates": [{"attribute": "x", "condition": "<=", "value": "1"}]},
        ),
        ('set fileName of op1 to "other.csv"', "op1", {"fileName": "other.csv"}),
        ("change op1's file to other.csv", "op1", {"fileName": "other.csv"}),
        ("set hasHeader of op1 to no", "op1", {"hasHeader": False}),
        ("set the LIMIT of op1 to 20", "op1", {"limit": 20}),
        ("set op1 fileEncoding to utf_16", "op1", {"fileEncoding": "UTF_16"}),
        ("change the bar chart to x by y", "op4", {"value": "x", "fields": "y"}),
    ],
)
def test_a_change_sets_what_it_says_and_keeps_the_rest(
    sentence: str, operator_id: str, wanted: dict[str, Any]
) -> None:
    done = follow(sentence, CHAIN)
    assert properties(done.workflow, operator_id) == {**properties(CHAIN, operator_id), **wanted}
    assert links(done.workflow) == links(CHAIN)


def test_a_change_renews_a_name_that_only_said_what_it_does() -> None:
    assert CHAIN.operators["op2"]["customDisplayName"] == "Keep amount > 0"
    done = follow("change op2 to amount > 200", CHAIN)
    assert done.workflow.operators["op2"]["customDisplayName"] == "Keep amount > 200"
    named = standing("add a filter on x > 1 called Mine", "change it to x > 2")
    assert named.operators["op1"]["customDisplayName"] == "Mine"


def test_a_name_in_quotes_is_kept_as_it_is() -> None:
    done = follow('rename op2 to "Big orders, EU"', CHAIN)
    assert done.workflow.operators["op2"]["customDisplayName"] == "Big orders, EU"
    assert links(follow('add a sort by x after "Big orders, EU"', done.workflow).workflow) >= {
        ("op2", "op5", "0")
    }


@pytest.mark.parametrize(
    ("recipe", "kinds", "wanted"),
    [
        (
            "sales report",
            ["CSVFileScan", "Filter", "Aggregate", "BarChart"],
            {("op1", "op2", "0"), ("op2", "op3", "0"), ("op3", "op4", "0")},
        ),
        (
            "order report",
            ["CSVFileScan", "CSVFileScan", "HashJoin", "PieChart"],
            {("op1", "op3", "0"), ("op2", "op3", "1"), ("op3", "op4", "0")},
        ),
        (
            "top list",
            ["CSVFileScan", "Sort", "Limit"],
            {("op1", "op2", "0"), ("op2", "op3", "0")},
        ),
    ],
)
def test_a_recipe_is_built_in_steps_of_one_call_and_a_sentence(
    recipe: str, kinds: list[str], wanted: set[Any]
) -> None:
    done = follow(f"Please build me a {recipe}.")
    assert [op["operatorType"] for op in done.workflow.operators.values()] == kinds
    assert links(done.workflow) == wanted
    assert [len(move.calls) for move in done.moves] == [1] * len(kinds) + [0]
    assert all(re.fullmatch(r"[A-Z][^.]+(\.csv`)?[^.]*\.", move.text) for move in done.moves[:-1])
    for operator in done.workflow.operators.values():
        schema = CATALOG.types[operator["operatorType"]].properties
        assert set(schema.get("required", ())) <= operator["operatorProperties"].keys()


def test_a_recipe_can_follow_another_command() -> None:
    done = follow("add a CSV scan of a.csv, then build an order report", CHAIN)
    assert links(done.workflow) - links(CHAIN) == {
        ("op6", "op8", "0"),
        ("op7", "op8", "1"),
        ("op8", "op9", "0"),
    }


def test_showing_looks_at_the_canvas_and_describes_it() -> None:
    done = follow("what is on the canvas?", CHAIN)
    assert done.moves[0].calls == (Call("getWorkflow", {}),)
    assert "`op2`: a filter, fed by `op1` (Keep amount > 0)" in done.last
    assert follow("show the workflow").last == "The canvas is empty."
    assert '"fileName":"sales.csv"' in follow("describe the CSV scan", CHAIN).last
    assert done.workflow == CHAIN
