"""The step tree against its rules, by example and by random history."""

from __future__ import annotations

import copy
import random
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_model import Model

from turnback.core import errors, lineage
from turnback.core.lineage import ROOT, ROOT_ID, Stub
from turnback.core.tree import (
    Cause,
    EndReason,
    HeadMoved,
    Limits,
    NewIds,
    RedoCleared,
    RedoPushed,
    Role,
    State,
    StateChanged,
    Step,
    StepAppended,
    Tree,
    TurnKind,
    TurnStatus,
)

IDS = NewIds("t", "s", "b")
STEP = Step("step-1", "branch-1", 1, ROOT_ID, "turn-1", 0, Role.USER, "wf-initial", "wf-initial")


class Driver:
    """A tree with ids made in order, so that a test reads like a conversation."""

    def __init__(self, **limits: int) -> None:
        self.tree = Tree("session", "wf-initial", Limits(**limits))
        self.ids = count(1)
        self.turns: list[str] = []

    def new(self) -> NewIds:
        n = next(self.ids)
        return NewIds(f"turn-{n}", f"step-{n}", f"branch-{n}")

    def prompt(self, *answers: str, end: EndReason = EndReason.COMPLETE) -> str:
        ids = self.new()
        self.tree.apply(self.tree.prompt(ids, by="local"))
        for at, after in enumerate(answers, 1):
            last = at == len(answers)
            self.answer(after, end if last else None)
        return ids.turn

    def answer(self, after: str, end: EndReason | None = None) -> str:
        step_id = f"step-{next(self.ids)}"
        self.tree.apply(self.tree.append(step_id, after, end))
        return step_id

    def edit(self, after: str, by: str = "local") -> str:
        ids = self.new()
        self.tree.apply(self.tree.edit(ids, after, by=by))
        return ids.turn

    def keep(self, turn: str, after: str) -> str:
        ids = self.new()
        first = self.tree.turn_on_path(turn)
        self.tree.apply(self.tree.revert_keeping(first, ids, after, by="local"))
        return ids.step

    def do(self, command: str, *args: str, **options: bool) -> None:
        self.tree.apply(getattr(self.tree, command)(*args, **options))

    def visible(self) -> list[str]:
        return [step.id for step in self.tree.path()][::-1]


def test_a_prompt_tells_the_state_first_and_then_the_users_step() -> None:
    driver = Driver()
    events = driver.tree.prompt(driver.new(), by="local")
    told = [e for e in events if isinstance(e, StateChanged | StepAppended)]
    assert [type(e) for e in told] == [StateChanged, StepAppended]
    assert told[0] == StateChanged(State.GENERATING)


def test_the_last_step_ends_the_turn_and_the_session_is_available() -> None:
    driver = Driver()
    turn = driver.prompt("wf-1", "wf-2")
    assert driver.tree.state is State.AVAILABLE
    assert driver.tree.turns[turn].status is TurnStatus.COMPLETE
    assert driver.tree.running is None
    assert driver.tree.workflow == "wf-2"


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (EndReason.STOPPED, TurnStatus.STOPPED),
        (EndReason.FAILED, TurnStatus.FAILED),
        (EndReason.LIMIT, TurnStatus.STOPPED),
        (EndReason.INTERRUPTED, TurnStatus.INTERRUPTED),
    ],
)
def test_every_other_ending_has_its_status(end: EndReason, status: TurnStatus) -> None:
    driver = Driver()
    turn = driver.prompt("wf-1", end=end)
    assert driver.tree.turns[turn].status is status


@pytest.mark.case(9)
def test_the_first_turn_reverts_to_the_sessions_own_initial_workflow() -> None:
    driver = Driver()
    turn = driver.prompt("wf-1")
    driver.do("revert", turn)
    assert driver.tree.head == ROOT
    assert driver.tree.workflow == "wf-initial"
    assert driver.visible() == []


