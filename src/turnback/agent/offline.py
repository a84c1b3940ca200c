"""The offline model: a deterministic stand-in that needs no network, and says what it is.

It follows the sentences of grammar.py, one command a step, and sees what any model sees: the
workflow block of the instructions and the results of its calls. It keeps nothing between calls:
the step to take is counted from the conversation, so it goes on after a restart as well.

Its choices where a sentence leaves them open:

- A new operator without a place follows the one that this turn touched last, else the newest;
  a chart is followed only when that is said.
- "after X" adds a branch when something follows X already; "between X and Y" cuts into the link,
  and so does "before Y" when one operator feeds it.
- New ids are op1, op2, …, one above the highest in use.
- Deleting heals nothing: the links of the operator go with it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import orjson
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from turnback.agent import story
from turnback.agent.commands import (
    Add,
    Change,
    Command,
    Connect,
    Delete,
    Disconnect,
    NotUnderstood,
    Ref,
    Rename,
    Show,
)
from turnback.agent.grammar import parse, parse_details
from turnback.agent.prompt import OUTSIDE_OPENS, WORKFLOW_CLOSES, WORKFLOW_OPENS
from turnback.agent.recipes import RECIPES
from turnback.agent.story import Made
from turnback.agent.vocabulary import NAMES, Token
from turnback.core.operators import CATALOG

ARGUMENT_PIECE = 24  # characters of a call's arguments that stream at once
LONGEST_PROMPT = 10_000  # characters; a longer one is for a real model


def _a(name: str) -> str:
    return f"an {name}" if name[:1].lower() in tuple("aeiou") else f"a {name}"


WHO = "I am Turnback's offline stand-in, not a language model: I follow a few fixed phrases."

WHAT = f"""\
What I know:
- add a filter on amount > 100 after op3 · insert a sort by amount between op1 and op2
- load sales.csv · keep the first 10 rows · keep only columns a, b · sort by amount descending
- join op1 and op2 on id · sum amount by region · plot amount by region
- change op2 to amount > 200 · set fileName of op1 to "x.csv" · rename op2 to "Big orders"
- connect op1 to op2 · disconnect op1 from op2 · delete op3 · show the canvas
- {" · ".join(f"build {_a(name)}" for name in RECIPES)}
- {story.PROMPT}, with the demo's tools
Several at once go with "then". The operators: {", ".join(names[0] for names in NAMES.values())}.
Set `TURNBACK_MODEL` to talk to a real model."""

_GREETINGS = {"help", "hi", "hello", "what can you do", "who are you", "what are you"}

# What a sentence may call the whole of an operator's properties: "the condition of op2".
_WHAT_IT_DOES = {"", "condition", "file", "column", "order", "key", "row", "text", "aggregation"}

Inputs = dict[str, list[str]]


@dataclass(frozen=True)
class Call:
    """A tool call that the stand-in makes."""

    name: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class Move:
    """What the stand-in says and does next. Without calls it is its last word."""

    text: str
    calls: tuple[Call, ...] = ()


class Cannot(Exception):
    """A command that makes no sense on this workflow; the text says why."""


def model(*, delay_ms: int) -> FunctionModel:
    """The stand-in as a model; it waits `delay_ms` between one word and the next."""

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        offered = frozenset(tool.name for tool in info.function_tools)
        move = next_move(messages, info.instructions or "", offered)
        for word in re.findall(r"\s*\S+\s*?", move.text):
            yield word
            await asyncio.sleep(delay_ms / 1000)
        for index, call in enumerate(move.calls, start=1):
            yield {index: DeltaToolCall(name=call.name, json_args="")}
            args = orjson.dumps(call.args).decode()
            for at in range(0, len(args), ARGUMENT_PIECE):
                yield {index: DeltaToolCall(json_args=args[at : at + ARGUMENT_PIECE])}
                await asyncio.sleep(delay_ms / 1000)

    return FunctionModel(stream_function=stream, model_name="offline")


def next_move(
    messages: Sequence[ModelMessage], instructions: str, offered: frozenset[str] = frozenset()
) -> Move:
    """What to do next, from what a model is sent and which tools it is `offered`."""
    turn = _Turn.of(messages)
    if story.is_asked(turn.prompt):
        text, calls = story.next_step(turn.steps, turn.made, offered)
        return Move(text, tuple(Call(tool, args) for tool, args in calls))
    move = _next_move(turn, instructions)
    if move.calls or not turn.files:
        return move
    return Move(f"{move.text}\n\n{_received(turn.files)}".lstrip())


def _next_move(turn: _Turn, instructions: str) -> Move:
    try:
        if len(turn.prompt) > LONGEST_PROMPT:
            raise NotUnderstood(f"{turn.prompt[:60]}…")
        commands = parse(turn.prompt)
    except NotUnderstood as refused:
        return Move(_refusal(turn.prompt, refused.words))
    try:
        canvas = Canvas.of(instructions, turn)
        if turn.error:
            raise Cannot(f"The last call failed: {turn.error.removeprefix('[ERROR] ')}")
        if turn.steps < len(commands):
            return _move(commands[turn.steps], canvas)
        return Move(_closing(commands, canvas, turn))
    except Cannot as problem:
        before = _phrases(turn.done)
        return Move(f"{before} Then I had to stop. {problem}" if before else str(problem))


def _refusal(prompt: str, words: str) -> str:
    if re.sub(r"[^a-z ]", "", prompt.lower()).strip() in _GREETINGS:
        return f"{WHO}\n\n{WHAT}"
    return f'{WHO} I do not understand "{words}", so I have done nothing.\n\n{WHAT}'


@dataclass(frozen=True)
class _Turn:
    """The running turn: the prompt, the steps so far, the calls that worked, the last error, what
    came with the prompt of its files, and every call with its answer."""

    prompt: str
    steps: int
    done: tuple[Call, ...]
    error: str
    files: tuple[UserContent, ...]
    made: tuple[Made, ...] = ()

    @classmethod
    def of(cls, messages: Sequence[ModelMessage]) -> _Turn:
        prompt, steps, error = "", 0, ""
        files: tuple[UserContent, ...] = ()
        calls: dict[str, Call] = {}
        made: dict[str, Made] = {}
        for message in messages:
            if isinstance(message, ModelResponse):
                steps += 1
            for part in message.parts:
                match part:
                    case UserPromptPart(content=str(content)):
                        prompt, steps, error, files = _words(content), 0, "", ()
                        calls.clear()
                        made.clear()
                    case UserPromptPart(content=[str(content), *attached]):
                        prompt, steps, error, files = _words(content), 0, "", tuple(attached)
                        calls.clear()
                        made.clear()
                    case ToolCallPart():
                        calls[part.tool_call_id] = Call(part.tool_name, part.args_as_dict())
                        made[part.tool_call_id] = Made(part.tool_name, None)
                    case ToolReturnPart(outcome="failed"):
                        calls.pop(part.tool_call_id, None)
                        error = error or str(part.content)
                    case ToolReturnPart():
                        made[part.tool_call_id] = Made(part.tool_name, str(part.content))
                    case _:
                        pass
        return cls(prompt, steps, tuple(calls.values()), error, files, tuple(made.values()))

    def touched(self, *tools: str) -> list[str]:
        return [str(call.args.get("operatorId")) for call in self.done if call.name in tools]


def _words(content: str) -> str:
    """What the person said; how things stand outside is not part of the language."""
    return content.rsplit(OUTSIDE_OPENS, 1)[0]


@dataclass(frozen=True)
class Canvas:
    """The workflow as the instructions show it, and what this turn made and touched."""

    operators: Mapping[str, Mapping[str, Any]]
    made: Sequence[str]
    touched: Sequence[str]

    @classmethod
    def of(cls, instructions: str, turn: _Turn) -> Canvas:
        block = instructions.partition(WORKFLOW_OPENS)[2].partition(WORKFLOW_CLOSES)[0]
        shown = orjson.loads(block)
        if "operators" not in shown:
            raise Cannot("This canvas is too large for me to see.")
        operators = {operator["operatorId"]: operator for operator in shown["operators"]}
        made = [name for name in turn.touched("addOperator") if name in operators]
        touched = turn.touched("addOperator", "modifyOperator")
        return cls(operators, made, [name for name in touched if name in operators])

    def type_of(self, operator_id: str) -> str:
        return str(self.operators[operator_id].get("operatorType"))

    def inputs_of(self, operator_id: str) -> Inputs:
        inputs = self.operators[operator_id].get("inputOperatorIds", {})
        return {port: list(sources) for port, sources in inputs.items()}

    def sources_of(self, operator_id: str) -> list[str]:
        return [name for names in self.inputs_of(operator_id).values() for name in names]

    def next_id(self) -> str:
        numbers = (re.fullmatch(r"op(\d{1,9})", name) for name in self.operators)
        return f"op{max((int(found[1]) for found in numbers if found), default=0) + 1}"

    def newest(self) -> list[str]:
        """The operator that this turn touched last, or else the last on the canvas, if any."""
        return [*self.operators, *self.touched][-1:]

    def open_end(self) -> list[str]:
        """What a new operator follows when nothing is said."""
        ends = [name for name in (*self.operators, *self.touched) if not self._is_chart(name)]
        return ends[-1:]

    def _is_chart(self, name: str) -> bool:
        kind = CATALOG.types.get(self.type_of(name))
        return kind is not None and kind.group == "Visualization"

    def find(self, ref: Ref) -> str:
        """The operator that a sentence means. An id goes before a type, a type before a name."""
        if ref.made:
            if len(self.made) < -ref.made:
                raise Cannot(f"I cannot find {ref} any more.")
            return self.made[ref.made]
        if ref.text == "it" or (ref.newest and ref.type is None):
            for newest in self.newest():
                return newest
            raise Cannot("There is no operator yet.")
        if ref.text in self.operators:
            return ref.text
        found = [name for name in self.operators if name.lower() == ref.text.lower()]
        if not found and ref.type:
            found = [name for name in self.operators if self.type_of(name) == ref.type]
        if not found:
            found = [
                name
                for name, operator in self.operators.items()
                if str(operator.get("summary", "")).lower() == ref.text.lower()
            ]
        match found[-1:] if ref.newest else found:
            case [one]:
                return one
            case []:
                raise Cannot(f"There is no `{ref}`. {self.listing()}")
            case several:
                raise Cannot(f"`{ref}` may be {_listed(several, 'or')}: say which.")

    def listing(self) -> str:
        if not self.operators:
            return "The canvas is empty."
        named = [f"`{name}` ({_everyday(self.type_of(name))})" for name in self.operators]
        shown = named[:20] + ([f"{len(named) - 20} more"] if len(named) > 20 else [])
        return f"On the canvas: {', '.join(shown)}."


# -- one command


def _move(command: Command, canvas: Canvas) -> Move:
    match command:
        case Add():
            return _add(command, canvas)
        case Delete(refs):
            names = list(dict.fromkeys(canvas.find(ref) for ref in refs) or canvas.operators)
            if not names:
                raise Cannot(canvas.listing())
            calls = tuple(Call("deleteOperator", {"operatorId": name}) for name in names)
            return Move(f"I'll delete {_listed(names)}.", calls)
        case Change():
            return _change(command, canvas)
        case Rename(ref, name):
            operator_id = canvas.find(ref)
            return Move(
                f'I\'ll call `{operator_id}` "{name}".', (_modify(operator_id, summary=name),)
            )
        case Connect():
            return _connect(command, canvas)
        case Disconnect():
            return _disconnect(command, canvas)
        case Show(ref):
            if ref is not None:
                canvas.find(ref)
            return Move("I'll look at the canvas.", (Call("getWorkflow", {}),))
        case _:
            assert_never(command)


def _modify(operator_id: str, **changes: Any) -> Call:
    return Call("modifyOperator", {"operatorId": operator_id, **changes})


def _add(command: Add, canvas: Canvas) -> Move:
    kind = CATALOG.types[command.type]
    name = _everyday(command.type)
    sources = [canvas.find(ref) for ref in command.after]
    ports = len(kind.input_ports)
    if not ports and sources:
        raise Cannot(f"A {name} makes its own rows and follows nothing.")
    target = canvas.find(command.before) if command.before else None
    if ports and not sources:
        sources = canvas.sources_of(target) if target else canvas.open_end()
    if target and len(sources) > 1:
        raise Cannot(f"Several operators feed `{target}`: say between which two.")
    if len(sources) > ports and command.type != "Union":
        raise Cannot(f"A {name} takes {ports} input{'s' if ports > 1 else ''}.")
    operator_id = canvas.next_id()
    args: dict[str, Any] = {
        "operatorId": operator_id,
        "operatorType": command.type,
        "properties": command.properties,
        "summary": command.name or summary(command.type, command.properties),
    }
    if sources:
        args["inputOperatorIds"] = (
            {"0": sources} if ports == 1 else {str(i): [s] for i, s in enumerate(sources)}
        )
    calls = [Call("addOperator", args)]
    place = f" after {_listed(sources)}" if sources else ""
    if target and sources:
        rerouted = _rerouted(canvas, sources[0], target, operator_id)
        calls.append(_modify(target, inputOperatorIds=rerouted))
        place = f" between `{sources[0]}` and `{target}`"
    elif target:
        calls.append(_connected(canvas, operator_id, target))
        place = f" before `{target}`"
    what = f": {args['summary']}" if command.name or command.properties else ""
    sentence = command.sentence or f"I'll add {_a(name)}{place}{what}."
    missing = [m for m in kind.properties.get("required", ()) if m not in command.properties]
    if missing:
        sentence += f" It still needs {_listed(missing)}."
    return Move(sentence, tuple(calls))


def _rerouted(canvas: Canvas, source: str, target: str, new: str) -> Inputs:
    """The inputs of `target` with `new` where `source` was."""
    inputs = canvas.inputs_of(target)
    if not any(source in sources for sources in inputs.values()):
        raise Cannot(f"There is no link from `{source}` to `{target}` to insert into.")
    return {
        port: [new if name == source else name for name in sources]
        for port, sources in inputs.items()
    }


def _change(command: Change, canvas: Canvas) -> Move:
    operator_id = canvas.find(command.ref)
    kind = canvas.type_of(operator_id)
    properties = _changed(kind, command)
    call = _modify(operator_id, properties=properties)
    shown = canvas.operators[operator_id]
    if shown.get("summary") == summary(kind, shown.get("properties", {})):
        # The name only said what it does; a name that a person gave stays.
        properties_now = {**shown.get("properties", {}), **properties}
        call = _modify(operator_id, properties=properties, summary=summary(kind, properties_now))
    return Move(f"I'll set {_listed(properties)} of `{operator_id}`.", (call,))


def _changed(kind: str, command: Change) -> dict[str, Any]:
    """The properties to set: one by its name, or what the words after "to" say."""
    known = CATALOG.types[kind].properties["properties"] if kind in CATALOG.known else {}
    member = next((name for name in known if name.lower() == command.member.lower()), None)
    if member is not None and (value := _value(known[member], command.details)) is not None:
        return {member: value}
    try:
        if command.member.lower().removesuffix("s") not in _WHAT_IT_DOES:
            raise NotUnderstood(command.member)
        return parse_details(kind, command.details)
    except NotUnderstood:
        words = " ".join(token.text for token in command.details)
        has = f"Its properties are {_listed(known)}." if known else "I know no properties of it."
        raise Cannot(
            f'I cannot set {command.member or "anything"} of {_a(_everyday(kind))} to "{words}". '
            f"{has}"
        ) from None


def _value(schema: Mapping[str, Any], words: Sequence[Token]) -> str | int | float | bool | None:
    """The words as a value of the schema's type; None where they are none."""
    text = " ".join(token.text for token in words)
    types = schema.get("type", "string")
    types = [types] if isinstance(types, str) else types
    if "boolean" in types and text.lower() in ("true", "false", "yes", "no", "on", "off"):
        return text.lower() in ("true", "yes", "on")
    if "integer" in types and re.fullmatch(r"-?[0-9]{1,15}", text):
        return int(text)
    if "number" in types and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text):
        return float(text)
    if "string" in types:
        return next((v for v in schema.get("enum", ()) if v.lower() == text.lower()), text)
    return None


