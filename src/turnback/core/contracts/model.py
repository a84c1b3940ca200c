"""The one declarative model of a contract, whichever front it came through (undo.md 1).

What each part means is said here, what contradicts itself in `checks.py`, how it is carried out in
`states.py`, `choose.py` and `answers.py`. A contract says of one tool all that is known of it; the
resources of its server stand in it too, so that it can be read, hashed and stored by itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from turnback.core.contracts import templates
from turnback.core.contracts.pointers import pattern
from turnback.core.effects import EffectClass
from turnback.core.errors import ContractRefused
from turnback.core.values import shown

MAX_PARTS = 100  # resources, cases, calls or conditions in one place
MAX_HOLD = 86_400  # seconds that a call may be held back
MAX_SECONDS = 10 * 365 * 86_400  # seconds that anything else may take


def _parsed(template: object) -> Any:
    return _refused(lambda: templates.parsed(template))


def _pattern(text: str) -> str:
    return str(_refused(lambda: pattern(text)))


def _refused(make: Any) -> Any:
    # pydantic keeps a ValueError with its place in the contract; `parse` makes one refusal of all.
    try:
        return make()
    except ContractRefused as error:
        raise ValueError(error.message) from None


Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]
"""A kind, a member of a key, a part of a state, a scope."""

ToolName = Annotated[str, Field(min_length=1, max_length=200)]
Template = Annotated[Any, BeforeValidator(_parsed)]
Pattern = Annotated[str, Field(max_length=1_000), AfterValidator(_pattern)]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]

Named = Annotated[dict[Name, Template], Field(max_length=MAX_PARTS)]
Templates = Annotated[tuple[Template, ...], Field(max_length=MAX_PARTS)]


class Part(BaseModel):
    """A part of a contract: what is not named here is refused, and nothing is changed later."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Condition(Part):
    """What must hold; of several members all. It is not known while a pointer of it is not.

    `exists` and `empty`: the pointer finds something, or nothing. `equal` and `differ`: two
    templates. `unreadable`: a resource of one of these kinds could not be read before.
    """

    exists: Template = None
    empty: Template = None
    equal: tuple[Template, Template] | None = None
    differ: tuple[Template, Template] | None = None
    unreadable: tuple[Name, ...] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        if not self.model_fields_set:
            raise ValueError(
                "a condition needs `exists`, `empty`, `equal`, `differ` or `unreadable`"
            )
        for name in ("exists", "empty"):
            given = getattr(self, name)
            if name in self.model_fields_set and not (
                isinstance(given, dict) and ({"$", "$1"} & given.keys())
            ):
                raise ValueError(f"`{name}` takes a pointer")
        return self


class ReadCall(Part):
    """The call that reads a resource: its arguments come from the key alone.

    `error_is`: a failing read whose text has the pattern means that the resource is `absent`.
    `absent_if`: an answer of which this holds means it too. `error_if`: an answer of which this
    holds is a failure, whatever it calls itself: prose that says sorry, a page of several.
    """

    call: ToolName
    args: Named = {}
    error_is: dict[Literal["absent"], Pattern] = {}
    absent_if: Condition | None = None
    error_if: Condition | None = None


class ById(Part):
    """A list whose elements are known by a member, not by their place."""

    by: Name


Mode = Literal["exact", "set"] | ById


def _compare(given: object) -> object:
    modes = given.values() if isinstance(given, dict) and set(given) != {"by"} else [given]
    for mode in modes:
        if mode not in ("exact", "set") and not (isinstance(mode, dict) and set(mode) == {"by"}):
            raise ValueError(
                "it is `exact`, `set` or `{by: member}`, for all parts or for each part by its name"
            )
    return given


Compare = Annotated[Mode | dict[Name, Mode], BeforeValidator(_compare)]


class Touches(Part):
    """Resources by their keys: a kind and, for each member of its key, where it comes from.

    Written `{kind: {member: template}}`, with `for_each` beside the kind for one resource per
    value. One member may be a `{$: path}`: a resource for each value found.
    """

    kind: Name
    key: Named
    for_each: Template = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "kind" in given:
            return given
        rest = dict(given)
        each = rest.pop("for_each", None)
        if len(rest) != 1:
            raise ValueError("resources are written `{kind: {member: pointer}}`, one kind each")
        kind, key = next(iter(rest.items()))
        return {"kind": kind, "key": key, "for_each": each}


Resources = Annotated[tuple[Touches, ...], Field(max_length=MAX_PARTS)]


