"""Templates: JSON with pointers in it, filled in from a document (undo.md 1).

    {$: path}               the list of all values that the path finds
    {$1: path}              the one value that it finds; none or several: unresolved
    {$1: path, if: path}    left out of its object or list unless the second path finds something
    {$1: path, only: path}  of the object found, those members that the object at the second path
                            has too; `else: value` is for one that the first lacks
    {$form: name, of: …}    a name in its plain form: `path` (no `.`, no doubled `/`), `casefold`,
                            `text` (of a number its digits), `number` (of digits the number)
    {$match: pattern, of: …}  of a text what the pattern's one group takes, where it is found once
    {$parents: path}        the folders above the path found, the nearest first
    {$literal: value}       the value itself, whatever it looks like

Everything else is a literal. There are no other forms and no code: what cannot be said by these is
not declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from turnback.core.contracts.equality import canonical, plain
from turnback.core.contracts.pointers import Document, Pointer, compiled, found_by, groups
from turnback.core.effects import Json
from turnback.core.errors import ContractRefused, Unresolved
from turnback.core.values import shown

Template = Any
"""JSON in which pointers stand; checked by `parsed`."""

_LOOKS_LIKE_A_POINTER = re.compile(r"\$[.\[]")

MAX_DEPTH = 40  # containers in each other in a template
MAX_PATTERN = 1_000  # characters of a pattern

_COMPANIONS: dict[str, frozenset[str]] = {
    "$": frozenset(),
    "$1": frozenset({"if", "only", "else"}),
    "$form": frozenset({"of"}),
    "$match": frozenset({"of"}),
    "$parents": frozenset(),
    "$literal": frozenset(),
}


class _Left:
    """A value that is left out."""


_LEFT = _Left()


def parsed(template: object, *, depth: int = MAX_DEPTH) -> Template:
    """The template, its pointers compiled; raises `ContractRefused` with what to change.

    What has a method `template` (the pointers of `builder.py`) is replaced by what that gives.
    """
    if depth < 1:
        raise ContractRefused(f"A template is nested deeper than {MAX_DEPTH}: make it flatter")
    if (own := getattr(template, "template", None)) is not None:
        return parsed(own(), depth=depth)
    if isinstance(template, dict):
        form = next((name for name in template if str(name).startswith("$")), None)
        if form is None:
            return {str(name): parsed(part, depth=depth - 1) for name, part in template.items()}
        return _form(form, template, depth)
    if isinstance(template, list | tuple):
        return [parsed(part, depth=depth - 1) for part in template]
    if isinstance(template, str) and _LOOKS_LIKE_A_POINTER.match(template):
        raise ContractRefused(
            f"`{shown(template)}` is a text here and points to nothing: write"
            f' `{{$1: "{shown(template)}"}}`, or `$literal` where the text is meant'
        )
    if template is None or isinstance(template, bool | int | float | str):
        return template
    raise ContractRefused(f"A `{type(template).__name__}` is no JSON value and no pointer")


def _form(form: str, template: dict[str, Any], depth: int) -> Template:
    known = _COMPANIONS.get(form)
    if known is None:
        raise ContractRefused(
            f"`{shown(form)}` is no form of a pointer: write one of "
            + ", ".join(f"`{name}`" for name in _COMPANIONS)
            + ", or `$literal` around a value that has such a member"
        )
    if strange := set(template) - {form} - known:
        raise ContractRefused(f"`{shown(sorted(strange)[0])}` does not go with `{form}`")
    value = template[form]
    if form == "$literal":
        return dict(template)
    if form == "$form":
        if value not in (*_FORMS, "number"):
            names = ", ".join(f"`{name}`" for name in (*_FORMS, "number"))
            raise ContractRefused(f"`$form` is one of {names}, not `{shown(str(value))}`")
        if "of" not in template:
            raise ContractRefused("`$form` needs `of`, the pointer whose value it is the form of")
        return {form: value, "of": parsed(template["of"], depth=depth - 1)}
    if form == "$match":
        if "of" not in template or not isinstance(value, str) or len(value) > MAX_PATTERN:
            raise ContractRefused(
                f"`$match` takes a pattern of at most {MAX_PATTERN} characters, and `of`, the"
                " pointer to the text that it is looked for in"
            )
        if groups(value) != 1:
            raise ContractRefused(
                f"`$match`: `{shown(value)}` has to have one group, which is what is taken:"
                " write `(?:…)` around what is not"
            )
        return {form: value, "of": parsed(template["of"], depth=depth - 1)}
    done: dict[str, Any] = {}
    for name, part in template.items():
        text = part.template() if hasattr(part, "template") else part
        if isinstance(text, dict) and len(text) == 1 and name != "else":
            text = next(iter(text.values()))
        if name != "else":
            if not isinstance(text, str):
                raise ContractRefused(f"`{name}` takes the text of a JSONPath")
            compiled(text)
        done[name] = text
    if "else" in done and "only" not in done:
        raise ContractRefused("`else` goes with `only` alone")
    return done


def pointers(template: Template) -> Iterator[Pointer]:
    """Every pointer of a template, those in `if` and `only` too."""
    if isinstance(template, dict):
        if "$literal" in template:
            return
        for name, part in template.items():
            if name in ("$", "$1", "$parents"):
                yield compiled(part)
                for companion in ("if", "only"):
                    if companion in template:
                        yield compiled(template[companion])
                return
        for part in template.values():
            yield from pointers(part)
    elif isinstance(template, list):
        for part in template:
            yield from pointers(part)


def sources(template: Template) -> Iterator[Pointer]:
    """The pointers whose values come to stand in the template: not those in `if` and `only`."""
    if isinstance(template, dict):
        form = next((name for name in ("$", "$1", "$parents") if name in template), None)
        if form is not None:
            yield compiled(template[form])
        elif "$literal" not in template:
            for part in template.values():
                yield from sources(part)
    elif isinstance(template, list):
        for part in template:
            yield from sources(part)


def taken(template: Template, document: Document) -> Iterator[tuple[int | str, ...]]:
    """Where in the document the values are that come to stand in the template, once filled in.

    Raises `Unresolved` where a pointer is not known yet.
    """
    if isinstance(template, dict):
        if "if" in template and not compiled(template["if"]).find(document):
            return
        form = next((name for name in ("$", "$1", "$parents") if name in template), None)
        if form is None:
            if "$literal" not in template:
                for part in template.values():
                    yield from taken(part, document)
            return
        for place in compiled(template[form]).places(document):
            if "only" in template:
                mask = compiled(template["only"]).one(document)
                yield from ((*place, name) for name in (mask if isinstance(mask, dict) else ()))
            else:
                yield place
    elif isinstance(template, list):
        for part in template:
            yield from taken(part, document)


def is_list(template: Template) -> bool:
    """Whether the template is all values that are found, `{$: path}` or `{$parents: path}`."""
    return isinstance(template, dict) and ("$" in template or "$parents" in template)


def resolved(template: Template, document: Document) -> Json:
    """The template filled in; raises `Unresolved` with the pointer that could not be."""
    value = _resolve(template, document)
    if isinstance(value, _Left):
        raise Unresolved("There is nothing where a value is needed")
    return value


def _resolve(template: Template, document: Document) -> Json | _Left:
    if isinstance(template, dict):
        for form, fill in _FILL.items():
            if form in template:
                return fill(template, document)
        members = ((name, _resolve(part, document)) for name, part in template.items())
        return {name: value for name, value in members if not isinstance(value, _Left)}
    if isinstance(template, list):
        items = (_resolve(part, document) for part in template)
        return [item for item in items if not isinstance(item, _Left)]
    return template  # type: ignore[no-any-return]


def _one(template: dict[str, Any], document: Document) -> Json | _Left:
    if "if" in template and not compiled(template["if"]).find(document):
        return _LEFT
    value = compiled(template["$1"]).one(document)
    if "only" not in template:
        return value
    mask = compiled(template["only"]).one(document)
    if not isinstance(value, dict) or not isinstance(mask, dict):
        raise Unresolved(f"`{template['$1']}` and `{template['only']}` are not both objects")
    kept: dict[str, Json] = {}
    for name in mask:
        if name in value:
            kept[name] = value[name]
        elif "else" in template:
            kept[name] = template["else"]
        else:
            raise Unresolved(f"`{template['$1']}` has no `{shown(name)}`")
    return kept


def _text(value: Json, what: str) -> str:
    if not isinstance(value, str):
        raise Unresolved(f"`{what}` is of texts, and this is none")
    return value


def plain_path(path: str) -> str:
    """A path without `.`, doubled or closing `/`; `..` stays, for links may lie on the way."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