@pytest.mark.case(21)
def test_two_reverts_and_two_redos_give_the_last_state() -> None:
    driver = Driver()
    first, second = driver.prompt("wf-1", "wf-2"), driver.prompt("wf-3", "wf-4")
    shown = driver.visible()
    driver.do("revert", second)
    driver.do("revert", first)
    driver.do("redo")
    assert driver.tree.workflow == "wf-2"
    driver.do("redo")
    assert (driver.tree.workflow, driver.visible()) == ("wf-4", shown)
    assert not driver.tree.can_redo


def test_redo_all_gives_the_last_state_at_once() -> None:
    driver = Driver()
    first, second = driver.prompt("wf-1"), driver.prompt("wf-2")
    shown = driver.visible()
    driver.do("revert", second)
    driver.do("revert", first)
    driver.do("redo", all_=True)
    assert (driver.visible(), driver.tree.can_redo) == (shown, False)


@pytest.mark.case(2)
def test_the_same_turn_reverted_twice_is_refused_and_the_redo_stack_keeps_one_entry() -> None:
    driver = Driver()
    turn = driver.prompt("wf-1")
    driver.do("revert", turn)
    with pytest.raises(errors.NotOnPath, match="Turn is not on the current conversation path"):
        driver.do("revert", turn)
    assert len(driver.tree.redo_stack) == 1


@pytest.mark.case(13)
def test_a_turn_off_the_path_stays_good_for_checkout() -> None:
    driver = Driver()
    old = driver.prompt("wf-1", "wf-2")
    tip = driver.tree.head.step_id
    driver.do("revert", old)
    driver.prompt("wf-3")
    with pytest.raises(errors.NotOnPath):
        driver.do("revert", old)
    driver.do("checkout", tip)
    assert (driver.tree.head.step_id, driver.tree.workflow) == (tip, "wf-2")


def test_a_prompt_after_a_revert_keeps_the_old_line_as_a_branch() -> None:
    driver = Driver()
    driver.prompt("wf-1")
    parting = driver.tree.head.step_id
    old = driver.prompt("wf-2")
    old_tip = driver.tree.head.step_id
    driver.do("revert", old)
    driver.prompt("wf-3")
    assert len(driver.tree.children[parting]) == 2
    assert driver.tree.tip(driver.tree.children[parting][0]) == old_tip
    assert not driver.tree.can_redo


@pytest.mark.parametrize("command", ["prompt", "edit", "checkout"])
def test_a_new_prompt_edit_or_checkout_empties_the_redo_stack(command: str) -> None:
    driver = Driver()
    first, second = driver.prompt("wf-1"), driver.prompt("wf-2")
    driver.do("revert", second)
    if command == "checkout":
        driver.do("checkout", driver.tree.turns[first].first.step_id)
    else:
        getattr(driver, command)("wf-3")
    with pytest.raises(errors.NothingToRedo, match="Nothing to redo"):
        driver.do("redo")


def test_checkout_of_the_root_is_the_empty_conversation_and_removes_nothing() -> None:
    driver = Driver()
    turn = driver.prompt("wf-1")
    driver.do("checkout", ROOT_ID)
    assert (driver.visible(), driver.tree.workflow) == ([], "wf-initial")
    assert turn in driver.tree.turns


def test_revert_of_a_step_goes_to_before_that_step_alone() -> None:
    driver = Driver()
    driver.prompt("wf-1", "wf-2", "wf-3")
    third = driver.tree.head.step_id
    driver.do("revert_step", third)
    assert driver.tree.workflow == "wf-2"
    driver.do("redo")
    assert driver.tree.head.step_id == third


def test_a_turn_cut_in_the_middle_counts_as_one_turn() -> None:
    driver = Driver()
    driver.prompt("wf-1", "wf-2", "wf-3")
    driver.do("revert_step", driver.tree.head.step_id)
    turn = driver.prompt("wf-4")
    assert driver.tree.turns[turn].effective_index == 1


def test_an_edit_is_a_turn_that_can_be_reverted_and_redone() -> None:
    driver = Driver()
    driver.prompt("wf-1")
    turn = driver.edit("wf-edited")
    assert driver.tree.turns[turn].kind is TurnKind.EDIT
    driver.do("revert", turn)
    assert driver.tree.workflow == "wf-1"
    driver.do("redo")
    assert driver.tree.workflow == "wf-edited"


