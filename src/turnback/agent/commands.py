"""What a sentence asks for: the commands of the offline model's language (grammar.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from turnback.agent.vocabulary import Token

Json = dict[str, Any]


class NotUnderstood(Exception):
    """The sentence is none of the language's; `words` is where it stopped making sense."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


@dataclass(frozen=True, slots=True)
class Ref:
    """What a sentence calls an operator. `type` is set when the words are also a type's name."""

    text: str
    type: str | None = None
    newest: bool = False  # of its type, or at all
    made: int = 0  # counted back from the newest that this turn made; -1 is that one

    def __str__(self) -> str:
        return self.text


IT = Ref("it")


@dataclass(frozen=True, slots=True)
class Add:
    type: str
    properties: Json = field(default_factory=dict)
    name: str = ""
    after: tuple[Ref, ...] = ()  # sources, one for each input port; none: the newest operator
    before: Ref | None = None  # insert into the link to this: from the one source, or the only one
    sentence: str = ""  # what to say about it; none: what it is


@dataclass(frozen=True, slots=True)
class Delete:
    refs: tuple[Ref, ...]  # none: everything


@dataclass(frozen=True, slots=True)
class Change:
    """`member` is a property's name, or "". `details` is what follows "to"."""

    ref: Ref
    member: str
    details: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Rename:
    ref: Ref
    name: str


@dataclass(frozen=True, slots=True)
class Connect:
    source: Ref
    target: Ref
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Disconnect:
    source: Ref
    target: Ref


@dataclass(frozen=True, slots=True)
class Show:
    ref: Ref | None = None


Command = Add | Delete | Change | Rename | Connect | Disconnect | Show
