"""Edits applied to a workflow: a whole list, or nothing of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Sequence
from typing import Any, NoReturn, assert_never

from turnback.core.edits import (
    AddComment,
    AddLink,
    AddOperator,
    ChangeComment,
    ChangeLink,
    ChangeOperator,
    ChangeSettings,
    Edit,
    MoveComment,
    MoveOperator,
    Position,
    RemoveComment,
    RemoveLink,
    RemoveOperator,
    ReplaceWorkflow,
)
from turnback.core.errors import InvalidEdit, InvalidWorkflow
from turnback.core.values import DEEPEST, Path, check, shown
from turnback.core.workflow.document import Workflow, bounded, build, load
from turnback.core.workflow.shape import (
    AROUND,
    Ends,
    Json,
    check_comment,
    check_link,
    check_operator,
    link_ends,
)

MAX_BYTES = 8_000_000  # the defaults of `max_workflow_bytes` and `max_json_depth`
MAX_DEPTH = 100
LINK_ID_TRIES = 100


def apply(
    workflow: Workflow,
    edits: Sequence[Edit],
    *,
    new_link_id: Callable[[], str],
    known_types: Container[str],
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> Workflow:
    """The workflow after all the edits, in their order. `workflow` itself stays as it is.

    `new_link_id` makes the id of a link that comes without one; it is asked again while the id
    is in use. `known_types` are the operator types that may be added. Raises `InvalidEdit` (data:
    `index` and `op` of the edit, and `path` where its value is at fault), `TooLarge`.
    """
    if not edits:
        return workflow
    draft = _Draft(workflow, new_link_id, known_types, max_bytes, min(max_depth, DEEPEST))
    for index, edit in enumerate(edits):
        try:
            draft.make(edit, ("edits", index))
            draft.note_members()
        except (InvalidEdit, InvalidWorkflow) as error:
            data = {**error.data, "index": index, "op": edit.op}
            raise InvalidEdit(error.message, **data) from None
    return bounded(build(draft.document(), like=workflow), max_bytes=max_bytes)


class _Draft:
    """A workflow while a list of edits is being made of it. Values in it are never changed."""

    def __init__(
        self,
        workflow: Workflow,
        new_link_id: Callable[[], str],
        known_types: Container[str],
        max_bytes: int,
        max_depth: int,
    ) -> None:
        self._new_link_id = new_link_id
        self._known_types = known_types
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._link_ids: set[str] = set()  # every one seen: an id is never given twice
        self._open(workflow)

    def _open(self, workflow: Workflow) -> None:
        self._content = workflow.content()
        self.operators = dict(workflow.operators)
        self.positions = dict(workflow.positions)
        self.links = {link["linkID"]: link for link in workflow.links}
        self.comments = {box["commentBoxID"]: box for box in workflow.comments}
        self.settings = dict(workflow.settings or {})
        self._link_ids.update(self.links)
        self._ends: Counter[Ends] = Counter()
        self._links_at: defaultdict[str, set[str]] = defaultdict(set)  # by operatorID
        for link in self.links.values():
            self._note_ends(link)

    def document(self) -> dict[str, Any]:
        """The document as edited."""
        edited = {
            "operators": list(self.operators.values()),
            "operatorPositions": self.positions,
            "links": list(self.links.values()),
            "commentBoxes": list(self.comments.values()),
            "settings": self.settings,
        }
        return self._content | {n: value for n, value in edited.items() if n in self._content}

    def note_members(self) -> None:
        """A member that the document did not have comes last, once an edit has needed it."""
        for name, items in (
            ("operators", self.operators),
            ("operatorPositions", self.positions),
            ("links", self.links),
            ("commentBoxes", self.comments),
            ("settings", self.settings),
        ):
            if items:
                self._content.setdefault(name, items)

    def make(self, edit: Edit, path: Path) -> None:
        match edit:
            case AddOperator():
                self._add_operator(edit, path)
            case ChangeOperator():
                self._change_operator(edit, path)
            case RemoveOperator(operator_id=operator_id):
                self._operator(operator_id)
                del self.operators[operator_id]
                self.positions.pop(operator_id, None)
                for link_id in [*self._links_at[operator_id]]:
                    self._drop_link(link_id)
            case MoveOperator(operator_id=operator_id, position=position):
                self._operator(operator_id)
                self._move_operator(operator_id, position)
            case AddLink(link=link):
                link = link if "linkID" in link else {"linkID": self._free_link_id(), **link}
                self._check(link, check_link, (*path, "link"))
                _refuse_taken(self.links, link["linkID"], "link")
                self._join(link)
            case ChangeLink(link_id=link_id, values=values):
                old = _found(self.links, link_id, "link")
                link = _changed(old, values, "linkID")
                self._check(link, check_link, (*path, "set"))
                if link_ends(link) == link_ends(old):
                    self.links[link_id] = link
                else:
                    self._forget_ends(old)
                    self._join(link)
            case RemoveLink(link_id=link_id):
                _found(self.links, link_id, "link")
                self._drop_link(link_id)
            case AddComment(comment=comment):
                self._check(comment, check_comment, (*path, "comment"))
                _refuse_taken(self.comments, comment["commentBoxID"], "comment box")
                self.comments[comment["commentBoxID"]] = comment
            case ChangeComment(comment_id=comment_id, values=values):
                box = _found(self.comments, comment_id, "comment box")
                box = _changed(box, values, "commentBoxID")
                self._check(box, check_comment, (*path, "set"))
                self.comments[comment_id] = box
            case RemoveComment(comment_id=comment_id):
                _found(self.comments, comment_id, "comment box")
                del self.comments[comment_id]
            case MoveComment(comment_id=comment_id, position=position):
                box = _found(self.comments, comment_id, "comment box")
                place = _at(box.get("commentBoxPosition"), position)
                self.comments[comment_id] = {**box, "commentBoxPosition": place}
            case ChangeSettings(values=values, unset=unset):
                settings = {n: v for n, v in self.settings.items() if n not in unset} | values
                check(settings, (*path, "set"), self._max_depth - 1)
                self.settings = settings
            case ReplaceWorkflow(workflow=document):
                self._open(load(document, max_bytes=self._max_bytes, max_depth=self._max_depth))
            case unreachable:
                assert_never(unreachable)

    def _add_operator(self, edit: AddOperator, path: Path) -> None:
        operator = edit.operator
        self._check(operator, check_operator, (*path, "operator"))
        operator_id = operator["operatorID"]
        _refuse_taken(self.operators, operator_id, "operator")
        self._check_type(operator.get("operatorType", ""))
        self.operators[operator_id] = operator
        if edit.position is not None:
            self._move_operator(operator_id, edit.position)

    def _change_operator(self, edit: ChangeOperator, path: Path) -> None:
        old = self._operator(edit.operator_id)
        if "operatorID" in edit.unset:
            _refuse("An operator keeps its `operatorID`; add another operator instead")
        kept = {name: value for name, value in old.items() if name not in edit.unset}
        operator = _changed(kept, edit.values, "operatorID")
        self._check(operator, check_operator, (*path, "set"))
        if operator.get("operatorType") != old.get("operatorType"):
            self._check_type(operator.get("operatorType", ""))
        self.operators[edit.operator_id] = operator

    def _check_type(self, operator_type: str) -> None:
        if operator_type not in self._known_types:
            _refuse(f"There is no operator type `{shown(operator_type)}`; use a known one")

    def _check(self, value: object, shape: Callable[[object, Path], None], path: Path) -> None:
        check(value, path, self._max_depth - AROUND)
        shape(value, path)

    def _operator(self, operator_id: str) -> Json:
        return _found(self.operators, operator_id, "operator")

    def _move_operator(self, operator_id: str, position: Position) -> None:
        self.positions[operator_id] = _at(self.positions.get(operator_id), position)

    def _join(self, link: Json) -> None:
        """Put in a link with new ends: they must exist, and be joined for the first time."""
        ends = source, source_port, target, target_port = link_ends(link)
        _check_port(self._operator(source), "outputPorts", source_port)
        _check_port(self._operator(target), "inputPorts", target_port)
        if source == target:
            _refuse(f"A link cannot lead from `{shown(source)}` back into it; link two operators")
        if self._ends[ends] > 0:
            _refuse(
                f"`{shown(source)}` is linked to `{shown(target)}` already, by the same ports; "
                "leave this link out"
            )
        self._note_ends(link)
        self.links[link["linkID"]] = link
        self._link_ids.add(link["linkID"])

    def _drop_link(self, link_id: str) -> None:
        self._forget_ends(self.links.pop(link_id))

    def _note_ends(self, link: Json) -> None:
        ends = source, _, target, _ = link_ends(link)
        self._ends[ends] += 1
        self._links_at[source].add(link["linkID"])
        self._links_at[target].add(link["linkID"])

    def _forget_ends(self, link: Json) -> None:
        ends = source, _, target, _ = link_ends(link)
        self._ends[ends] -= 1
        self._links_at[source].discard(link["linkID"])
        self._links_at[target].discard(link["linkID"])

    def _free_link_id(self) -> str:
        for _ in range(LINK_ID_TRIES):
            link_id = self._new_link_id()
            if link_id not in self._link_ids:
                return link_id
        raise InvalidEdit(f"No free link id in {LINK_ID_TRIES} tries; give the link a `linkID`")


def _refuse(sentence: str) -> NoReturn:
    raise InvalidEdit(sentence)


def _refuse_taken(items: dict[str, Json], item_id: str, what: str) -> None:
    if item_id in items:
        _refuse(f"The id `{shown(item_id)}` is another {what}'s already; choose another id")


def _found(items: dict[str, Json], item_id: str, what: str) -> Json:
    if item_id not in items:
        _refuse(f"There is no {what} `{shown(item_id)}`; it may have been removed")
    return items[item_id]


def _changed(old: Json, values: Json, id_member: str) -> dict[str, Any]:
    if id_member in values and values[id_member] != old[id_member]:
        _refuse(f"An `{id_member}` never changes; remove this one and add another")
    return {**old, **values}


def _check_port(operator: Json, side: str, port: str | None) -> None:
    ports = [known["portID"] for known in operator.get(side, ())]
    if port not in ports:
        what = "output" if side == "outputPorts" else "input"
        _refuse(
            f"Operator `{shown(operator['operatorID'])}` has no {what} port `{shown(str(port))}`; "
            f"it has {', '.join(f'`{shown(p)}`' for p in ports[:20]) or 'none'}"
        )


def _at(old: Json | None, position: Position) -> dict[str, Any]:
    # A position may hold members that we do not know: they stay.
    return {**(old or {}), "x": position.x, "y": position.y}