def test_a_revert_that_keeps_edits_is_one_edit_on_the_new_head_with_nothing_to_redo() -> None:
    driver = Driver()
    first, second = driver.prompt("wf-1"), driver.prompt("wf-2")
    parting = driver.tree.turns[second].first.step_id
    driver.edit("wf-3")
    old = driver.tree.head.step_id
    driver.do("revert_step", old)  # so that there is something to redo, which then is not
    step = driver.keep(second, "wf-kept")
    kept = driver.tree.steps[step]
    assert driver.visible()[-1] == driver.tree.head.step_id == step
    assert kept.parent_id == driver.tree.steps[parting].parent_id
    assert (kept.before, kept.after, driver.tree.workflow) == ("wf-1", "wf-kept", "wf-kept")
    assert kept.branch_id not in (driver.tree.steps[parting].branch_id, None)
    assert (driver.tree.can_redo, driver.tree.state) == (False, State.AVAILABLE)
    turn = driver.tree.turns[kept.turn_id]
    assert (turn.kind, turn.status, turn.by) == (TurnKind.EDIT, TurnStatus.COMPLETE, "local")
    assert turn.effective_index == driver.tree.turns[first].effective_index + 1
    driver.do("checkout", old)
    assert driver.tree.workflow == "wf-3"


def test_a_revert_that_keeps_edits_tells_of_both_moves_and_its_step_between_them() -> None:
    driver = Driver()
    turn = driver.prompt("wf-1")
    ids = driver.new()
    events = driver.tree.revert_keeping(driver.tree.turn_on_path(turn), ids, "wf-k", by="ann")
    told = [e for e in events if isinstance(e, HeadMoved | StepAppended)]
    assert told[0] == HeadMoved(ROOT, "wf-initial", Cause.REVERT)
    assert isinstance(told[1], StepAppended)
    assert told[2] == HeadMoved(told[1].step.position, "wf-k", Cause.EDIT)
    assert not any(isinstance(e, RedoPushed | RedoCleared) for e in events)


def test_a_revert_that_keeps_edits_minds_the_limit_of_branches() -> None:
    driver = Driver(max_branch_segments=1)
    driver.prompt("wf-1")
    turn = driver.prompt("wf-2")
    with pytest.raises(errors.BranchLimit):
        driver.keep(turn, "wf-kept")


def test_the_turns_that_a_revert_takes_back_are_those_from_the_cut_on() -> None:
    driver = Driver()
    first = driver.prompt("wf-1", "wf-2", "wf-3")
    cut = driver.visible()[2]
    mine, theirs = driver.edit("wf-4"), driver.edit("wf-5", by="ann")
    last = driver.prompt("wf-6")
    since = driver.tree.turns_since(driver.tree.step(cut))
    assert [(turn.id, steps) for turn, steps in since] == [
        (last, 2), (theirs, 1), (mine, 1), (first, 2),
    ]  # fmt: skip
    assert [turn.id for turn, _ in driver.tree.turns_since(driver.tree.turn_on_path(last))] == [
        last
    ]


def test_a_revert_crosses_the_edits_of_others_and_of_nobody_else() -> None:
    driver = Driver()
    first = driver.prompt("wf-1")
    before = driver.edit("wf-2", by="ann")
    second = driver.prompt("wf-3")
    mine, anns, bobs = (driver.edit(f"wf-{n}", by=n) for n in ("local", "ann", "bob"))
    crossed = [
        [turn.id for turn in driver.tree.crossed(driver.tree.turn_on_path(turn), by=by)]
        for turn, by in ((second, "local"), (second, "ann"), (first, "local"), (bobs, "bob"))
    ]
    assert crossed == [[anns, bobs], [mine, bobs], [before, anns, bobs], []]
    edits = driver.tree.edits_since(driver.tree.turn_on_path(first))
    assert [turn.id for turn in edits] == [before, mine, anns, bobs]


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize(
    ("command", "args", "sentence"),
    [
        ("revert", ("turn-1",), "Cannot revert while the agent is busy"),
        ("revert_step", ("step-1",), "Cannot revert while the agent is busy"),
        ("redo", (), "Cannot redo while the agent is busy"),
        ("checkout", (ROOT_ID,), "Cannot check out while the agent is busy"),
        ("edit", (IDS, "wf"), "Cannot edit while the agent is busy"),
        ("prompt", (IDS,), "busy"),
        ("revert_keeping", (STEP, IDS, "wf"), "Cannot revert while the agent is busy"),
    ],
)
def test_a_busy_session_refuses_whatever_moves_head(
    command: str, args: tuple[object, ...], sentence: str, stopping: bool
) -> None:
    driver = Driver()
    driver.prompt()
    if stopping:
        driver.do("stop")
    before = copy.deepcopy(driver.tree)
    by = {"by": "local"} if IDS in args else {}
    with pytest.raises(errors.Busy, match=sentence):
        getattr(driver.tree, command)(*args, **by)
    assert driver.tree == before


