"""What an answer says of a call: a failure, no change, a cancel in time, what was found, and when.

What cannot be made out is never the better of two (undo.md 1, 2).
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass

from turnback.core.contracts import conditions
from turnback.core.contracts.choose import Args, Before, arguments, document
from turnback.core.contracts.model import Condition, Contract, Template
from turnback.core.contracts.pointers import Document
from turnback.core.contracts.templates import resolved
from turnback.core.effects import Call, Json
from turnback.core.errors import Unresolved


def is_confirmed(call: Call, answer: Json) -> bool:
    """Whether the answer to a cancel proves that it was in time."""
    if call.confirmed is None:
        return False
    condition = Condition.model_validate(dict(call.confirmed))
    return (
        conditions.holds(condition, Document({"result": answer, "args": dict(call.args)})) is True
    )


def is_error(contract: Contract, args: Args, *, is_error: bool, answer: Json) -> bool:
    """Whether a reply is a failure: its flag, its body's `error`, or the contract's `error_if`."""
    if is_error or conditions.says_error(answer):
        return True
    at = document(contract, args, None, answer)
    return contract.error_if is not None and conditions.holds(contract.error_if, at) is True


def is_unchanged(contract: Contract, args: Args, before: Before, result: Json) -> bool:
    """Whether a success changed nothing, as the contract can tell."""
    if contract.unchanged is None:
        return False
    return conditions.holds(contract.unchanged, document(contract, args, before, result)) is True


def is_refused(contract: Contract, args: Args, before: Before, result: Json) -> bool:
    """Whether the contract knows a failure for one that changed nothing."""
    if contract.refused is None or result is None:
        return False
    return conditions.holds(contract.refused, document(contract, args, before, result)) is True


def is_verified(condition: Condition, args: Args, *, now: Json, result: Json) -> bool | None:
    """Whether a compensation did what its contract says; None where it cannot be told."""
    return conditions.holds(condition, Document({"args": dict(args), "now": now, "result": result}))


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The call surely did not take effect."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The call took effect; `result` is what it would have said, None where that is not known."""

    result: Json = None


@dataclass(frozen=True, slots=True)
class StillInDoubt:
    """Nobody can tell yet; `reason` is a part of a sentence."""

    reason: str


Found = NotApplied | Applied | StillInDoubt


def find_call(contract: Contract, args: Args, key: str) -> Call | None:
    """The look-up that settles a doubt, None where there is none; raises `Unresolved`."""
    if contract.find is None:
        return None
    at = Document({"args": dict(args), "key": key})
    return Call(contract.find.call, arguments(contract.find.args, at))


def found(contract: Contract, args: Args, key: str, answer: Json, *, since: float) -> Found:
    """What the answer to the look-up says, `since` seconds after the call was sent."""
    find = contract.find
    if find is None:
        return StillInDoubt("its contract has no look-up")
    at = Document({"args": dict(args), "key": key, "now": answer})
    try:
        matches = resolved(find.found, at)
        matches = matches if isinstance(matches, list) else [matches]
        if not matches and since < find.after:
            return StillInDoubt("it may still come to be seen")
        if not matches:
            return NotApplied()
        if len(matches) > 1:
            return StillInDoubt("more than one thing is as it would have made it")
        if find.result is None:
            return Applied()
        return Applied(resolved(find.result, at.having(item=matches[0])))
    except Unresolved as error:
        return StillInDoubt(error.message)


_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,]\d+)?(Z|z|[+-]\d\d:?\d\d)?")
_MS_FROM = 10**11  # a number as large as this counts milliseconds: in seconds it is the year 5138


def moment(at: float | Template, args: Args, result: Json, *, sent: int) -> int | None:
    """When something is, in ms since the epoch: seconds after `sent` (ms), or as the result says.

    None where it does not say so in a number or in ISO 8601.
    """
    if isinstance(at, int | float):
        return sent + round(at * 1_000)
    try:
        value = resolved(at, Document({"args": dict(args), "result": result}))
    except Unresolved:
        return None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return round(value if value >= _MS_FROM else value * 1_000)
    said = _ISO.fullmatch(value) if isinstance(value, str) else None
    if said is None:
        return None
    *date, zone = said.groups()
    seconds = calendar.timegm(tuple(map(int, date)))
    if zone and zone not in "Zz":
        offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    return seconds * 1_000