def _connect(command: Connect, canvas: Canvas) -> Move:
    source, target = canvas.find(command.source), canvas.find(command.target)
    if source == target:
        raise Cannot(f"`{source}` cannot feed itself.")
    if source in canvas.sources_of(target):
        raise Cannot(f"`{source}` feeds `{target}` already.")
    call = _connected(canvas, source, target, port=command.port)
    return Move(f"I'll connect `{source}` to `{target}`.", (call,))


def _connected(canvas: Canvas, source: str, target: str, *, port: int | None = None) -> Call:
    """A link from `source` to the port of `target`, or to its first free one."""
    kind = canvas.type_of(target)
    ports = len(CATALOG.types[kind].input_ports) if kind in CATALOG.known else 1
    if not ports:
        raise Cannot(f"`{target}` is {_a(_everyday(kind))}, which takes no input.")
    inputs = canvas.inputs_of(target)
    free = (number for number in range(ports) if str(number) not in inputs)
    chosen = port if port is not None else next(free, ports - 1)
    inputs.setdefault(str(chosen), []).append(source)
    return _modify(target, inputOperatorIds=inputs)


def _disconnect(command: Disconnect, canvas: Canvas) -> Move:
    source, target = canvas.find(command.source), canvas.find(command.target)
    inputs = canvas.inputs_of(target)
    left = {port: [s for s in sources if s != source] for port, sources in inputs.items()}
    if left == inputs:
        raise Cannot(f"There is no link from `{source}` to `{target}`.")
    left = {port: sources for port, sources in left.items() if sources}
    return Move(
        f"I'll take the link from `{source}` to `{target}` away.",
        (_modify(target, inputOperatorIds=left),),
    )


