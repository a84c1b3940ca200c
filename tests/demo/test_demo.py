"""The demo world over real standard streams: what its vendors let one take back, and what not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from taking_back import Drifted
from taking_back import World as Outside

from turnback.core.effects import EffectClass
from turnback.demo import acts
from turnback.demo.server import answer
from turnback.demo.tools import CONTRACTS, RESOURCES, TOOLS
from turnback.demo.world import World
from turnback.settings import Settings
from turnback.tools.limits import ToolLimits
from turnback.tools.mcp import McpConnection
from turnback.tools.registry import Registry
from turnback.tools.servers import DEMO, demo


@pytest.fixture
async def outside(tmp_path: Path) -> AsyncIterator[Outside]:
    settings = Settings(data_dir=tmp_path)
    connection = McpConnection(DEMO, demo(settings), ToolLimits.of(settings))
    connection.start()
    registry = Registry()
    registry.put(DEMO, await connection.tools(), trusted=connection.trusted)
    yield Outside(connection, registry)
    await connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "demo.sqlite3"


def dump(file: Path) -> dict[str, Any]:
    """The whole world, as a person who looks at the file sees it."""
    world = World(file)
    try:
        kinds = [*RESOURCES, "delivery"]
        return {f"{kind} {i}": it for kind in kinds for i, it in world.all(kind).items()}
    finally:
        world.close()


async def test_each_tool_has_a_contract_that_holds_together(outside: Outside) -> None:
    tools = {tool.name: tool for tool in outside.registry.all()}
    assert tools.keys() == TOOLS.keys()
    assert CONTRACTS.keys() <= TOOLS.keys()
    assert not [tool.why for tool in tools.values() if tool.why]
    reads = {name for name, tool in tools.items() if tool.worst is EffectClass.READ}
    assert reads == {name for name in TOOLS if name.startswith(("get_", "list_"))}


CLEAN: list[tuple[str, dict[str, Any]]] = [
    ("create_contact", {"fields": {"name": "Dan"}}),
    ("update_contact", {"id": "ada", "changes": {"phone": "1", "note": "new", "email": None}}),
    ("delete_contact", {"id": "ben"}),
    ("create_event", {"fields": {"title": "Dinner"}}),
    ("update_event", {"id": "review", "changes": {"place": "Room 2"}}),
    ("delete_event", {"id": "review"}),
    ("create_channel", {"name": "dinner", "topic": "The dinner"}),
]


@pytest.mark.parametrize(("tool", "args"), CLEAN, ids=[tool for tool, _ in CLEAN])
async def test_what_is_reversible_leaves_no_difference(
    outside: Outside, file: Path, tool: str, args: dict[str, Any]
) -> None:
    before = dump(file)
    deed = await outside.do(tool, **args)
    assert deed.class_ is EffectClass.REVERSIBLE
    assert dump(file) != before
    await outside.take_back(deed)
    assert dump(file) == before


async def test_a_scheduled_mail_and_a_fresh_message_are_cancelled_without_a_trace(
    outside: Outside, file: Path
) -> None:
    before = dump(file)
    mail = await outside.do(
        "schedule_email", to=["ada@example.org"], subject="Soon", body="…", in_minutes=60
    )
    message = await outside.do("post_message", channel="general", text="Hello")
    assert mail.decision.people == ("ada@example.org",)
    for deed in (mail, message):
        assert deed.decision.cancel is not None
        await outside.take_back(deed)
    assert dump(file) == before


async def test_a_charge_and_an_invitation_are_offset_and_leave_what_they_say(
    outside: Outside, file: Path
) -> None:
    charge = await outside.do("charge_card", amount=300, to="Trattoria", **{"for": "Deposit"})
    invited = await outside.do("invite", event="review", emails=["ada@example.org"])
    for deed, residue in ((charge, "payment_refunded"), (invited, "notice_sent")):
        assert deed.class_ is EffectClass.COMPENSABLE
        assert deed.decision.residue == residue
        await outside.take_back(deed)
    left = dump(file)
    assert left["charge charge-1"]["status"] == "refunded"
    told = [it["what"] for name, it in left.items() if name.startswith("delivery")]
    assert told == ["an invitation", "the invitation was withdrawn"]
    assert not [name for name in left if name.startswith("invitation ")]


async def test_what_people_have_got_cannot_be_taken_back(outside: Outside) -> None:
    deeds = [
        await outside.do("send_email", to=["ada@example.org"], subject="Hi", body="…"),
        await outside.do("send_transfer", amount=900, to="Venue", **{"for": "Hall"}),
        await outside.do("send_text", phone="555-0101", text="Come"),
    ]
    assert {deed.class_ for deed in deeds} == {EffectClass.IRREVERSIBLE}
    assert [deed.decision.people for deed in deeds] == [
        ("ada@example.org",),
        ("Venue",),
        ("555-0101",),
    ]


async def test_a_person_s_change_beside_ours_stays_and_one_on_it_is_not_overwritten(
    outside: Outside, file: Path
) -> None:
    beside = await outside.do("update_contact", id="ada", changes={"phone": "1"})
    with_person = World(file)
    with with_person.change():
        fields = with_person.get("contact", "ada") or {}
        with_person.put("contact", "ada", {**fields, "email": "ada@elsewhere.example"})
    await outside.take_back(beside)
    assert with_person.get("contact", "ada") == {**fields, "phone": "555-0101"} | {
        "email": "ada@elsewhere.example"
    }
    on_it = await outside.do("update_contact", id="ben", changes={"phone": "1"})
    with with_person.change():
        with_person.put("contact", "ben", {"phone": "2"})
    with pytest.raises(Drifted):
        await outside.take_back(on_it)
    assert with_person.get("contact", "ben") == {"phone": "2"}
    with_person.close()


async def test_what_a_person_made_again_under_an_id_is_not_ours(
    outside: Outside, file: Path
) -> None:
    made = await outside.do("create_contact", fields={"name": "Dan"})
    with_person = World(file)
    with with_person.change():
        assert with_person.remove("contact", "contact-1")
        with_person.put("contact", "contact-1", {"name": "Dan"})
    with pytest.raises(Drifted):
        await outside.take_back(made)
    assert with_person.get("contact", "contact-1") == {"name": "Dan"}
    with_person.close()


async def test_payments_honour_a_key_and_nothing_else_does(outside: Outside, file: Path) -> None:
    paid = {"amount": 5, "to": "Shop", "for": "Pens"}
    ask = outside.connection.call
    first = await ask("charge_card", paid, timeout=20, key="f:1")
    again = await ask("charge_card", paid, timeout=20, key="f:1")
    assert first == again
    other = await ask("charge_card", {**paid, "amount": 6}, timeout=20, key="f:1")
    assert (other.is_error, other.text) == (
        True,
        "This idempotency key was used for something else",
    )
    for _ in range(2):
        await ask("create_channel", {"name": "a", "topic": "b"}, timeout=20, key="f:2")
    found = dump(file)
    assert len([name for name in found if name.startswith("charge ")]) == 1
    assert len([name for name in found if name.startswith("channel ")]) == 3


async def test_bad_arguments_and_things_that_are_not_there_are_said(outside: Outside) -> None:
    for tool, args, said in (
        ("send_email", {"to": [], "subject": "a", "body": "b"}, "`send_email` needs `to`, a list"),
        ("charge_card", {"amount": True, "to": "a", "for": "b"}, "needs `amount`, a whole number"),
        ("charge_card", {"amount": 9_999, "to": "a", "for": "b"}, "The card bears amounts up to"),
        ("get_contact", {"id": "zoe"}, "There is no contact `zoe`"),
        ("get_contact", {"id": "ada", "all": "yes"}, "`get_contact` takes no `all`"),
        ("delete_channel", {"id": "general"}, ""),
    ):
        reply = await outside.ask(tool, args)
        assert reply.is_error is bool(said)
        assert said in reply.text


def test_windows_close(file: Path) -> None:
    at = 1_000.0
    world = World(file, now=lambda: at)

    def call(name: str, **args: Any) -> dict[str, Any]:
        return answer("tools/call", {"name": name, "arguments": args}, world)

    mail = call("schedule_email", to=["a"], subject="s", body="b", in_minutes=1)
    message = call("post_message", channel="general", text="t")
    at += acts.UNSEND
    late = [
        call("cancel_email", id=mail["structuredContent"]["id"]),
        call("unsend_message", id=message["structuredContent"]["id"]),
    ]
    assert [reply["content"][0]["text"] for reply in late] == [
        "It is sent already",
        "It is too late to take it back",
    ]
    assert [it["what"] for it in world.all("delivery").values()] == ["a mail"]
    world.close()
