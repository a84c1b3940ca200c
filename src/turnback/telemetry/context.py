"""Which request, command, session and turn is being worked on: the ids that every line bears.

One context variable with one mapping, so that handing it from a request to the task that carries
out its command costs a look-up. Ids alone may be bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType

Ids = Mapping[str, str]

NONE: Ids = MappingProxyType({})

_ids: ContextVar[Ids] = ContextVar("turnback.ids", default=NONE)


def ids() -> Ids:
    """What is bound here."""
    return _ids.get()


def enter(bound: Ids) -> None:
    """From now on, in this task and those it starts, exactly `bound`."""
    _ids.set(bound)


def bind(**more: str) -> None:
    """From now on, in this task and those it starts, `more` too."""
    _ids.set({**_ids.get(), **more})