def test_busy_is_said_before_a_turn_is_said_to_be_unknown() -> None:
    driver = Driver()
    driver.prompt()
    with pytest.raises(errors.Busy):
        driver.tree.revert("no-such-turn")


@pytest.mark.case(24)
def test_stop_while_idle_or_stopping_does_nothing() -> None:
    driver = Driver()
    assert driver.tree.stop() == ()
    driver.prompt()
    driver.do("stop")
    assert driver.tree.state is State.STOPPING
    assert driver.tree.stop() == ()


def test_an_agent_step_without_a_run_is_refused() -> None:
    driver = Driver()
    driver.prompt("wf-1")
    with pytest.raises(errors.Refusal):
        driver.tree.append("late", "wf-late", None)


@pytest.mark.parametrize("name", ["revert", "revert_step", "checkout"])
def test_what_is_not_reachable_is_unknown(name: str) -> None:
    driver = Driver()
    driver.prompt("wf-1")
    with pytest.raises((errors.UnknownTurn, errors.UnknownStep), match="Unknown"):
        getattr(driver.tree, name)("nothing")


def test_the_root_cannot_be_reverted_as_a_step() -> None:
    with pytest.raises(errors.UnknownStep):
        Driver().tree.revert_step(ROOT_ID)


def test_an_expected_head_that_has_moved_is_refused_with_the_new_one() -> None:
    driver = Driver()
    driver.prompt("wf-1")
    driver.tree.expect_head(None)
    driver.tree.expect_head(driver.tree.head.step_id)
    with pytest.raises(errors.StaleHead) as refused:
        driver.tree.expect_head(ROOT_ID)
    assert refused.value.data == {"headId": driver.tree.head.step_id}


def test_past_its_limit_the_redo_stack_drops_the_oldest_which_stays_reachable() -> None:
    driver = Driver(max_redo_depth=2)
    turns = [driver.prompt(f"wf-{n}") for n in range(4)]
    tip = driver.tree.head.step_id
    for turn in reversed(turns):
        driver.do("revert", turn)
    assert len(driver.tree.redo_stack) == 2
    driver.do("redo", all_=True)
    assert driver.tree.workflow == "wf-1"
    driver.do("checkout", tip)
    assert driver.tree.workflow == "wf-3"


def test_a_session_that_has_parted_too_often_says_to_go_on_in_a_new_one() -> None:
    driver = Driver(max_branch_segments=3)
    driver.prompt("wf-0")
    for n in range(2):
        turn = driver.prompt(f"wf-{n}")
        driver.do("revert", turn)
        driver.prompt(f"wf-b{n}")
    turn = driver.prompt("wf-last")
    driver.do("revert", turn)
    with pytest.raises(errors.BranchLimit, match="new session"):
        driver.tree.prompt(driver.new(), by="local")


def test_a_revert_says_where_from_and_a_checkout_clears() -> None:
    driver = Driver()
    turn = driver.prompt("wf-1")
    head = driver.tree.head
    assert driver.tree.revert(turn) == (
        RedoPushed(head),
        HeadMoved(ROOT, "wf-initial", Cause.REVERT),
    )
    driver.do("revert", turn)
    assert driver.tree.checkout(ROOT_ID)[0] == RedoCleared()


# -- random histories against the naive model


