"""The ReAct loop against a real HTTP provider that is scripted, and against models that misbehave.

Every run goes through `collect`, which checks what holds for all of them: one ending, deltas that
add up to the steps, a result for every call, workflows that follow one another.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from email.utils import formatdate
from typing import Any

import orjson
import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from scripted_provider import (
    CUT,
    HANG,
    Answer,
    Pause,
    Refusal,
    ScriptedProvider,
    call,
    call_piece,
    finish,
    text,
    usage,
)

from turnback.agent.loop import (
    Delta,
    PastStep,
    RunLimits,
    StepDraft,
    Toolbox,
    ToolCall,
    ToolResult,
    canvas_toolbox,
    run_turn,
)
from turnback.agent.models import ChatModel, resolve
from turnback.core.errors import ToolFailed
from turnback.core.tree import EndReason, Role, TurnKind
from turnback.core.workflow import EMPTY, Workflow
from turnback.settings import Settings

LIMITS = RunLimits.of(Settings())
ADD = {"operatorId": "op1", "operatorType": "Filter", "properties": {}, "summary": "Keep"}
ADD_2 = {**ADD, "operatorId": "op2", "inputOperatorIds": {"0": ["op1"]}}
GET: dict[str, Any] = {}


def limits(**changed: Any) -> RunLimits:
    fields = {name: getattr(LIMITS, name) for name in RunLimits.__dataclass_fields__}
    return RunLimits(**{**fields, **changed})


def prompt(content: str) -> PastStep:
    return PastStep(role=Role.USER, content=content)


class Run:
    """One turn and what came of it. `on_item` sees every item as it comes, before the next."""

    def __init__(
        self,
        model: ChatModel,
        *,
        history: tuple[PastStep, ...] = (),
        content: str = "hello",
        workflow: Workflow = EMPTY,
        limits: RunLimits = LIMITS,
        tools: Toolbox | None = None,
    ) -> None:
        self.stop = asyncio.Event()
        self.items: list[Delta | StepDraft] = []
        self.ids = (f"id-{n}" for n in itertools.count())
        links = itertools.count()
        self.generator = run_turn(
            model=model,
            history=[*history, prompt(content)],
            workflow=workflow,
            stop=self.stop,
            limits=limits,
            new_id=lambda: next(self.ids),
            new_link_id=lambda: f"link-{next(links)}",
            tools=tools,
        )
        self.workflow = workflow

    async def collect(self, on_item: Callable[[int, Delta | StepDraft], None] | None = None) -> Run:
        async for item in self.generator:
            self.items.append(item)
            if on_item:
                on_item(len(self.items), item)
        self.check()
        return self

    @property
    def drafts(self) -> list[StepDraft]:
        return [item for item in self.items if isinstance(item, StepDraft)]

    @property
    def deltas(self) -> list[Delta]:
        return [item for item in self.items if isinstance(item, Delta)]

    @property
    def end(self) -> StepDraft:
        return self.drafts[-1]

    @property
    def results(self) -> list[ToolResult]:
        return [result for draft in self.drafts for result in draft.tool_results]

    def check(self) -> None:
        """What holds for every run."""
        assert [draft.end_reason is not None for draft in self.drafts][:-1] == [False] * (
            len(self.drafts) - 1
        )
        assert self.end.end_reason is not None
        assert self.items[-1] is self.end
        standing = self.workflow
        for draft in self.drafts:
            assert draft.before is standing
            standing = draft.after
            assert [r.call_id for r in draft.tool_results] == [c.id for c in draft.tool_calls]
            assert all(r.output.startswith("[ERROR] ") == r.is_error for r in draft.tool_results)
            orjson.dumps([draft.content, [dict(c.input) for c in draft.tool_calls]])
        ids = [c.id for draft in self.drafts for c in draft.tool_calls]
        assert len(set(ids)) == len(ids)
        assert all(ids)
        self.check_deltas()

    def check_deltas(self) -> None:
        steps = dict(enumerate(self.drafts, start=1))
        said: dict[int, str] = {}
        argued: dict[str, str] = {}
        for delta in self.deltas:
            if delta.text is not None:
                before = said.get(delta.step_index, "")
                assert delta.offset == len(before.encode("utf-16-le")) // 2
                said[delta.step_index] = before + delta.text
            else:
                assert delta.tool
                call_id, name, piece = delta.tool
                assert (call_id, name) in [
                    (c.id, c.name) for c in steps[delta.step_index].tool_calls
                ]
                before = argued.get(call_id, "")
                assert delta.offset == len(before.encode("utf-16-le")) // 2
                argued[call_id] = before + piece
        for index, streamed in said.items():
            # Blank text alone is no step; the turn's last one replaces it.
            assert steps[index].content == streamed or not streamed.strip()


@pytest.fixture(autouse=True)
async def nothing_leaks(provider: ScriptedProvider) -> AsyncIterator[None]:
    """No task and no open stream is left behind."""
    before: set[Any] = asyncio.all_tasks()
    yield
    before.add(asyncio.current_task())
    for _ in range(500):
        left = asyncio.all_tasks() - before
        if not left and not provider.streaming:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"left behind: {left}, {provider.streaming} open streams")


@pytest.fixture(autouse=True, scope="module")
def nothing_is_collected_with_a_complaint() -> Iterator[None]:
    """Whatever was left open would warn here, and warnings are errors."""
    yield
    gc.collect()


@pytest.fixture
async def model(provider: ScriptedProvider) -> AsyncIterator[ChatModel]:
    async with resolve(Settings(**provider.settings)) as resolved:
        yield resolved


def of_function(
    function: Callable[[list[ModelMessage], AgentInfo], AsyncIterator[Any]],
) -> ChatModel:
    return ChatModel(
        name="function", model=FunctionModel(stream_function=function), counts_tokens=False
    )


def slow_tools(started: asyncio.Event, *, seconds: float = 60) -> Toolbox:
    """The canvas tools, and `wait`, which takes its time."""
    canvas = canvas_toolbox(lambda: "link-slow", limits())
    spec = next(iter(canvas.specs.values()))

    async def run(
        workflow: Workflow, name: str, args: Mapping[str, object]
    ) -> tuple[Workflow, str]:
        if name != "wait":
            return await canvas.call(workflow, name, args)
        started.set()
        await asyncio.sleep(seconds)
        return workflow, "waited"

    waiting = type(spec)(name="wait", description="Waits.", schema={"type": "object"})
    return Toolbox(specs={**canvas.specs, "wait": waiting}, call=run)


# -- a turn that goes well


async def test_an_answer_without_calls_is_one_complete_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Good "), text("morning."), usage(12, 3)])
    run = await Run(model).collect()
    assert [draft.content for draft in run.drafts] == ["Good morning."]
    assert run.end.end_reason is EndReason.COMPLETE
    assert run.end.usage == {"inputTokens": 12, "outputTokens": 3, "totalTokens": 15}


async def test_usage_that_the_provider_does_not_give_is_not_made_up(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Hi.")])
    assert (await Run(model).collect()).end.usage is None


async def test_each_model_call_with_its_tools_is_a_step_on_the_workflow_before_it(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [text("First."), call("addOperator", ADD)],
        [call("addOperator", ADD_2)],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert [draft.content for draft in run.drafts] == ["First.", "", "Done."]
    assert [list(draft.after.operators) for draft in run.drafts] == [
        ["op1"],
        ["op1", "op2"],
        ["op1", "op2"],
    ]
    assert run.results[1].output == (
        "Added operator op2, input ports: 1, output ports: 1, created links: [op1 --> op2]"
    )


@pytest.mark.case(28)
async def test_tools_of_one_step_run_in_the_models_order_each_on_the_one_before(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [
            call("addOperator", ADD, id="a", index=0),
            call("addOperator", ADD_2, id="b", index=1),
            call("deleteOperator", {"operatorId": "op1"}, id="c", index=2),
        ],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert [r.is_error for r in run.results] == [False, False, False]
    assert list(run.end.after.operators) == ["op2"]
    assert run.drafts[0].before is EMPTY


async def test_calls_whose_pieces_interleave_are_put_together(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    first, second = orjson.dumps(ADD).decode(), orjson.dumps(ADD_2).decode()
    provider.will(
        [
            call_piece(index=0, id="a", name="addOperator", args=""),
            call_piece(index=1, id="b", name="addOperator", args=second[:9]),
            call_piece(index=0, args=first[:5]),
            call_piece(index=1, args=second[9:]),
            call_piece(index=0, args=first[5:]),
        ],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert list(run.end.after.operators) == ["op1", "op2"]


async def test_text_after_a_call_is_part_of_the_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Before."), call("getWorkflow", GET), text("After.")], [text("Done.")])
    run = await Run(model).collect()
    assert run.drafts[0].content == "Before.\n\nAfter."


async def test_the_next_model_call_sees_the_results_and_the_workflow_as_it_is(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Adding."), call("addOperator", ADD, id="a")], [text("Done.")])
    await Run(model, content="add a filter").collect()
    first, second = (request["messages"] for request in provider.requests)
    assert [m["role"] for m in first] == ["system", "user"]
    assert [m["role"] for m in second] == ["system", "user", "assistant", "tool"]
    assert '"op1"' not in first[0]["content"].partition("The workflow now")[2]
    assert '"op1"' in second[0]["content"].partition("The workflow now")[2]
    assert second[2]["tool_calls"][0]["id"] == second[3]["tool_call_id"] == "a"
    assert second[3]["content"].startswith("Added operator op1")


async def test_the_tools_are_offered_with_their_schemas(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Hi.")])
    await Run(model).collect()
    offered = {tool["function"]["name"]: tool["function"] for tool in provider.requests[0]["tools"]}
    assert list(offered) == ["addOperator", "modifyOperator", "deleteOperator", "getWorkflow"]
    assert offered["addOperator"]["parameters"]["properties"].keys() >= {"operatorId", "properties"}


# -- stop


ANSWER = (text("One "), text("two "), call("addOperator", ADD, id="a"), text("three"))


async def test_stop_at_every_item_of_a_turn_ends_it_there(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    def script() -> None:
        pieces = orjson.dumps(ADD_2).decode()
        provider.will(
            [text("One "), text("two."), call("addOperator", ADD, id="a")],
            [
                text("Three."),
                call_piece(id="b", name="addOperator", args=pieces[:7]),
                call_piece(args=pieces[7:]),
            ],
            [text("Four "), text("five.")],
        )

    script()
    whole = await Run(model).collect()
    assert len(whole.items) > 8
    for point in range(len(whole.items)):
        script()
        run = Run(model)
        if point == 0:
            run.stop.set()

        def stop_here(count: int, _: object, run: Run = run, point: int = point) -> None:
            if count == point:
                run.stop.set()

        await run.collect(stop_here)
        assert run.end.end_reason is EndReason.STOPPED
        assert run.end.content == "Stopped."
        assert run.items[:point] == whole.items[:point]
        # At most the step that was under way, and the last word.
        assert len(run.items) - point <= 2


@pytest.mark.parametrize(
    ("answer", "content", "calls"),
    [
        pytest.param(HANG, "", 0, id="no headers yet"),
        pytest.param([Pause()], "", 0, id="no byte yet"),
        pytest.param([text("Half a"), Pause()], "Half a", 0, id="in the text"),
        pytest.param(
            [text("Now."), call_piece(id="a", name="addOperator", args='{"oper'), Pause()],
            "Now.",
            1,
            id="in the arguments",
        ),
        pytest.param([call("addOperator", ADD), Pause()], "", 1, id="behind a whole call"),
        pytest.param(
            Answer([text("All."), finish("stop"), Pause()]), "All.", 0, id="before the end"
        ),
    ],
)
async def test_stop_while_a_model_call_stands_still(
    provider: ScriptedProvider, model: ChatModel, answer: Any, content: str, calls: int
) -> None:
    provider.will(answer)
    run = Run(model)
    said = asyncio.Event()

    def listen(count: int, item: object) -> None:
        if sum(len(delta.text or "") for delta in run.deltas) == len(content):
            said.set()

    running = asyncio.create_task(run.collect(listen))
    async with asyncio.timeout(5):
        await provider.asked.wait()
        if content or calls:
            await said.wait()
        await asyncio.sleep(0.02)
        stopped = asyncio.get_running_loop().time()
        run.stop.set()
        await running
        took = asyncio.get_running_loop().time() - stopped
        await provider.hung_up.wait()
    assert took < 1
    assert run.end.end_reason is EndReason.STOPPED
    partial = run.drafts[:-1]
    assert len(partial) == (1 if content or calls else 0)
    for draft in partial:
        assert draft.content == content
        assert [result.output for result in draft.tool_results] == ["[ERROR] Not run."] * calls
        assert draft.after is EMPTY


async def test_stop_while_a_tool_runs_keeps_what_the_tools_before_it_did(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [
            call("addOperator", ADD, id="a", index=0),
            call("wait", GET, id="b", index=1),
            call("addOperator", ADD_2, id="c", index=2),
        ]
    )
    started = asyncio.Event()
    run = Run(model, tools=slow_tools(started))
    running = asyncio.create_task(run.collect())
    async with asyncio.timeout(5):
        await started.wait()
        run.stop.set()
        await running
    assert [result.is_error for result in run.results] == [False, True, True]
    assert "Not finished" in run.results[1].output
    assert run.results[2].output == "[ERROR] Not run."
    assert list(run.end.after.operators) == ["op1"]
    assert run.end.end_reason is EndReason.STOPPED


async def test_stop_of_a_model_that_cleans_up_slowly_still_ends(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnback.agent.loop.CLOSE_GRACE", 0.05)
    let_go = asyncio.Event()

    async def stubborn(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "Begun"
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    run = Run(of_function(stubborn))
    async with asyncio.timeout(2):
        await run.collect(lambda count, _: run.stop.set())
    assert run.end.end_reason is EndReason.STOPPED
    let_go.set()


@pytest.mark.parametrize("point", range(1, 6))
async def test_closing_the_generator_at_any_item_hangs_up(
    provider: ScriptedProvider, model: ChatModel, point: int
) -> None:
    provider.will(
        [text("One "), text("two."), call("addOperator", ADD, id="a")], [text("Three"), Pause()]
    )
    run = Run(model)
    for _ in range(point):
        run.items.append(await anext(run.generator))
    await run.generator.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(run.generator)


@pytest.mark.parametrize("answer", [HANG, [Pause()], [text("Half"), Pause()]])
async def test_cancelling_the_consumer_hangs_up(
    provider: ScriptedProvider, model: ChatModel, answer: Any
) -> None:
    provider.will(answer)
    running = asyncio.create_task(Run(model).collect())
    async with asyncio.timeout(5):
        await provider.asked.wait()
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await provider.hung_up.wait()


async def test_cancelling_the_consumer_ends_the_tool_that_runs(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("wait", GET)])
    started = asyncio.Event()
    running = asyncio.create_task(Run(model, tools=slow_tools(started)).collect())
    async with asyncio.timeout(5):
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


# -- what tools do wrong


@pytest.mark.case(19)
@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("addOperator", '{"operatorId": "op1", ', "not one JSON object"),
        ("addOperator", "[]", "not one JSON object"),
        ("addOperator", '"text"', "not one JSON object"),
        ("addOperator", "7", "not one JSON object"),
        ("addOperator", "NaN", "not one JSON object"),
        ("addOperator", '{"a":' * 200 + "1" + "}" * 200, "not one JSON object"),
        ("addOperator", '{"a": "\\ud83d"}', "not one JSON object"),
        ("addOperator", {}, "operatorId"),
        ("addOperator", {**ADD, "operatorType": "Nonsense"}, "Nonsense"),
        ("addOperator", {**ADD, "operatorId": 5}, "operatorId"),
        ("rm -rf /", {}, "Unknown tool `rm -rf /`. The tools are `addOperator`"),
        ("\0", {}, "Unknown tool"),
    ],
)
async def test_a_call_that_fails_is_the_models_to_read_and_changes_nothing(
    provider: ScriptedProvider, model: ChatModel, name: str, args: Any, said: str
) -> None:
    provider.will([call(name, args, id="a")], [text("I see.")])
    run = await Run(model).collect()
    [result] = run.results
    assert result.is_error
    assert said in result.output
    assert run.end.after is EMPTY
    assert run.end.end_reason is EndReason.COMPLETE
    told = provider.requests[1]["messages"][-1]
    assert (told["role"], told["tool_call_id"]) == ("tool", "a")
    assert said in told["content"]


async def test_malformed_arguments_are_kept_for_who_reads_the_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("addOperator", '{"oops')], [text("I see.")])
    run = await Run(model).collect()
    assert run.drafts[0].tool_calls[0].input == {"INVALID_JSON": '{"oops'}


@pytest.mark.parametrize(
    "args", [ADD, [ADD], 5, None, True], ids=["object", "list", "number", "null", "true"]
)
async def test_arguments_that_are_no_text_do_not_end_the_run(
    provider: ScriptedProvider, model: ChatModel, args: Any
) -> None:
    provider.will([call_piece(id="a", name="addOperator", args=args)], [text("I see.")])
    run = await Run(model).collect()
    assert run.end.end_reason is EndReason.COMPLETE
    assert list(run.end.after.operators) == (["op1"] if args is ADD else [])


async def test_a_failed_call_does_not_keep_the_next_from_running(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(
        [
            call("addOperator", ADD_2, id="a", index=0),
            call("addOperator", ADD, id="b", index=1),
        ],
        [text("Done.")],
    )
    run = await Run(model).collect()
    assert [result.is_error for result in run.results] == [True, False]
    assert list(run.end.after.operators) == ["op1"]


@pytest.mark.case(19)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ToolFailed("No such file."), "[ERROR] No such file."),
        (ToolFailed("[ERROR] No such file."), "[ERROR] No such file."),
        (KeyError("secret"), "[ERROR] It failed unexpectedly (`KeyError`)."),
        (asyncio.CancelledError(), "[ERROR] It was cancelled from within."),
    ],
)
async def test_whatever_a_tool_raises_is_an_error_result(
    provider: ScriptedProvider, model: ChatModel, error: BaseException, said: str
) -> None:
    async def fail(*_: object) -> tuple[Workflow, str]:
        raise error

    tools = Toolbox(specs=canvas_toolbox(str, limits()).specs, call=fail)
    provider.will([call("getWorkflow", GET)], [text("I see.")])
    run = await Run(model, tools=tools).collect()
    assert [result.output for result in run.results] == [said]
    assert run.end.end_reason is EndReason.COMPLETE


async def test_a_tool_that_takes_too_long_is_cancelled_and_reported(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("wait", GET)], [text("I see.")])
    started = asyncio.Event()
    run = Run(model, tools=slow_tools(started), limits=limits(tool_timeout=0.05))
    await run.collect()
    assert run.results[0].output == "[ERROR] It took longer than 0.05 s (`tool_timeout`)."
    assert run.end.end_reason is EndReason.COMPLETE


@pytest.mark.case(33)
async def test_a_tool_that_is_switched_off_is_not_offered_and_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    off = limits(disabled_tools=frozenset({"deleteOperator"}))
    provider.will(
        [
            call("addOperator", ADD, id="a", index=0),
            call("deleteOperator", {"operatorId": "op1"}, id="b", index=1),
        ],
        [text("Done.")],
    )
    run = await Run(model, limits=off).collect()
    assert [tool["function"]["name"] for tool in provider.requests[0]["tools"]] == [
        "addOperator",
        "modifyOperator",
        "getWorkflow",
    ]
    assert b"deleteOperator" not in provider.bodies[0]
    assert run.results[1].output == (
        "[ERROR] The tool `deleteOperator` is switched off. Do without it."
    )
    assert list(run.end.after.operators) == ["op1"]


async def test_a_tool_that_is_not_offered_is_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    canvas = canvas_toolbox(lambda: "link-1", limits())
    reading = Toolbox(specs={"getWorkflow": canvas.specs["getWorkflow"]}, call=canvas.call)
    provider.will([call("addOperator", ADD)], [text("I see.")])
    run = await Run(model, tools=reading).collect()
    assert run.results[0].is_error
    assert run.end.after is EMPTY
    assert [tool["function"]["name"] for tool in provider.requests[0]["tools"]] == ["getWorkflow"]


# -- what providers do wrong


@pytest.mark.parametrize("given", ["", "a", "id with spaces", "x" * 500])
async def test_empty_repeated_and_odd_call_ids_are_replaced(
    provider: ScriptedProvider, model: ChatModel, given: str
) -> None:
    provider.will(
        [
            call("addOperator", ADD, id=given, index=0),
            call("getWorkflow", GET, id=given, index=1),
        ],
        [call("getWorkflow", GET, id=given)],
        [text("Done.")],
    )
    used = ToolCall("getWorkflow", "a", {})
    earlier = (
        prompt("before"),
        PastStep(
            role=Role.AGENT, content="", tool_calls=(used,), tool_results=(ToolResult("a", "{}"),)
        ),
        PastStep(role=Role.AGENT, content="Done.", end_reason=EndReason.COMPLETE),
    )
    run = await Run(model, history=earlier).collect()
    ids = [c.id for draft in run.drafts for c in draft.tool_calls]
    assert len(set(ids)) == 3
    assert not {given} & set(ids)
    sent = provider.requests[-1]["messages"]
    asked = [c["id"] for m in sent for c in m.get("tool_calls", ())]
    assert asked == ["a", *ids]
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == asked


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param([], "Error: the model gave an empty answer; prompt again.", id="nothing"),
        pytest.param(
            [text("  \n")], "Error: the model gave an empty answer; prompt again.", id="blank"
        ),
        pytest.param(
            Refusal(500),
            "Error: the model's provider answered with status 500; prompt again in a while.",
            id="500",
        ),
        pytest.param(Refusal(401), "refused the key; check `TURNBACK_MODEL_API_KEY`", id="401"),
        pytest.param(Refusal(404), "does not know this model or address", id="404"),
        pytest.param(Refusal(429), "is limiting our rate", id="429"),
        pytest.param(Refusal(400), "answered with status 400", id="400"),
        pytest.param(Answer([], whole=False), "Error: ", id="no event at all"),
        pytest.param([b"data: {not json\n\n"], "Error: ", id="garbage"),
        pytest.param([b"\xff\xfe\x00\n\n"], "Error: ", id="no text"),
        pytest.param(
            [b'data: {"error": {"message": "sk-secret overloaded"}}\n\n'], "Error: ", id="error"
        ),
        pytest.param([finish("content_filter")], "filtered the answer", id="filtered"),
    ],
)
async def test_a_provider_that_fails_at_once_ends_in_one_error_step(
    provider: ScriptedProvider, model: ChatModel, answer: Any, said: str
) -> None:
    provider.will(answer)
    run = await Run(model).collect()
    [end] = run.drafts
    assert end.end_reason is EndReason.FAILED
    assert end.content.startswith("Error: ")
    assert said in end.content
    assert len(end.content) < 200
    assert "secret" not in end.content


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param([text("Half"), CUT], "broke off", id="connection cut"),
        pytest.param(Answer([text("Half")], whole=False), "cut short", id="no finish reason"),
        pytest.param([text("Half"), b"data: {oops\n\n"], "Error: ", id="garbage"),
        pytest.param(
            [text("Half"), b'data: {"error": {"message": "sk-secret"}}\n\n'], "Error: ", id="error"
        ),
        pytest.param([text("Half"), finish("content_filter")], "filtered", id="filtered"),
    ],
)
async def test_what_streamed_before_a_failure_is_kept_as_a_step(
    provider: ScriptedProvider, model: ChatModel, answer: Any, said: str
) -> None:
    provider.will(answer)
    run = await Run(model).collect()
    assert [draft.content for draft in run.drafts[:-1]] == ["Half"]
    assert run.end.end_reason is EndReason.FAILED
    assert said in run.end.content
    assert "secret" not in run.end.content


async def test_calls_of_a_cut_stream_are_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([call("addOperator", ADD), CUT])
    run = await Run(model).collect()
    assert [result.output for result in run.results] == ["[ERROR] Not run."]
    assert run.end.after is EMPTY


AT_ONCE = {"retry-after": "0"}
HTML = b"<html><body>sk-secret Bad Gateway</body></html>"


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Refusal(429, retry=True, headers=AT_ONCE), id="429"),
        pytest.param(Refusal(429, retry=True, headers={"retry-after-ms": "5"}), id="429 in ms"),
        pytest.param(
            Refusal(429, retry=True, headers={"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}),
            id="429 with a date",
        ),
        pytest.param(Refusal(500, retry=True, headers=AT_ONCE), id="500"),
        pytest.param(
            Refusal(502, retry=True, body=HTML, headers=AT_ONCE | {"content-type": "text/html"}),
            id="502 in HTML",
        ),
        pytest.param(Refusal(503, retry=True, headers=AT_ONCE), id="503"),
        pytest.param(Refusal(529, retry=True, headers=AT_ONCE), id="529"),
        pytest.param([CUT], id="cut before a byte"),
    ],
)
async def test_what_fails_for_a_while_is_tried_again_model_retries_times(
    provider: ScriptedProvider,
    model: ChatModel,
    failure: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnback.agent.models.FIRST_PAUSE", 0.01)
    provider.will(failure, failure, [text("There.")])
    run = await Run(model, limits=limits(model_retries=2)).collect()
    assert (run.end.content, run.end.end_reason) == ("There.", EndReason.COMPLETE)
    assert len(provider.requests) == 3
    provider.will(failure, failure, [text("There.")])
    run = await Run(model, limits=limits(model_retries=1)).collect()
    assert run.end.end_reason is EndReason.FAILED
    assert "secret" not in run.end.content
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(text("Half"), id="text"),
        pytest.param(call_piece(id="a", name="addOperator", args='{"op'), id="arguments"),
        pytest.param(
            {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}, id="thinking"
        ),
    ],
)
async def test_nothing_is_tried_again_once_a_piece_has_arrived(
    provider: ScriptedProvider, model: ChatModel, begun: Any
) -> None:
    provider.will([begun, CUT], [text("There.")])
    run = await Run(model).collect()
    assert run.end.end_reason is EndReason.FAILED
    assert len(provider.requests) == 1


async def test_a_provider_that_asks_for_a_pause_gets_it(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(Refusal(429, retry=True, headers={"retry-after-ms": "300"}), [text("There.")])
    begun = asyncio.get_running_loop().time()
    run = await Run(model).collect()
    assert run.end.content == "There."
    assert asyncio.get_running_loop().time() - begun >= 0.3


async def test_a_longer_pause_than_max_retry_wait_ends_the_turn_and_says_how_long(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    for asked in (3600, formatdate(time.time() + 3600, usegmt=True)):
        provider.will(Refusal(429, retry=True, headers={"retry-after": str(asked)}))
        run = await Run(model, limits=limits(max_retry_wait=30)).collect()
        [end] = run.drafts
        assert re.fullmatch(
            r"Error: the model's provider asks to wait 3[56]\d\d s before the next try, longer "
            r"than 30 s \(`max_retry_wait`\); prompt again then\.",
            end.content,
        )
        assert end.end_reason is EndReason.FAILED


async def test_stop_during_a_pause_ends_the_turn_at_once(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(Refusal(429, retry=True, headers={"retry-after": "25"}))
    run = Run(model)
    running = asyncio.create_task(run.collect())
    async with asyncio.timeout(5):
        await provider.asked.wait()
        await asyncio.sleep(0.1)
        run.stop.set()
        await running
    assert [draft.content for draft in run.drafts] == ["Stopped."]
    assert len(provider.requests) == 1


async def test_a_pause_does_not_outlast_model_timeout(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(Refusal(429, retry=True, headers={"retry-after": "25"}), [text("There.")])
    async with asyncio.timeout(5):
        run = await Run(model, limits=limits(model_timeout=0.3)).collect()
    assert "`model_timeout`" in run.end.content


async def test_a_provider_that_cannot_be_reached_says_which_setting(
    unused_tcp_port: int,
) -> None:
    settings = Settings(model="openai:x", model_base_url=f"http://127.0.0.1:{unused_tcp_port}/v1")
    async with resolve(settings) as model:
        run = await Run(model).collect()
    assert run.end.content == (
        "Error: the model's provider cannot be reached; check `TURNBACK_MODEL_BASE_URL`."
    )


@pytest.mark.parametrize("answer", [HANG, [Pause()]])
async def test_a_model_that_never_begins_ends_at_model_timeout(
    provider: ScriptedProvider, model: ChatModel, answer: Any
) -> None:
    provider.will(answer)
    run = await Run(model, limits=limits(model_timeout=0.1)).collect()
    assert run.end.end_reason is EndReason.FAILED
    assert run.end.content == "Error: the model took longer than 0.1 s (`model_timeout`)."
    await asyncio.wait_for(provider.hung_up.wait(), 5)


async def test_a_model_that_falls_silent_ends_at_model_idle_timeout(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Well"), Pause()])
    run = await Run(model, limits=limits(model_idle_timeout=0.1)).collect()
    assert [draft.content for draft in run.drafts] == [
        "Well",
        "Error: the model said nothing for 0.1 s (`model_idle_timeout`).",
    ]


async def test_retries_do_not_outlast_model_timeout(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(*[Refusal(500, retry=True)] * 10)
    run = await Run(model, limits=limits(model_timeout=0.1)).collect()
    assert "`model_timeout`" in run.end.content


@pytest.mark.case(32)
@pytest.mark.parametrize(
    "error",
    [
        KeyError("odd"),
        RuntimeError("secret " * 100),
        asyncio.CancelledError(),
        TimeoutError(),
        StopAsyncIteration(),
        ExceptionGroup("several", [ValueError(), OSError()]),
    ],
)
@pytest.mark.parametrize("begun", [False, True])
async def test_whatever_a_model_raises_ends_in_an_error_step(
    error: BaseException, begun: bool
) -> None:
    async def odd(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        if begun:
            yield "Well"
        raise error

    run = await Run(of_function(odd)).collect()
    assert [draft.content for draft in run.drafts[:-1]] == ["Well"] * begun
    assert run.end.end_reason is EndReason.FAILED
    assert "secret" not in run.end.content


@pytest.mark.case(32)
async def test_a_model_that_yields_what_is_no_piece_ends_in_an_error_step() -> None:
    async def odd(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {1: "neither text nor call"}

    assert (await Run(of_function(odd)).collect()).end.end_reason is EndReason.FAILED


async def test_text_that_cannot_be_stored_is_put_right(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    # Half an emoji in one piece and half in the next; a lone half; a NUL.
    provider.will([text("a\ud83d"), text("\ude00b"), text("\ude00"), text("\0c")])
    run = await Run(model).collect()
    assert run.end.content == "a\U0001f600b\ufffd\ufffdc"


async def test_thinking_that_is_no_unicode_does_not_end_the_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    thinking = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm \ud800"}}]}
    provider.will([thinking, call("getWorkflow", GET)], [text("Done.")])
    run = await Run(model).collect()
    assert (run.end.content, run.end.end_reason) == ("Done.", EndReason.COMPLETE)


@pytest.mark.parametrize(("asked", "answered"), [(10**30, 1), (2**64 - 1, 2**64 - 1), (1, 2**40)])
async def test_a_count_of_tokens_beyond_belief_is_left_out(
    provider: ScriptedProvider, model: ChatModel, asked: int, answered: int
) -> None:
    provider.will([text("Hello."), usage(asked, answered)])
    run = await Run(model).collect()
    assert (run.end.content, run.end.usage) == ("Hello.", None)


async def test_offsets_count_utf_16_units_as_pages_do(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("\U0001f600"), text("é"), text("!")])
    run = await Run(model).collect()
    assert [delta.offset for delta in run.deltas] == [0, 2, 3]


# -- limits


@pytest.mark.case(31)
async def test_a_model_that_never_ends_is_stopped_at_max_steps(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(*[[call("getWorkflow", GET)]] * 5)
    run = await Run(model, limits=limits(max_steps=3)).collect()
    assert len(provider.requests) == 3
    assert [draft.end_reason for draft in run.drafts] == [None, None, None, EndReason.LIMIT]
    assert run.end.content == "Stopped at a limit: 3 model calls in a turn (`max_steps`)."


async def test_a_turn_ends_at_run_timeout_whatever_it_is_doing(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Half"), Pause()])
    run = await Run(model, limits=limits(run_timeout=0.5)).collect()
    assert [draft.content for draft in run.drafts] == [
        "Half",
        "Stopped at a limit: 0.5 s for a turn (`run_timeout`).",
    ]
    assert run.end.end_reason is EndReason.LIMIT


async def test_run_timeout_cuts_a_tool_short(provider: ScriptedProvider, model: ChatModel) -> None:
    provider.will([call("wait", GET)])
    tools = slow_tools(asyncio.Event())
    run = await Run(model, tools=tools, limits=limits(run_timeout=0.5)).collect()
    assert "Not finished" in run.results[0].output
    assert "`run_timeout`" in run.end.content


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param([text("x" * 600), text("y" * 600)], id="text"),
        pytest.param([text("x"), call("addOperator", '"' + "z" * 1100)], id="arguments"),
        pytest.param([text("x"), call("n" * 1100, "{}")], id="name"),
    ],
)
async def test_an_answer_beyond_max_reply_bytes_is_cut(
    provider: ScriptedProvider, model: ChatModel, flood: Any
) -> None:
    provider.will([*flood, Pause()])
    run = await Run(model, limits=limits(max_reply_bytes=1000)).collect()
    assert run.end.end_reason is EndReason.LIMIT
    assert "`max_reply_bytes`" in run.end.content
    assert len(run.drafts[0].content) <= 1000
    await asyncio.wait_for(provider.hung_up.wait(), 5)


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(Answer([b"data: " + b"x" * 20_000, Pause()]), id="a line without an end"),
        pytest.param(Answer([b"data: x\n" * 3_000, Pause()]), id="an event without an end"),
        pytest.param(Answer([b" " * 20_000, Pause()], content_type="text/html"), id="HTML"),
        pytest.param(Refusal(400, body=b"x" * 20_000), id="the text of an error"),
    ],
)
async def test_what_is_gathered_before_it_is_an_answer_is_bounded_too(
    provider: ScriptedProvider, flood: Any
) -> None:
    settings = Settings(model="openai:x", model_base_url=provider.url, max_reply_bytes=1000)
    provider.will(flood)
    async with resolve(settings) as model:
        run = await Run(model, limits=limits(max_reply_bytes=1000)).collect()
    assert run.end.content == (
        "Stopped at a limit: an answer of more than 1000 bytes (`max_reply_bytes`)."
    )
    assert run.end.end_reason is EndReason.LIMIT


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
async def test_many_small_events_are_no_large_one(provider: ScriptedProvider, end: bytes) -> None:
    piece = orjson.dumps(text("x") | {"id": "i", "model": "m", "object": "o", "created": 1})
    ended = orjson.dumps(finish("stop") | {"id": "i", "model": "m", "object": "o", "created": 1})
    stream = b"".join(b"data: " + said + end for said in [*[piece] * 200, ended, b"[DONE]"])
    cuts = [stream[at : at + 97] for at in range(0, len(stream), 97)]
    assert len(stream) > 20_000
    settings = Settings(model="openai:x", model_base_url=provider.url, max_reply_bytes=1000)
    async with resolve(settings) as model:
        for items in ([stream], cuts):
            provider.will(Answer(items, whole=False))
            run = await Run(model, limits=limits(max_reply_bytes=1000)).collect()
            assert (run.end.content, run.end.end_reason) == ("x" * 200, EndReason.COMPLETE)


async def test_more_calls_than_allowed_in_one_step_are_not_run(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    calls = [call("getWorkflow", GET, id=f"c{n}", index=n) for n in range(4)]
    provider.will(calls)
    run = await Run(model, limits=limits(max_tool_calls_per_step=3)).collect()
    assert [result.output for result in run.results] == ["[ERROR] Not run."] * 3
    assert run.end.end_reason is EndReason.LIMIT
    assert "`max_tool_calls_per_step`" in run.end.content


async def test_an_answer_cut_at_the_models_own_length_says_so_and_runs_nothing(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will([text("Long"), call("addOperator", ADD), finish("length")])
    run = await Run(model).collect()
    assert run.results[0].output == "[ERROR] Not run."
    assert run.end.end_reason is EndReason.LIMIT
    assert "length of an answer" in run.end.content


async def test_a_turn_that_outgrows_the_context_ends_at_its_limit(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    provider.will(*[[text("x" * 5000), call("getWorkflow", GET)]] * 10)
    run = await Run(model, limits=limits(max_context_tokens=10_000)).collect()
    assert run.end.end_reason is EndReason.LIMIT
    assert "`max_context_tokens`" in run.end.content
    assert 2 < len(run.drafts) < 8


# -- the earlier conversation


async def test_edits_and_early_ends_are_told_in_brackets_and_no_call_is_left_open(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    calls = (ToolCall("addOperator", "a", ADD), ToolCall("odd name!", "b", {"x": 1}))
    history = (
        prompt("one"),
        PastStep(
            role=Role.AGENT, content="Yes.", tool_calls=calls, tool_results=(ToolResult("a", "ok"),)
        ),
        PastStep(role=Role.AGENT, content="Stopped.", end_reason=EndReason.STOPPED),
        PastStep(role=Role.USER, content="Moved 2 operators", kind=TurnKind.EDIT),
        prompt("two"),
        PastStep(role=Role.AGENT, content="Answer.", end_reason=EndReason.COMPLETE),
        prompt("three"),
        PastStep(role=Role.AGENT, content="Error: no luck.", end_reason=EndReason.FAILED),
        prompt("four"),
        PastStep(role=Role.AGENT, content="Half"),
        PastStep(role=Role.AGENT, content="Interrupted.", end_reason=EndReason.INTERRUPTED),
    )
    provider.will([text("Hi.")])
    await Run(model, history=history, content="five").collect()
    told = [
        (m["role"], m.get("content") or [c["id"] for c in m.get("tool_calls", ())])
        for m in provider.requests[0]["messages"][1:]
    ]
    assert told == [
        ("user", "one"),
        ("assistant", "Yes."),
        ("tool", "ok"),
        ("tool", '{"error":"[ERROR] No result."}'),
        ("user", "[Your turn ended early: Stopped.]"),
        ("user", "[The person edited the canvas: Moved 2 operators]"),
        ("user", "two"),
        ("assistant", "Answer."),
        ("user", "three"),
        ("user", "[Your turn ended early: Error: no luck.]"),
        ("user", "four"),
        ("assistant", "Half"),
        ("user", "[Your turn ended early: Interrupted.]"),
        ("user", "five"),
    ]
    names = [c["function"]["name"] for c in provider.requests[0]["messages"][2]["tool_calls"]]
    assert names == ["addOperator", "odd_name_"]


async def test_the_oldest_whole_turns_are_left_out_and_the_instructions_say_so(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    history = tuple(
        step
        for n in range(20)
        for step in (
            prompt(f"question {n} " + "x" * 1000),
            PastStep(role=Role.AGENT, content=f"answer {n}", end_reason=EndReason.COMPLETE),
        )
    )
    provider.will([text("Hi.")])
    await Run(model, history=history, limits=limits(max_context_tokens=12_000)).collect()
    system, *told = provider.requests[0]["messages"]
    assert len(orjson.dumps(provider.requests[0]["messages"])) < 25_000
    assert told[-1]["content"] == "hello"
    assert told[0]["role"] == "user"
    kept = (len(told) - 1) // 2
    assert 3 < kept < 20
    assert told[0]["content"].startswith(f"question {20 - kept} ")
    assert "its oldest turns are left out" in system["content"]


async def test_a_history_that_begins_within_a_turn_is_told_from_the_next_turn_on(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    history = (
        PastStep(role=Role.AGENT, content="the end of an answer", end_reason=EndReason.COMPLETE),
        prompt("one"),
        PastStep(role=Role.AGENT, content="Answer.", end_reason=EndReason.COMPLETE),
    )
    provider.will([text("Hi.")], [text("Hi.")])
    await Run(model, history=history).collect()
    await Run(model, history=history[1:]).collect()
    cut, whole = (request["messages"] for request in provider.requests)
    assert [m["content"] for m in cut[1:]] == ["one", "Answer.", "hello"]
    assert cut[1:] == whole[1:]
    assert "turns are left out" in cut[0]["content"]
    assert "turns are left out" not in whole[0]["content"]


async def test_one_huge_result_is_shortened_for_the_model_and_kept_in_the_step(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    async def much(workflow: Workflow, *_: object) -> tuple[Workflow, str]:
        return workflow, "é" * 50_000

    tools = Toolbox(specs=canvas_toolbox(str, limits()).specs, call=much)
    provider.will([call("getWorkflow", GET)], [text("Much.")])
    run = await Run(model, tools=tools, limits=limits(max_context_tokens=14_000)).collect()
    assert len(run.results[0].output) == 50_000
    told = provider.requests[1]["messages"][-1]["content"]
    assert len(told.encode()) < 11_000
    assert told.endswith("bytes are left out]")
    assert run.end.end_reason is EndReason.COMPLETE


async def test_pieces_reach_the_consumer_before_the_answer_is_whole(
    provider: ScriptedProvider, model: ChatModel
) -> None:
    go_on = asyncio.Event()
    provider.will([text("First"), Pause(go_on), text(" then.")])
    run = Run(model)
    async with asyncio.timeout(5):
        first = await anext(run.generator)
        assert isinstance(first, Delta)
        assert first.text == "First"
        go_on.set()
        run.items.append(first)
        await run.collect()
    assert run.end.content == "First then."


async def test_a_slow_consumer_holds_the_model_back() -> None:
    sent = 0

    async def fast(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        nonlocal sent
        for _ in range(5000):
            sent += 1
            yield "word "
        yield {1: DeltaToolCall(name="getWorkflow", json_args="{}")}

    run = Run(of_function(fast), limits=limits(max_steps=1))
    first = await anext(run.generator)
    run.items.append(first)
    await asyncio.sleep(0.1)
    assert sent < 200
    await run.collect()
    assert len(run.drafts[0].content) == 25_000