# -- words


def _received(files: Iterable[UserContent]) -> str:
    """What came of the files, as another model would have been given it."""
    lines: list[str] = []
    for part in files:
        match part:
            case BinaryContent():
                lines[-1] += f" {len(part.data)} bytes of {part.media_type}."
            case str():
                note, _, text = part.partition("\n<file>\n")
                lines.append(note.strip("[]"))
                if text:
                    body = text.removesuffix("\n</file>")
                    count = body.count("\n") + (not body.endswith("\n"))
                    lines[-1] += f" {count} line{'s' if count > 1 else ''} of text."
            case _:
                pass
    return "\n- ".join(["What came with your message:", *lines])


def _closing(commands: Iterable[Command], canvas: Canvas, turn: _Turn) -> str:
    """The last word: what was done, and what was asked to be shown."""
    shown = [_description(canvas, command.ref) for command in commands if isinstance(command, Show)]
    return "\n\n".join(part for part in (_phrases(turn.done), *shown) if part)


def _phrases(calls: Sequence[Call]) -> str:
    phrases = [phrase for call in calls if (phrase := _phrase(call))]
    return f"Done: {'; '.join(phrases)}." if phrases else ""


def _phrase(call: Call) -> str:
    name = call.args.get("operatorId")
    match call.name:
        case "addOperator":
            return f"added {_a(_everyday(str(call.args.get('operatorType'))))}, `{name}`"
        case "modifyOperator":
            match sorted(call.args.keys() - {"operatorId"}):
                case ["summary"]:
                    return f'called `{name}` "{call.args["summary"]}"'
                case ["inputOperatorIds"]:
                    return f"changed the inputs of `{name}`"
                case _:
                    return f"changed `{name}`"
        case "deleteOperator":
            return f"deleted `{name}`"
        case _:
            return ""