def check(driver: Driver, model: Model) -> None:
    tree = driver.tree
    assert driver.visible() == model.path
    assert tree.workflow == model.workflow
    assert [position.step_id for position in tree.redo_stack] == [
        path[-1] if path else ROOT_ID for path in model.redo
    ]
    assert (tree.state is not State.AVAILABLE) == model.busy
    for step_id in model.path[-7::3]:
        step = tree.step_on_path(step_id)
        since = [(turn.id, steps) for turn, steps in tree.turns_since(step)]
        assert since[::-1] == model.turns_from(step_id)
        for by in ("local", "ann"):
            theirs = [turn.id for turn in tree.crossed(step, by=by)]
            assert theirs == [turn for turn, _ in since[::-1] if model.edits.get(turn, by) != by]
    segments = list(lineage.segments_at(tree.branches, tree.head))[::-1]
    by_place = {(s.branch_id, s.seq): s.id for s in tree.steps.values()}
    read = [by_place[g.source, seq] for g in segments for seq in range(g.lo + 1, g.hi + 1)]
    assert read == model.path
    assert len(by_place) == len(tree.steps)


def step_once(driver: Driver, model: Model, rng: random.Random) -> None:
    tree = driver.tree
    command = rng.choice(
        ["prompt", "answer", "answer", "end", "edit", "revert", "revert", "step", "redo", "redo",
         "all", "checkout", "stop", "keep"]
    )  # fmt: skip
    before = copy.deepcopy(tree) if rng.random() < 0.1 else None
    after = f"wf-{rng.randrange(1000)}"
    ids = driver.new()
    try:
        match command:
            case "prompt":
                tree.apply(tree.prompt(ids, by="local"))
                model.start(ids.step, ids.turn, model.workflow)
                model.busy = True
            case "answer" | "end":
                turn = tree.running
                end = EndReason.COMPLETE if command == "end" else None
                tree.apply(tree.append(ids.step, after, end))
                assert turn is not None
                model.add(ids.step, turn, after)
                model.busy = end is None
            case "edit":
                by = rng.choice(["local", "ann"])
                tree.apply(tree.edit(ids, after, by=by))
                model.start(ids.step, ids.turn, after)
                model.edits[ids.turn] = by
            case "keep":
                step = rng.choice([*tree.steps, "nothing"])
                visible = step in model.path
                tree.apply(tree.revert_keeping(tree.step_on_path(step), ids, after, by="local"))
                assert visible
                model.cut(step)
                model.start(ids.step, ids.turn, after)
                model.edits[ids.turn] = "local"
            case "revert":
                turn = rng.choice([*tree.turns, "nothing"])
                first = model.first_of(turn)
                tree.apply(tree.revert(turn))
                assert first is not None
                model.cut(first)
            case "step":
                step = rng.choice([*tree.steps, "nothing"])
                visible = step in model.path
                tree.apply(tree.revert_step(step))
                assert visible
                model.cut(step)
            case "redo":
                tree.apply(tree.redo())
                model.path = model.redo.pop()
            case "all":
                tree.apply(tree.redo(all_=True))
                model.path, model.redo = model.redo[0], []
            case "checkout":
                step = rng.choice([*tree.steps, ROOT_ID])
                tree.apply(tree.checkout(step))
                model.path = model.paths.get(step, [])
                model.redo = []
            case "stop":
                tree.apply(tree.stop())
    except errors.TurnbackError:
        assert before is None or tree == before
        if command in ("revert", "step", "keep") and not model.busy:
            named = turn if command == "revert" else step
            assert model.first_of(named) is None if command == "revert" else not visible
        if command in ("redo", "all") and not model.busy:
            assert not model.redo
    else:
        assert command in ("answer", "end", "stop") or not (before and before.state != "AVAILABLE")


@pytest.mark.case(3)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 5, 1000]))
def test_a_history_of_500_commands_equals_the_naive_model(seed: int, limit: int) -> None:
    rng = random.Random(seed)
    driver = Driver(max_redo_depth=limit)
    model = Model("wf-initial", limit)
    for at in range(500):
        step_once(driver, model, rng)
        if at % 10 == 0:
            check(driver, model)
    check(driver, model)