def parents(path: str) -> list[str]:
    """The folders above a path, the nearest first; the root and the current one are not named."""
    start = "/" if path.startswith("/") else ""
    parts = plain_path(path).strip("/").split("/")
    return [start + "/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


_FORMS: dict[str, Callable[[str], str]] = {
    "path": plain_path,
    "casefold": str.casefold,
    "text": str,
}


def _form_of(template: dict[str, Any], document: Document) -> Json:
    value = plain(resolved(template["of"], document))
    if isinstance(value, int | float) and not isinstance(value, bool):
        if template["$form"] == "text":
            return canonical(value).decode()
        if template["$form"] == "number":
            return value
    if template["$form"] == "number":
        return _number(_text(value, "$form"))
    return _FORMS[template["$form"]](_text(value, "$form"))


def _number(text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise Unresolved(f"`{shown(text)}` is no whole number")
    return int(text)


_DIGITS = re.compile(r"-?[0-9]{1,15}")


def _matched(template: dict[str, Any], document: Document) -> str:
    text = _text(resolved(template["of"], document), "$match")
    try:
        found = found_by(template["$match"], text)
    except TimeoutError:
        raise Unresolved(f"`{shown(template['$match'])}` takes too long over a text") from None
    if len(found) != 1:
        count = len(found) or "nothing"
        raise Unresolved(f"`{shown(template['$match'])}` finds {count}, not exactly one")
    return found[0]


_FILL: dict[str, Callable[[dict[str, Any], Document], Json | _Left]] = {
    "$": lambda template, document: compiled(template["$"]).find(document),
    "$1": _one,
    "$literal": lambda template, document: template["$literal"],
    "$form": _form_of,
    "$match": _matched,
    "$parents": lambda template, document: list[Json](
        parents(_text(compiled(template["$parents"]).one(document), "$parents"))
    ),
}


def filled(template: Template, document: Document) -> Template:
    """The template with what is known by now written in, so that the rest can be filled later.

    A form whose pointers are all known becomes a literal; what is not known stays as it is. A
    pointer that is known and finds the wrong number of values raises `Unresolved`: it will not
    find another later.
    """
    if isinstance(template, dict):
        if any(form in template for form in _COMPANIONS):
            looks = list(pointers(template))
            if any(not pointer.roots <= document.members.keys() for pointer in looks):
                return template
            return _quoted(_resolve(template, document))
        members = ((name, filled(part, document)) for name, part in template.items())
        return {name: part for name, part in members if not isinstance(part, _Left)}
    if isinstance(template, list):
        items = (filled(part, document) for part in template)
        return [item for item in items if not isinstance(item, _Left)]
    return template


def _quoted(value: Json | _Left) -> Template:
    if isinstance(value, dict | list):
        return {"$literal": value}
    return value