def _description(canvas: Canvas, ref: Ref | None) -> str:
    if ref is None:
        if not canvas.operators:
            return "The canvas is empty."
        return "\n".join(f"- {_line(canvas, name)}" for name in canvas.operators)
    name = canvas.find(ref)
    properties = orjson.dumps(canvas.operators[name].get("properties", {})).decode()
    return f"{_line(canvas, name)}\n\n```json\n{properties}\n```"


def _line(canvas: Canvas, name: str) -> str:
    sources = canvas.sources_of(name)
    fed = f", fed by {_listed(sources)}" if sources else ""
    title = canvas.operators[name].get("summary") or ""
    return f"`{name}`: {_a(_everyday(canvas.type_of(name)))}{fed}{f' ({title})' if title else ''}"


def _everyday(kind: str) -> str:
    return NAMES[kind][0] if kind in NAMES else kind


def _listed(names: Iterable[str], last: str = "and") -> str:
    quoted = [f"`{name}`" for name in names]
    return f" {last} ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def summary(kind: str, properties: Mapping[str, Any]) -> str:
    """What an operator does, as short as a name on the canvas must be."""
    try:
        return _summary(kind, properties)[:80]
    except (LookupError, TypeError, AttributeError):
        # Properties that a person or a file left in another shape than the grammar's.
        return _capital(_everyday(kind))


