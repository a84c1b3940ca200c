"""What tells a thing from another one under its key goes from its contract into the log."""

from __future__ import annotations

from turnback.core import drift
from turnback.core.contracts import choose
from turnback.core.contracts.choose import Before
from turnback.core.contracts.model import parse
from turnback.core.contracts.states import Observation
from turnback.core.effects import (
    CallState,
    Effect,
    EffectClass,
    LeafPath,
    ResourceKey,
    Standing,
)
from turnback.tools.ending import intended, succeeded

NOTE = ResourceKey("desk", "note", ("n1",))
CONTRACT = parse(
    {
        "resources": {
            "note": {
                "key": ["id"],
                "read": {"call": "get", "args": {"id": {"$1": "$.key.id"}}},
                "state": {"text": {"$1": "$.now.text"}, "made": {"$1": "$.now.made"}},
                "identity": ["made"],
            }
        },
        "touches": [{"note": {"id": {"$1": "$.args.id"}}}],
        "cases": [
            {
                "class": "reversible",
                "narrow": True,
                "inverse": [
                    {
                        "call": "set",
                        "args": {
                            "id": {"$1": "$.args.id"},
                            "text": {"$1": "$.before.note[0].text"},
                        },
                    }
                ],
            }
        ],
    },
    of="desk.set",
)


def note(text: str, made: int) -> Observation:
    leaves: dict[LeafPath, str | int] = {("text",): text, ("made",): made}
    return Observation(leaves, {"text": text, "made": made})


def before(seen: Observation) -> Before:
    return Before(((NOTE, seen),))


def test_a_thing_made_again_is_known_by_what_its_contract_says() -> None:
    was = before(note("A", 1))
    args = {"id": "n1", "text": "B"}
    effect = Effect(
        id="e1",
        session_id="session",
        turn_id="turn",
        step_id="step",
        number=1,
        tool_call_id="call",
        connection="desk",
        tool="set",
        contract=None,
        class_=EffectClass.IRREVERSIBLE,
        case=None,
        state=CallState.INTENT,
        standing=Standing.IN_DOUBT,
        args=args,
    )
    effect = intended(effect, CONTRACT, was, choose.decide(CONTRACT, "desk", args, was))
    ended = succeeded(
        effect, CONTRACT, was, before(note("B", 1)), {"ok": True}, known={}, can_seal=True
    ).effect
    assert ended.class_ is EffectClass.REVERSIBLE
    basis = drift.basis(ended)
    same = drift.judge(basis, {NOTE: note("B", 1)}, narrow=ended.narrow)
    assert isinstance(same, drift.Go)
    again = drift.judge(basis, {NOTE: note("B", 2)}, narrow=ended.narrow)
    assert isinstance(again, drift.Review)
    assert again.kind is drift.DriftKind.RECREATED
