"""The offline model's small language: a sentence in, the commands it asks for out.

Deterministic, and independent of any workflow: which operator "the filter" is, is for offline.py.
A word that no rule takes is refused by name; nothing is skipped in silence.

    sentence  = command { ("then" | "and then" | ";" | "." | "and" VERB …) command }
    add       = ("add" | "create" | "insert" …) TYPE
                { detail | "after" REF | "before" REF | "between" REF "and" REF | "called" NAME }
    shorthand = "filter" … | "keep the first N rows" | "keep only columns A, B" | "sort by A" | …
    delete    = ("delete" | "remove" …) REF { "," REF }
    change    = ("change" | "set" …) REF ("to" detail | PROPERTY "to" VALUE)
    rename    = "rename" REF "to" NAME
    connect   = ("connect" | "link") REF "to" REF ["port" N]       disconnect = … "from" REF
    show      = ("show" | "list" | "describe" …) [REF]
    build     = ("build" | "make") RECIPE
    REF       = an id | a type's everyday name | "it" | "the last …" | a name in quotes
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from turnback.agent.commands import (
    IT,
    Add,
    Change,
    Command,
    Connect,
    Delete,
    Disconnect,
    Json,
    NotUnderstood,
    Ref,
    Rename,
    Show,
)
from turnback.agent.recipes import RECIPES
from turnback.agent.vocabulary import (
    ADD,
    ARTICLES,
    BEFORE,
    BEHIND,
    BEHIND_A_VERB,
    BUILD,
    CASTS,
    CHANGE,
    COMPARISONS,
    CONNECT,
    DELETE,
    DISCONNECT,
    FUNCTIONS,
    HAVE_SUBJECT,
    INTRODUCE,
    JOINS,
    PLAIN_VERBS,
    RENAME,
    SHOW,
    SIGNS,
    TYPE_WORDS,
    VERBS,
    Token,
    tokens,
)


def parse(sentence: str) -> list[Command]:
    """The commands of a sentence, in order. Raises `NotUnderstood`."""
    commands = [
        command for clause in _clauses(tokens(sentence)) for command in _Clause(clause).commands()
    ]
    if not commands:
        raise NotUnderstood(sentence)
    return commands


def parse_details(kind: str, words: Sequence[Token]) -> Json:
    """The properties that these words give an operator of this type. Raises `NotUnderstood`."""
    clause = _Clause(words)
    details = clause.details(kind)
    clause.end()
    return details


def _clauses(words: Sequence[Token]) -> Iterator[list[Token]]:
    clause: list[Token] = []
    for index, token in enumerate(words):
        following = [word.lower for word in words[index + 1 : index + 3]] + ["", ""]
        ends = token.lower in (";", ".", "then") or (
            token.lower in ("and", ",")
            and (
                following[0] in PLAIN_VERBS
                or (following[0] in VERBS and following[1] in BEHIND_A_VERB)
            )
        )
        if not ends:
            clause.append(token)
        elif trimmed := _trimmed(clause):
            yield trimmed
            clause = []
    if trimmed := _trimmed(clause):
        yield trimmed


def _trimmed(clause: list[Token]) -> list[Token]:
    """The clause without the politeness around it."""
    lower = [token.lower for token in clause]
    first = 0
    while phrase := next((p for p in BEFORE if lower[first : first + len(p)] == p), None):
        first += len(phrase)
    lower = lower[first:]
    while phrase := next((p for p in BEHIND if lower[-len(p) :] == p), None):
        lower = lower[: -len(phrase)]
    return clause[first : first + len(lower)]


class _Clause:
    """A parser over the words of one command."""

    def __init__(self, words: Sequence[Token]) -> None:
        self._words = words
        self._at = 0

    # -- words

    @property
    def done(self) -> bool:
        return self._at >= len(self._words)

    def fail(self) -> NotUnderstood:
        rest = self._words[self._at :] or self._words
        return NotUnderstood(" ".join(token.text for token in rest)[:80])

    def lower(self, ahead: int = 0) -> str:
        """A word further on, or "" at the end and for quoted text."""
        at = self._at + ahead
        return self._words[at].lower if at < len(self._words) else ""

    def take(self, *phrases: str) -> bool:
        """Take the first of these phrases that comes next."""
        for phrase in phrases:
            words = phrase.split()
            if all(self.lower(index) == word for index, word in enumerate(words)):
                self._at += len(words)
                return True
        return False

    def expect(self, *phrases: str) -> None:
        if not self.take(*phrases):
            raise self.fail()

    def word(self) -> str:
        """Any word, number or quoted text."""
        if self.done or self.lower() in SIGNS:
            raise self.fail()
        self._at += 1
        return self._words[self._at - 1].text

    def words(self) -> list[str]:
        """One or more, as in `a, b and c`."""
        found = [self.word()]
        while self.take(", and", ",", "and"):
            found.append(self.word())
        return found

    def number(self) -> int:
        if not re.fullmatch(r"[0-9]{1,15}", self.lower()):
            raise self.fail()
        return int(self.word())

    def rest(self) -> tuple[Token, ...]:
        if self.done:
            raise self.fail()
        words = tuple(self._words[self._at :])
        self._at = len(self._words)
        return words

    def end(self) -> None:
        if not self.done:
            raise self.fail()

    # -- operators

    def type_name(self) -> str | None:
        for words, kind in TYPE_WORDS:
            if self.take(words, words + "s"):
                return kind
        return None

    def ref(self) -> Ref:
        if self.take("it", "that", "this"):
            return IT
        self.take("the")
        newest = self.take("last", "newest", "latest")
        start = self._at
        if kind := self.type_name():
            text = " ".join(token.text for token in self._words[start : self._at])
            self.take("operator")
            return Ref(text, kind, newest=newest)
        if newest:
            self.expect("one", "operator")
            return Ref("the newest operator", newest=True)
        self.take("operator", "node")
        return Ref(self.word().removesuffix("'s"))

    def refs(self) -> tuple[Ref, ...]:
        found = [self.ref()]
        while self.take(", and", ",", "and"):
            found.append(self.ref())
        return tuple(found)

    # -- commands

    def commands(self) -> list[Command]:
        """The commands of the clause; a recipe is several, and so are conditions with `and`."""
        if self.take("remove duplicates", "drop duplicates", "deduplicate"):
            return self.adds("Distinct")
        if self.take(*ADD):
            return self.recipe() or self.add()
        if self.take(*BUILD):
            return self.recipe() or self.add()
        if self.take(*DELETE):
            every = self.take("everything", "all operators", "all the operators", "all")
            command: Command = Delete(() if every else self.refs())
        elif self.take(*CHANGE):
            command = self.change()
        elif self.take(*RENAME):
            ref = self.ref()
            self.take("to")
            command = Rename(ref, _plain(self.rest()))
        elif self.take(*CONNECT):
            command = self.connect()
        elif self.take(*DISCONNECT):
            source = self.ref()
            self.expect("from", "and", "to")
            command = Disconnect(source, self.ref())
        elif self.take(*SHOW):
            command = self.show()
        else:
            return self.shorthand()
        self.end()
        return [command]

    def recipe(self) -> list[Command]:
        start = self._at
        self.take("me")
        self.take(*ARTICLES)
        for name, commands in RECIPES.items():
            if self.take(name):
                self.end()
                return list(commands)
        self._at = start
        return []

    def add(self) -> list[Command]:
        self.take("me")
        self.take(*ARTICLES)
        kind = self.type_name()
        if kind is None:
            raise self.fail()
        self.take("operator", "node")
        return self.adds(kind)

    def shorthand(self) -> list[Command]:
        """Verbs that name what the new operator does."""
        if self.take("keep"):
            return self.adds(self.kept(), details_first=True)
        if self.take("load", "read", "import"):
            return self.adds("CSVFileScan", details_first=True)
        if self.lower() in FUNCTIONS:
            return self.adds("Aggregate", details_first=True)
        for verb, kind in VERBS.items():
            if self.take(verb):
                if kind in JOINS:
                    return self.adds(kind, after=self.pair())
                after = self.subject() if kind in HAVE_SUBJECT else ()
                return self.adds(kind, after=after, details_first=True)
        raise self.fail()

    def kept(self) -> str:
        """What `keep …` keeps: the first rows, some columns, or the rows where something holds."""
        while self.take("only", "the"):
            pass
        if self.take("first", "top"):
            return "Limit"
        if self.take("columns", "column"):
            return "Projection"
        self.take("rows")
        return "Filter"

    def subject(self) -> tuple[Ref, ...]:
        """What a verb works on, if that is said: `sort op2 by …`, but `filter amount > 100`."""
        if self.take("the rows", "rows", "the data") or self.lower() in INTRODUCE or self.done:
            return ()
        start = self._at
        ref = self.ref()
        if self.lower() in INTRODUCE:
            return (ref,)
        self._at = start
        return ()

    def pair(self) -> tuple[Ref, Ref]:
        first = self.ref()
        self.expect("and", "with", "to")
        return first, self.ref()

    def adds(
        self, kind: str, *, after: tuple[Ref, ...] = (), details_first: bool = False
    ) -> list[Command]:
        """The rest of the clause, for a new operator of this type.

        Conditions joined by `and` are one Filter after another, since the predicates of one Filter
        are joined by `or`.
        """
        before: Ref | None = None
        name = ""
        details: list[Json] = [self.details(kind)] if details_first and not self.done else []
        while not self.done:
            if self.take("after", "behind", "following"):
                after = self.refs()
            elif self.take("before"):
                before = self.ref()
            elif target := self.added_to():
                after = (target,)
            elif kind in JOINS and self.take("of", "from", "between"):
                after = self.pair()
            elif self.take("between"):
                first = self.ref()
                self.expect("and")
                after, before = (first,), self.ref()
            elif self.take("called", "named"):
                name = self.word()
            elif kind == "Filter" and details and self.take("and"):
                details.append(self.details(kind))
            elif not details:
                details = [self.details(kind)]
            else:
                raise self.fail()
        if len(details) > 1 and before:
            raise NotUnderstood("and")
        first_details, *further = details or [{}]
        commands: list[Command] = [Add(kind, first_details, name, after, before)]
        return commands + [Add(kind, more, name, (IT,)) for more in further]

    def added_to(self) -> Ref | None:
        """`to op2` or `to the filter`; but in `limit to 10` what follows is no operator."""
        start = self._at
        if self.take("to"):
            if self.lower() in ("it", "that", "this") or re.fullmatch(r"op[0-9]+", self.lower()):
                return self.ref()
            if self.take("the") and self.type_name():
                self._at = start + 1
                return self.ref()
        self._at = start
        return None

    def change(self) -> Command:
        self.take("the")
        member = ""
        if self.lower(1) in ("of", "on", "in"):
            member = self.word()
            self.take("of", "on", "in")
            ref = self.ref()
        else:
            ref = self.ref()
            if self.lower() not in ("to", "="):
                member = self.word()
        self.expect("to", "=")
        if member.lower() in ("name", "title", "summary"):
            return Rename(ref, _plain(self.rest()))
        return Change(ref, member, self.rest())

    def connect(self) -> Connect:
        source = self.ref()
        self.expect("to", "with", "and", "into", "->", "-->")
        target = self.ref()
        port = self.number() if self.take("at port", "on port", "to port", "port") else None
        return Connect(source, target, port)

    def show(self) -> Show:
        self.take("me", "in", "on")
        self.take("all")
        self.take("the")
        if self.done or self.take("canvas", "workflow", "operators", "everything", "there"):
            return Show()
        return Show(self.ref())

    # -- details: what is said of a new operator, or after "change … to"

    def details(self, kind: str) -> Json:
        """The properties that come next. A word may introduce them: `on`, `by`, `of`, …"""
        self.take(*INTRODUCE)
        match kind:
            case "CSVFileScan":
                self.take("the")
                self.take("csv")
                self.take("file")
                return {"fileName": self.word()}
            case "TextInput":
                return {"textInput": self.word()}
            case "Filter":
                predicates = [self.condition()]
                while self.take("or"):
                    predicates.append(self.condition())
                return {"predicates": predicates}
            case "Projection":
                self.take("only")
                self.take("the")
                self.take("columns", "column")
                return {"attributes": self.words()}
            case "TypeCasting":
                units = [self.cast()]
                while self.take(", and", ",", "and"):
                    units.append(self.cast())
                return {"typeCastingUnits": units}
            case "Sort":
                self.take("by")
                keys = [self.sort_key()]
                while self.take(", then by", ", and", ",", "and"):
                    keys.append(self.sort_key())
                return {"attributes": keys}
            case "Limit":
                self.take("the first", "first")
                limit = self.number()
                self.take("rows", "row")
                return {"limit": limit}
            case "KeywordSearch":
                keyword = self.word()
                self.expect("in")
                return {"attribute": self.word(), "keyword": keyword}
            case "HashJoin":
                left = self.word()
                right = self.word() if self.take("=", "==") else left
                return {"buildAttributeName": left, "probeAttributeName": right}
            case "Aggregate":
                return self.aggregation()
            case "LineChart":
                y, x = self.by()
                return {"lines": [{"y": y, "x": x}]}
            case "BarChart":
                value, fields = self.by()
                return {"value": value, "fields": fields}
            case "PieChart":
                value, name = self.by()
                return {"value": value, "name": name}
            case "Scatterplot":
                y, x = self.by()
                return {"xColumn": x, "yColumn": y}
            case "Histogram":
                return {"value": self.word()}
            case "WordCloud":
                return {"textColumn": self.word()}
            case _:
                raise self.fail()

    def condition(self) -> Json:
        attribute = self.word()
        sign = next((sign for phrase, sign in COMPARISONS if self.take(phrase)), None)
        if sign is None:
            raise self.fail()
        if sign in ("is null", "is not null"):
            return {"attribute": attribute, "condition": sign}
        return {"attribute": attribute, "condition": sign, "value": self.word()}

    def sort_key(self) -> Json:
        key = {"attribute": self.word(), "sortPreference": "ASC"}
        if self.take("descending", "desc", "in descending order"):
            key["sortPreference"] = "DESC"
        else:
            self.take("ascending", "asc", "in ascending order")
        return key

    def cast(self) -> Json:
        attribute = self.word()
        self.expect("to", "as")
        result = CASTS.get(self.lower())
        if result is None:
            raise self.fail()
        self.word()
        return {"attribute": attribute, "resultType": result}

    def aggregation(self) -> Json:
        self.take("the")
        function = FUNCTIONS.get(self.lower())
        if function is None:
            raise self.fail()
        self.word()
        self.take("of")
        attribute = self.word()
        made: Json = {
            "aggFunction": function,
            "attribute": attribute,
            "result attribute": f"{function}_{attribute}",
        }
        keys = self.words() if self.take("by", "per", "for each", "grouped by") else []
        return {"aggregations": [made], "groupByKeys": keys}

    def by(self) -> tuple[str, str]:
        value = self.word()
        self.expect("by", "per", "over", "against", "for each")
        return value, self.word()


def _plain(words: Sequence[Token]) -> str:
    return " ".join(token.text for token in words)
