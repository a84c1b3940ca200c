"""Conditions: whether something holds of a document, or is not known yet (undo.md 1)."""

from __future__ import annotations

from turnback.core.contracts.equality import same
from turnback.core.contracts.model import Condition
from turnback.core.contracts.pointers import Document, Pointer, compiled
from turnback.core.contracts.templates import Template, pointers, resolved
from turnback.core.effects import Json
from turnback.core.errors import Unresolved


def holds(condition: Condition, document: Document) -> bool | None:
    """Whether all that the condition says holds; None where it cannot be said.

    False as soon as one part of it is known not to hold.
    """
    verdicts = [
        verdict
        for verdict in (
            _exists(condition.exists, document, wanted=True),
            _exists(condition.empty, document, wanted=False),
            _equal(condition.equal, document, wanted=True),
            _equal(condition.differ, document, wanted=False),
            _unreadable(condition.unreadable, document),
        )
        if verdict is not _NOT_ASKED
    ]
    if False in verdicts:
        return False
    return None if None in verdicts else True


_NOT_ASKED = "not asked"
Verdict = bool | str | None


def _exists(template: Template, document: Document, *, wanted: bool) -> Verdict:
    if template is None:
        return _NOT_ASKED
    pointer = compiled(template.get("$") or template["$1"])
    try:
        return bool(pointer.find(document)) is wanted
    except Unresolved:
        return None


def _equal(sides: tuple[Template, Template] | None, document: Document, *, wanted: bool) -> Verdict:
    if sides is None:
        return _NOT_ASKED
    if any(pointer.unknown(document) for side in sides for pointer in pointers(side)):
        return None
    try:
        one, other = (resolved(side, document) for side in sides)
    except Unresolved as error:
        return None if "limit" in error.data else not wanted  # what is not there equals nothing
    return same(one, other) is wanted


def _unreadable(kinds: tuple[str, ...] | None, document: Document) -> Verdict:
    if kinds is None:
        return _NOT_ASKED
    if "before" not in document.members:
        return None
    return bool(document.unreadable & set(kinds))


def asked(condition: Condition) -> list[Pointer]:
    """Every pointer of a condition."""
    sides = [*(condition.equal or ()), *(condition.differ or ())]
    return [
        pointer
        for template in (condition.exists, condition.empty, *sides)
        if template is not None
        for pointer in pointers(template)
    ]


def says_error(answer: Json) -> bool:
    """Whether the body of a success is an error: "`{"error": …}` is a failure" (undo.md 2)."""
    return isinstance(answer, dict) and answer.get("error") not in (None, False, "", [], {})