class Resource(Part):
    """A kind of thing in the world.

    `key` names the members of its key; `read` is how it is read, from which `state` takes the
    parts that are compared and `keep` those that are only kept for inverses. `compare`, for all
    parts or for each: `exact` (the default), `set`, or `{by: member}` for a list by id. `lossy`: a
    text that has this has lost something, and is not a before-state. `canonical`: from the answer,
    the key under which the thing is one, whatever it was called. `inside`: what it lies in;
    `children`: from the answer, what lies in it. `secret`: parts that are nobody's to see.
    `identity`: parts of the state that tell it from another one made again under its key.
    """

    key: tuple[Name, ...]
    read: ReadCall | None = None
    state: Named = {}
    keep: Named = {}
    compare: Compare = "exact"
    lossy: str | None = Field(default=None, min_length=1, max_length=100)
    canonical: Named | None = None
    inside: Resources = ()
    children: Resources = ()
    secret: tuple[Name, ...] = ()
    identity: tuple[Name, ...] = ()

    def mode(self, part: str) -> Mode:
        """How a part of the state is compared."""
        if isinstance(self.compare, dict):
            return self.compare.get(part, "exact")
        return self.compare


class Key(Part):
    """Where the idempotency key goes, and for how long the vendor honours it, in seconds."""

    arg: Name | None = None
    meta: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    header: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    honoured: Seconds

    @model_validator(mode="after")
    def _goes_somewhere(self) -> Key:
        if sum(place is not None for place in (self.arg, self.meta, self.header)) != 1:
            raise ValueError("a key goes to one place: `arg`, `meta` or `header`")
        return self


class InverseCall(Part):
    """A call of the same server, with arguments from what was observed and from the result.

    `for_each`: once for each value, which is `item`. `skip`: left out where this holds.
    `if_match`: arguments from the answer of the last read before it is sent, so that the vendor
    itself refuses it when the thing has changed since. `key`: where its idempotency key goes;
    without it, where the called tool's own contract says.
    """

    call: ToolName
    args: Annotated[Template, Field(default={})]
    for_each: Template = None
    skip: Condition | None = None
    if_match: Named = {}
    key: Key | None = None


class CancelCall(Part):
    """A vendor's own window in which a call can be taken back before it takes effect.

    `until`: seconds after the call, or where the result says when (ms or s since the epoch, or
    ISO 8601). `confirmed`: what of the cancelling call's `result` proves that it was in time.
    `key`: as in an inverse.
    """

    call: ToolName
    args: Annotated[Template, Field(default={})]
    until: Seconds | Template
    confirmed: Condition
    key: Key | None = None


KeyedCall = TypeVar("KeyedCall", InverseCall, CancelCall)


def _keyed(call: KeyedCall, keys: Mapping[str, Key]) -> KeyedCall:
    if call.key is not None or call.call not in keys:
        return call
    return call.model_copy(update={"key": keys[call.call]})


class Settles(Part):
    """When a residue is settled: seconds after, or where the result says when.

    `when`: what of `now`, the first resource read again, shows that it is.
    """

    at: Seconds | Template
    when: Condition | None = None


class Agentic(Part):
    """A compensation by an agent: which tools, what it is told, and within which bounds."""

    tools: tuple[ToolName, ...] = Field(min_length=1, max_length=MAX_PARTS)
    prompt: str = Field(min_length=1, max_length=10_000)
    calls: int = Field(ge=1, le=100)
    tokens: int = Field(ge=1, le=10_000_000)
    seconds: Seconds


class Case(Part):
    """What holds of a call for which `when` does; the first case that does counts.

    `inverse`: the calls that put things back, in their order. `residue`: the template that says
    what is left. `narrow`: the inverse writes only the leaves that differ from its goal.
    `not_kept`: what it does not bring back, in words. `covers`: resources that it puts back too.
    `needs`: resources without which the inverse cannot be made. `notifies`: whom the call tells.
    `verify`: for a compensation, what must hold of `now` and of the inverse's `result` after it.
    """

    class_: EffectClass = Field(alias="class")
    when: Condition | None = None
    inverse: Annotated[tuple[InverseCall, ...], Field(max_length=MAX_PARTS)] = ()
    residue: Name | None = None
    narrow: bool = False
    not_kept: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    covers: Resources = ()
    needs: Resources = ()
    notifies: Templates = ()
    cancel: CancelCall | None = None
    settles: Settles | None = None
    verify: Condition | None = None
    agentic: Agentic | None = None

    def keyed(self, keys: Mapping[str, Key]) -> Case:
        """The case, its calls with the keys of the tools that they call, unless it says others."""
        parts: dict[str, Any] = {}
        inverse = tuple(_keyed(call, keys) for call in self.inverse)
        if inverse != self.inverse:
            parts["inverse"] = inverse
        if self.cancel is not None and (cancel := _keyed(self.cancel, keys)) != self.cancel:
            parts["cancel"] = cancel
        return self.model_copy(update=parts) if parts else self