def _summary(kind: str, p: Mapping[str, Any]) -> str:
    match kind:
        case "CSVFileScan":
            return f"Load {p['fileName'].rpartition('/')[2]}"
        case "Filter":
            return "Keep " + " or ".join(
                " ".join(str(v) for k in ("attribute", "condition", "value") if (v := one.get(k)))
                for one in p["predicates"]
            )
        case "Projection":
            return f"Columns {', '.join(p['attributes'])}"
        case "TypeCasting":
            return ", ".join(
                f"{u['attribute']} to {u['resultType']}" for u in p["typeCastingUnits"]
            )
        case "Sort":
            return "Sort by " + ", ".join(
                key["attribute"] + (" descending" if key.get("sortPreference") == "DESC" else "")
                for key in p["attributes"]
            )
        case "Limit":
            return f"First {p['limit']} rows"
        case "KeywordSearch":
            return f"{p['keyword']} in {p['attribute']}"
        case "HashJoin":
            left, right = p["buildAttributeName"], p["probeAttributeName"]
            return f"Join on {left}" if left == right else f"Join on {left} = {right}"
        case "Aggregate":
            made = ", ".join(f"{a['aggFunction']} of {a['attribute']}" for a in p["aggregations"])
            keys = p.get("groupByKeys")
            return _capital(made + (f" by {', '.join(keys)}" if keys else ""))
        case "LineChart":
            return _capital(", ".join(f"{line['y']} by {line['x']}" for line in p["lines"]))
        case "BarChart":
            return _capital(f"{p['value']} by {p['fields']}")
        case "PieChart":
            return _capital(f"{p['value']} by {p['name']}")
        case "Scatterplot":
            return _capital(f"{p['yColumn']} by {p['xColumn']}")
        case "Histogram":
            return f"Histogram of {p['value']}"
        case "WordCloud":
            return f"Words of {p['textColumn']}"
        case _:
            return _capital(_everyday(kind))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
