"""Models that answer by actions: what they may say, what they are told, what becomes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from loop_runs import Run, limits
from pydantic_core import from_json
from scripted_provider import CUT, Answer, ScriptedProvider, finish, text
from workflows import FILES

from turnback.agent import structured
from turnback.agent.canvas import CANVAS_TOOLS
from turnback.agent.models import ChatModel, resolve
from turnback.agent.steps import PastStep, ToolCall, ToolResult
from turnback.core.errors import ModelNotConfigured
from turnback.core.operators import CATALOG
from turnback.core.tree import EndReason, Role
from turnback.core.workflow import EMPTY, Workflow, load, load_json
from turnback.settings import Settings

ONE = load(
    {"operators": [{"operatorID": "op7", "operatorType": "CSVFileScan"}], "links": []},
    max_bytes=10_000,
    max_depth=20,
)
ADD = {"action": "addOperator", "operatorType": "Filter", "operatorId": "op1", "summary": "Keep"}


@pytest.fixture
async def model(provider: ScriptedProvider) -> AsyncIterator[ChatModel]:
    settings = Settings(model="structured:openai:scripted", model_base_url=provider.url)
    async with resolve(settings) as resolved:
        yield resolved


def pieces(said: Any, size: int = 7) -> list[Any]:
    whole = said if isinstance(said, str) else orjson.dumps(said).decode()
    return [text(whole[at : at + size]) for at in range(0, len(whole), size)]


def answer(said: str) -> list[Any]:
    return pieces({"action": "answer", "text": said})


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema within a schema."""
    if isinstance(schema, dict):
        yield schema
        for name, value in schema.items():
            if name in ("properties", "items", "anyOf"):
                values = value.values() if name == "properties" else value
                for inner in values if name != "items" else [value]:
                    yield from schemas(inner)


def allows(workflow: Workflow, action: Any, tools: Any = CANVAS_TOOLS) -> bool:
    return Draft202012Validator(structured.action_schema(workflow, tools)).is_valid(action)


# -- what it may say


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_whatever_it_says_has_an_end(path: Any) -> None:
    workflow = load_json(path.read_bytes(), max_bytes=1_000_000, max_depth=50)
    schema = structured.action_schema(workflow, CANVAS_TOOLS)
    Draft202012Validator.check_schema(schema)
    for inner in schemas(schema):
        if "enum" in inner or "const" in inner or "anyOf" in inner:
            continue
        match inner["type"]:
            case "string":
                assert inner["maxLength"] <= structured.LONGEST_CODE
            case "array":
                assert inner["maxItems"] <= structured.MOST_ITEMS
            case "object":
                assert inner["additionalProperties"] is False
            case kind:
                assert kind in ("integer", "number", "boolean")


def test_it_can_add_every_type_and_the_examples_are_actions() -> None:
    for name in CATALOG.types:
        assert allows(EMPTY, {**ADD, "operatorType": name})
    for said, action in structured.EXAMPLES:
        _, _, now = said.partition("The workflow now: ")
        shown = orjson.loads(now.partition("]\n")[0].removesuffix("]"))["operators"]
        operators = [
            {"operatorID": o["operatorId"], "operatorType": o["operatorType"]} for o in shown
        ]
        workflow = load({"operators": operators, "links": []}, max_bytes=10_000, max_depth=20)
        assert allows(workflow, action), action


def test_it_can_name_only_what_is_there() -> None:
    assert allows(ONE, {"action": "deleteOperator", "operatorId": "op7"})
    assert not allows(ONE, {"action": "deleteOperator", "operatorId": "op1"})
    assert not allows(EMPTY, {"action": "deleteOperator", "operatorId": "op7"})
    change = {"action": "modifyOperator", "operatorId": "op7", "properties": {"fileName": "a.csv"}}
    assert allows(ONE, change)
    assert not allows(ONE, {**change, "properties": {"predicates": []}})
    fed = {**ADD, "operatorId": "op8", "inputOperatorIds": {"0": ["op7"]}}
    assert allows(ONE, fed)
    assert not allows(ONE, {**fed, "inputOperatorIds": {"0": ["op9"]}})
    assert not allows(ONE, {**fed, "operatorId": "op7"})


def test_a_tool_that_is_not_offered_cannot_be_said() -> None:
    assert not allows(ONE, {"action": "deleteOperator", "operatorId": "op7"}, ["addOperator"])
    assert allows(EMPTY, {"action": "answer", "text": "No."}, [])
    assert not allows(EMPTY, {"action": "answer", "text": ""}, [])


# -- what becomes of it


