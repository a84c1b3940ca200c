"""The words of the offline model's language, and a sentence taken apart into them (grammar.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    quoted: bool = False

    @property
    def lower(self) -> str:
        return "" if self.quoted else self.text.lower()


# Everyday names. The first of each type is the one used in answers.
NAMES: dict[str, tuple[str, ...]] = {
    "CSVFileScan": ("CSV scan", "CSV file scan", "CSV file", "CSV source", "CSV", "scan"),
    "TextInput": ("text input", "text source"),
    "Filter": ("filter",),
    "Projection": ("projection", "column selection"),
    "TypeCasting": ("type casting", "type cast", "cast"),
    "Sort": ("sort",),
    "Limit": ("limit",),
    "Distinct": ("distinct", "deduplication"),
    "Union": ("union",),
    "KeywordSearch": ("keyword search", "search"),
    "HashJoin": ("hash join", "join"),
    "Aggregate": ("aggregation", "aggregate"),
    "LineChart": ("line chart", "line graph"),
    "BarChart": ("bar chart", "bar graph"),
    "PieChart": ("pie chart",),
    "Histogram": ("histogram",),
    "Scatterplot": ("scatter plot", "scatter chart"),
    "WordCloud": ("word cloud",),
    "PythonUDFV2": ("Python function", "Python UDF", "Python"),
    "PythonUDFSourceV2": ("Python source",),
}

TYPE_WORDS = sorted(
    ((name.lower(), kind) for kind, names in NAMES.items() for name in (*names, kind)),
    key=lambda entry: -len(entry[0].split()),
)

COMPARISONS = sorted(
    (
        (phrase, sign)
        for sign, phrases in {
            "=": ("=", "==", "is", "equals", "is equal to", "equal to"),
            "!=": ("!=", "<>", "is not", "is not equal to"),
            ">": (">", "above", "over", "is above", "is over", "more than", "is more than",
                  "greater than", "is greater than"),
            "<": ("<", "below", "under", "is below", "is under", "less than", "is less than"),
            ">=": (">=", "≥", "at least", "is at least", "greater than or equal to",
                   "is greater than or equal to"),
            "<=": ("<=", "≤", "at most", "is at most", "less than or equal to",
                   "is less than or equal to"),
            "is null": ("is null", "is empty", "is missing"),
            "is not null": ("is not null", "is not empty"),
        }.items()
        for phrase in phrases
    ),
    key=lambda entry: -len(entry[0].split()),
)  # fmt: skip

FUNCTIONS = {
    "sum": "sum",
    "total": "sum",
    "count": "count",
    "average": "average",
    "mean": "average",
    "minimum": "min",
    "min": "min",
    "maximum": "max",
    "max": "max",
}

CASTS = {
    "integer": "integer",
    "int": "integer",
    "long": "long",
    "double": "double",
    "float": "double",
    "number": "double",
    "boolean": "boolean",
    "string": "string",
    "text": "string",
    "timestamp": "timestamp",
    "date": "timestamp",
}

_TOKEN = re.compile(
    r"""
      "(?P<double>[^"\n]*)" | (?<!\w)'(?P<single>[^'\n]*)'(?!\w) | `(?P<back>[^`\n]*)`
    | (?P<number>[-+]?\d+(?:\.\d+)?(?![\w-]))
    | (?P<arrow>-+>)
    | (?P<sign>>=|<=|!=|<>|==|[=<>;,:])
    | (?P<word>(?:(?!-+>)[^\s"`=<>;,:!?()])+)
    """,
    re.VERBOSE,
)


def tokens(sentence: str) -> list[Token]:
    """The words of a sentence. A dot at a word's end is a token of its own."""
    found: list[Token] = []
    for match in _TOKEN.finditer(sentence):
        kind, text = match.lastgroup, match.group()
        if kind in ("double", "single", "back"):
            found.append(Token(match[kind], quoted=True))
        elif kind == "word" and (bare := text.rstrip(".")) != text:
            found += [Token(bare)] if bare else []
            found.append(Token("."))
        else:
            found.append(Token(text))
    return found


SIGNS = frozenset(["=", "<", ">", ";", ",", ":", ".", ">=", "<=", "!=", "<>", "==", "->", "-->"])
BEFORE = [
    phrase.split()
    for phrase in (
        "please", "now", "also", "first", "next", "finally", "and", ",", "can you", "could you",
        "would you", "i want to", "i want you to", "let us", "let's", "we need to",
    )
]  # fmt: skip
BEHIND = [
    phrase.split()
    for phrase in (
        "please", "now", "too", "for me", "and", ",", "to the workflow", "to the canvas",
        "in the workflow", "on the canvas",
    )
]  # fmt: skip

ADD = ("add", "create", "insert", "put", "place", "append", "attach")
BUILD = ("build", "make", "generate", "prepare")
DELETE = ("delete", "remove", "drop")
CHANGE = ("change", "set", "modify", "update", "edit")
RENAME = ("rename", "call")
CONNECT = ("connect", "link", "wire")
DISCONNECT = ("disconnect", "unlink")
SHOW = ("show", "list", "describe", "print", "display", "what is", "what's", "what")
VERBS = {
    "filter": "Filter",
    "sort": "Sort",
    "order": "Sort",
    "limit": "Limit",
    "search": "KeywordSearch",
    "cast": "TypeCasting",
    "convert": "TypeCasting",
    "join": "HashJoin",
    "union": "Union",
    "combine": "Union",
    "plot": "BarChart",
    "chart": "BarChart",
}
JOINS = ("HashJoin", "Union")
HAVE_SUBJECT = ("Filter", "Sort", "Limit", "KeywordSearch")
ARTICLES = ("a new", "an", "a", "the", "one", "another", "new")
INTRODUCE = (
    "on",
    "where",
    "with",
    "for",
    "by",
    "of",
    "to",
    "from",
    "showing",
    "reading",
    "in",
    ":",
)

# After "and" and a comma these begin a command. Those that are types' names too do so only before
# a word that a verb has behind it: "and sort it by x", but "delete the filter and sort".
PLAIN_VERBS = {*ADD, *BUILD, *DELETE, *CHANGE, *CONNECT, *DISCONNECT}
PLAIN_VERBS |= {"rename", "show", "describe", "keep", "plot", "load"}
BEHIND_A_VERB = frozenset(["it", "by", "on", "where", "to", "for", "the", "rows"])