class Find(Part):
    """How a doubt is settled: a look-up of what the call would have made, by key or content.

    `found`: of the answer, which is `now`, the things that this call made; `key` is the call's
    idempotency key. None: it did not take effect, once `after` seconds have gone by. One: it did,
    and `result` is what it would have said, from `item`, the thing found. More: still in doubt.
    """

    call: ToolName
    args: Named = {}
    found: Template
    result: Template = None
    after: Annotated[float, Field(ge=0, le=MAX_SECONDS)] = 0


class Contract(Part):
    """What one tool declares of itself.

    `touches`: the resources of a call, from its arguments; `makes`: those that it brings into
    being and whose key only its result names. `unchanged`: a success that changed nothing;
    `refused`: a failure that changed nothing. `error_if`: a success that is a failure. `hold`:
    seconds between the commit of the intent and the sending, in which a cancel is a true one.
    `one_at_a_time`: scopes of which no two calls are under way. `secret`: pointers to arguments
    and results that are nobody's to see. `max_before`: bytes of a before-state beyond which it is
    not kept. `names`: what a person may be shown of the call in a draft (subject, date, amount;
    never a body). `at_least`: the mildest class of its calls that are no reads, whatever their
    case says.
    """

    resources: dict[Name, Resource] = {}
    touches: Resources = ()
    makes: Resources = ()
    cases: Annotated[tuple[Case, ...], Field(max_length=MAX_PARTS)] = ()
    unchanged: Condition | None = None
    refused: Condition | None = None
    error_if: Condition | None = None
    find: Find | None = None
    hold: Annotated[float, Field(gt=0, le=MAX_HOLD)] | None = None
    one_at_a_time: Templates = ()
    key: Key | None = None
    secret: Templates = ()
    max_before: int | None = Field(default=None, ge=1)
    notifies: Templates = ()
    names: Named = {}
    at_least: EffectClass = EffectClass.READ

    @property
    def only_reads(self) -> bool:
        """Whether it says that no call of its tool changes anything."""
        return bool(self.cases) and all(case.class_ is EffectClass.READ for case in self.cases)

    def keyed(self, keys: Mapping[str, Key]) -> Contract:
        """The contract, its inverses with the keys that their tools honour, by tool.

        So it is hashed and stored: what was known of them when a call was made holds for its undo.
        """
        cases = tuple(case.keyed(keys) for case in self.cases)
        return self if cases == self.cases else self.model_copy(update={"cases": cases})


P = TypeVar("P", bound=Part)

UNDECLARED = Contract()
"""What a tool without a contract has: no case, and so every call of it is irreversible."""

READ_ONLY = Contract(cases=(Case(class_=EffectClass.READ),))
"""The contract of a tool that changes nothing."""


def parse(given: object, *, of: str) -> Contract:
    """The contract that JSON, or a dict with Python pointers, says; `of` is whose it is.

    Raises `ContractRefused` for what is not of the model; contradictions are for `checks.py`.
    """
    return parse_as(Contract, given, of=of)


def parse_as(model: type[P], given: object, *, of: str) -> P:
    """Any part of the model from JSON; raises `ContractRefused` with the place and the reason."""
    if isinstance(given, model):
        return given
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"] if step != "[key]")
        where = f"at `{shown(place)}`, " if place else ""
        raise ContractRefused(f"The contract of `{shown(of)}`: {where}{_reason(first)}") from None


def _reason(error: ErrorDetails) -> str:
    """What is wrong at one place, and what to do."""
    name = str(error["loc"][-1]) if error["loc"] else ""
    match error["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(name, _parts(), n=1)
            return f"there is no part `{shown(name)}`" + (f": perhaps `{near[0]}`" if near else "")
        case "missing":
            return f"`{name}` is missing: say it"
        case "tuple_type":
            return "Input should be a list, `[…]`"
        case "model_type" | "model_attributes_type" | "dict_type":
            return "Input should be an object, `{…}`"
        case _:
            return shown(error["msg"].removeprefix("Value error, "), limit=500)


@lru_cache(maxsize=1)
def _parts() -> frozenset[str]:
    """The names of all parts of all parts."""
    fields = (field for part in Part.__subclasses__() for field in part.model_fields.items())
    return frozenset(field.alias or name for name, field in fields)