async def test_an_action_becomes_a_tool_call_and_an_answer_the_text_that_streams(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(pieces(ADD), answer('Added a "Filter".\nAnything \u00e9lse?'))
    run = await Run(model, content="add a filter").collect()
    assert [list(draft.after.operators) for draft in run.drafts] == [["op1"], ["op1"]]
    assert run.drafts[0].content == ""
    assert run.end.content == 'Added a "Filter".\nAnything \u00e9lse?'
    assert run.end.end_reason is EndReason.COMPLETE
    assert len([delta for delta in run.deltas if delta.text is not None]) > 3


async def test_it_is_held_to_the_schema_of_the_workflow_as_it_is_at_each_call(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(pieces(ADD), answer("Done."))
    await Run(model).collect()
    sent = [request["response_format"]["json_schema"]["schema"] for request in provider.requests]
    assert not Draft202012Validator(sent[0]).is_valid(
        {"action": "deleteOperator", "operatorId": "op1"}
    )
    assert Draft202012Validator(sent[1]).is_valid({"action": "deleteOperator", "operatorId": "op1"})
    for request in provider.requests:
        assert "tools" not in request
        assert request["temperature"] == 0


async def test_it_is_told_in_the_form_of_the_examples_with_a_beginning_that_stays(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    history = (
        PastStep(role=Role.USER, content="one"),
        PastStep(
            role=Role.AGENT,
            content="",
            tool_calls=(ToolCall("deleteOperator", "a", {"operatorId": "op1"}),),
            tool_results=(ToolResult("a", "Deleted operator: op1"),),
        ),
        PastStep(role=Role.AGENT, content="Gone.", end_reason=EndReason.COMPLETE),
    )
    provider.will(pieces(ADD), answer("Done."))
    await Run(model, history=history, content="two").collect()
    first, second = (request["messages"] for request in provider.requests)
    beginning = 1 + 2 * len(structured.EXAMPLES)
    assert first[:beginning] == second[:beginning]
    assert [(m["role"], m["content"]) for m in first[beginning:]] == [
        ("user", "one"),
        ("assistant", '{"action":"deleteOperator","operatorId":"op1"}'),
        ("user", "[Deleted operator: op1]"),
        ("assistant", '{"action":"answer","text":"Gone."}'),
        ("user", '[The workflow now: {"operators":[]}]\ntwo'),
    ]
    assert second[-2]["content"] == orjson.dumps(ADD).decode()
    assert second[-1]["content"].startswith('[The workflow now: {"operators":[{"operatorId":"op1"')
    assert "[Added operator op1," in second[-1]["content"]


async def test_a_server_that_ignores_the_schema_and_writes_prose_is_let_speak(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(pieces("I would rather talk."))
    run = await Run(model).collect()
    assert (run.end.content, run.end.end_reason) == ("I would rather talk.", EndReason.COMPLETE)


@pytest.mark.parametrize(
    "said",
    ['{"action": "answer"}', '{"no": "action"}', "{} {}", '{"action": 7, "text": "x"}', '{"acti'],
)
async def test_json_that_is_no_action_ends_in_an_error_step(
    provider: ScriptedProvider, model: ChatModel, said: str
) -> None:
    provider.will(pieces(said))
    run = await Run(model).collect()
    assert run.end.end_reason is EndReason.FAILED
    assert run.end.content.startswith("Error: the model's answer was cut short")


async def test_an_action_that_is_no_tool_or_does_not_fit_is_the_models_to_read(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        pieces({"action": "explode"}),
        pieces({**ADD, "operatorType": "Nonsense"}),
        answer("I cannot."),
    )
    run = await Run(model).collect()
    assert [result.is_error for result in run.results] == [True, True]
    assert run.end.content == "I cannot."


@pytest.mark.parametrize(
    ("ending", "end"),
    [
        pytest.param([finish("length")], EndReason.LIMIT, id="length"),
        pytest.param([CUT], EndReason.FAILED, id="cut"),
    ],
)
async def test_what_had_streamed_of_an_answer_that_breaks_off_is_kept(
    provider: ScriptedProvider, model: ChatModel, ending: list[Any], end: EndReason
) -> None:
    provider.will(Answer([text('{"action": "answer", "text": "Half an ans'), *ending]))
    run = await Run(model).collect()
    assert [draft.content for draft in run.drafts[:-1]] == ["Half an ans"]
    assert run.end.end_reason is end


async def test_a_reply_without_an_end_is_cut_at_the_limit_whatever_it_says(
    provider: ScriptedProvider,
) -> None:
    """Small models that are held to a schema like to go on with blanks."""
    settings = Settings(
        model="structured:openai:scripted", model_base_url=provider.url, max_reply_bytes=20_000
    )
    async with resolve(settings) as model:
        for piece in (" " * 100, '"a", ' * 20):
            endless = [text(piece)] * 300
            provider.will(Answer([text('{"action": "getWorkflow", "ids": ['), *endless]))
            run = await Run(model).collect()
            assert run.end.end_reason is EndReason.LIMIT
            assert "20000 bytes (`max_reply_bytes`)" in run.end.content


async def test_a_long_reply_is_not_read_anew_for_each_piece_of_it(
    provider: ScriptedProvider, model: ChatModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def reading(said: str, **options: Any) -> Any:
        nonlocal read
        read += len(said)
        return from_json(said, **options)

    monkeypatch.setattr(structured, "from_json", reading)
    long = "word " * 20_000
    provider.will([text('{"action": "answer", "text": "'), *pieces(long, 50), text('"}')])
    run = await Run(model).collect()
    assert run.end.content == long
    assert len([delta for delta in run.deltas if delta.text is not None]) > 50
    assert read < 50 * len(long)


async def test_it_works_within_a_context_of_a_few_thousand_tokens(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(answer("Hi."))
    run = await Run(model, limits=limits(max_context_tokens=2_000)).collect()
    assert run.end.content == "Hi."


@pytest.mark.parametrize(
    ("name", "base_url"),
    [
        ("structured:openai:x", None),
        ("structured:anthropic:x", "http://127.0.0.1:1/v1"),
        ("structured:offline", "http://127.0.0.1:1/v1"),
    ],
)
def test_it_needs_a_server_that_keeps_to_a_schema(name: str, base_url: str | None) -> None:
    with pytest.raises(ModelNotConfigured) as raised:
        resolve(Settings(model=name, model_base_url=base_url))
    assert "TURNBACK_MODEL_BASE_URL" in raised.value.message