@pytest.mark.case(5)
@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_revert_then_redo_is_the_identity_after_any_history(rng: random.Random) -> None:
    driver = Driver()
    model = Model("wf-initial", 1000)
    for _ in range(120):
        step_once(driver, model, rng)
    if driver.tree.running is not None:
        driver.answer("wf-end", EndReason.COMPLETE)
    for step in list(driver.tree.path()):
        before = copy.deepcopy(driver.tree)
        driver.do("revert", step.turn_id)
        driver.do("redo")
        assert driver.tree == before


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_redo_all_after_any_number_of_reverts_is_the_state_before_them(
    rng: random.Random, reverts: int
) -> None:
    driver = Driver()
    model = Model("wf-initial", 1000)
    for _ in range(80):
        step_once(driver, model, rng)
    if driver.tree.running is not None:
        driver.answer("wf-end", EndReason.COMPLETE)
    driver.edit("wf-last")  # so that nothing is left to redo
    before = copy.deepcopy(driver.tree)
    for _ in range(reverts):
        if path := list(driver.tree.path()):
            driver.do("revert_step", rng.choice(path).id)
    driver.do("redo", all_=True)
    assert driver.tree == before


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_tree_read_from_its_rows_equals_the_one_that_grew(rng: random.Random) -> None:
    driver = Driver()
    model = Model("wf-initial", 1000)
    for _ in range(150):
        step_once(driver, model, rng)
    grown = driver.tree
    read = Tree(
        grown.session_id,
        grown.initial,
        grown.limits,
        state=grown.state,
        head=grown.head,
        redo_stack=list(grown.redo_stack),
    )
    read.adopt(
        branches=grown.branches.values(), turns=grown.turns.values(), steps=grown.steps.values()
    )
    assert read == grown


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2**16))
def test_a_childs_tree_holds_its_prefix_and_moves_in_it_as_its_parent_does(
    seed: int, at: int
) -> None:
    chance, parent = random.Random(seed), Driver()
    for _ in range(chance.randrange(1, 25)):
        act = chance.randrange(4)
        if act == 0 and parent.visible():
            parent.do("revert_step", chance.choice(parent.visible()))
        elif act == 1 and parent.tree.steps:
            parent.do("checkout", chance.choice(list(parent.tree.steps)))
        elif act == 2:
            parent.edit(f"wf-{seed}-{_}")
        else:
            parent.prompt(f"wf-{seed}-{_}", f"wf-{seed}-{_}-2")
    prefix = list(parent.tree.path())[::-1][: at % (len(parent.visible()) + 1)]
    held, cutoff = parent.tree, prefix[-1].position if prefix else ROOT
    child = Driver()
    child.ids = parent.ids
    child.tree = Tree("child", "wf-initial", head=cutoff)
    child.tree.adopt(
        branches=lineage.unfolded(
            Stub(b.id, b.session_id, b.cutoff, b.below, b.segment_count)
            for s in list(lineage.segments_at(held.branches, cutoff))[::-1]
            for b in [held.branches[s.source]]
        ),
        turns=[held.turns[id_] for id_ in dict.fromkeys(step.turn_id for step in prefix)],
        steps=prefix,
    )
    assert child.visible() == [step.id for step in prefix]
    assert all(held.branches[id_] == branch for id_, branch in child.tree.branches.items())
    for step in [ROOT_ID, *child.visible()]:
        parent.do("checkout", step)
        child.do("checkout", step)
        assert child.visible() == parent.visible()
        assert child.tree.workflow == parent.tree.workflow
        turn = child.prompt("wf-own")
        first = child.tree.steps[child.tree.turns[turn].first.step_id]
        started = child.tree.branches[first.branch_id]
        assert (started.session_id, started.cutoff.step_id) == ("child", step)
        assert child.tree.turns[turn].effective_index == len(
            {held.steps[id_].turn_id for id_ in parent.visible()}
        )
        child.do("revert", turn)
        assert child.visible() == parent.visible()
        child.do("redo")
        assert child.visible()[:-2] == parent.visible()
