"""Tools in Python: their schema, their contract, what they answer, what they raise."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from turnback.core.contracts import choose
from turnback.core.contracts.builder import args, before, key, now
from turnback.core.contracts.model import Key
from turnback.core.effects import EffectClass
from turnback.core.errors import ContractRefused, Lost
from turnback.tools.connection import Reply
from turnback.tools.decorator import PythonConnection, connections_of, tool
from turnback.tools.registry import Front, Pinned, Registry


class Contact(BaseModel):
    id: str
    phone: str


BOOK: dict[str, str] = {"c1": "12"}
NOTES: list[str | None] = []

CONTACT = {
    "key": ["id"],
    "read": {"call": "get_contact", "args": {"id": key.id}},
    "state": {"phone": now.phone},
}


@tool(contract={"cases": [{"class": "read"}]})
def get_contact(id: str) -> Contact:
    """Read a contact.

    What is said further down is for people.
    """
    return Contact(id=id, phone=BOOK[id])


@tool(
    contract={
        "resources": {"contact": CONTACT},
        "touches": [{"contact": {"id": args.id}}],
        "cases": [
            {
                "class": "reversible",
                "inverse": [
                    {
                        "call": "set_phone",
                        "args": {"id": args.id, "phone": before.contact[0].phone},
                    }
                ],
            }
        ],
    }
)
async def set_phone(id: str, phone: str, *, note: str | None = None) -> dict[str, str]:
    """Set a contact's phone."""
    BOOK[id] = phone
    NOTES.append(note)
    return {"id": id}


@tool(connection="shell", name="say", description="Says it.")
async def speak(words: list[str] = []) -> str:  # noqa: B006
    await asyncio.sleep(0)
    return " ".join(words)


@tool(connection="shell")
async def sleep(seconds: float) -> object:
    await asyncio.sleep(seconds)
    return object()


def module(*tools: Any) -> ModuleType:
    made = ModuleType("tools_of_a_test")
    for one in tools:
        setattr(made, one.__name__, one)
    return made


@pytest.fixture
def python() -> PythonConnection:
    return connections_of([module(get_contact, set_phone)])[0]


@pytest.fixture
def shell() -> PythonConnection:
    return connections_of([module(speak, sleep)])[0]


async def call(connection: PythonConnection, name: str, **given: Any) -> Reply:
    return await connection.call(name, given, timeout=5)


async def test_its_schema_is_its_signature(python: PythonConnection) -> None:
    listed = {one.name: one for one in await python.tools()}
    assert listed["get_contact"].description == "Read a contact."
    schema = listed["set_phone"].schema
    assert schema["required"] == ["id", "phone"]
    assert schema["additionalProperties"] is False


async def test_it_is_registered_with_its_contract(python: PythonConnection) -> None:
    registry = Registry()
    registry.put(python.name, await python.tools(), contracts=python.contracts)
    made = registry.visible("python__set_phone")
    assert made is not None
    assert (made.front, made.pinned, made.why) == (Front.PYTHON, Pinned.SAME, None)
    assert made.classes == {EffectClass.REVERSIBLE}
    assert [one.key for one in choose.touched(made.contract, "python", {"id": "c1"})] == [("c1",)]


async def test_what_it_answers_and_what_it_raises(
    python: PythonConnection, shell: PythonConnection
) -> None:
    assert (await call(python, "get_contact", id="c1")).document == {"id": "c1", "phone": "12"}
    assert await call(shell, "say", words=["a", "b"]) == Reply(False, "a b")
    unknown = await call(python, "get_contact", id="none")
    assert (unknown.is_error, unknown.text) == (True, "'none'")
    assert (await call(shell, "sleep", seconds=0)).is_error


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
async def test_what_is_no_number_is_not_answered_as_if_it_were_nothing(number: float) -> None:
    @tool(connection="odd")
    def measure() -> dict[str, float]:
        return {"value": number}

    [odd] = connections_of([module(measure)])
    reply = await call(odd, "measure")
    assert reply.is_error
    assert reply.structured is None


@pytest.mark.parametrize(
    ("name", "given"),
    [("set_phone", {"id": "c1"}), ("set_phone", {"id": 3, "phone": "1"}), ("none", {})],
)
async def test_wrong_arguments_are_an_error_and_nothing_is_run(
    python: PythonConnection, name: str, given: dict[str, Any]
) -> None:
    reply = await call(python, name, **given)
    assert reply.is_error
    assert BOOK == {"c1": "12"}


async def test_a_key_goes_into_the_argument_that_its_contract_names(
    python: PythonConnection, shell: PythonConnection
) -> None:
    where = Key(arg="note", honoured=60)
    given = {"id": "c1", "phone": "12"}
    assert not (await python.call("set_phone", given, timeout=5, key="f:1", where=where)).is_error
    assert NOTES == ["f:1"]
    assert await shell.call("say", {}, timeout=5, key="f:1") == Reply(False, "")


async def test_one_that_does_not_answer_in_time_is_lost(shell: PythonConnection) -> None:
    with pytest.raises(Lost):
        await shell.call("sleep", {"seconds": 30}, timeout=0.01)


async def test_a_tool_without_a_contract_is_irreversible(shell: PythonConnection) -> None:
    registry = Registry()
    made = registry.put(shell.name, await shell.tools(), contracts=shell.contracts)
    assert {one.worst for one in made} == {EffectClass.IRREVERSIBLE}
    assert all(one.why for one in made)


def test_a_contract_that_contradicts_itself_is_refused_where_it_stands() -> None:
    with pytest.raises(ContractRefused, match="has no `inverse`"):

        @tool(contract={"cases": [{"class": "reversible"}]})
        def broken() -> None: ...


def test_contracts_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ContractRefused, match="`get_contact`, which its server does not have"):
        connections_of([module(set_phone)])


def test_two_tools_of_one_name_are_refused() -> None:
    @tool(connection="shell", name="say")
    def other() -> None: ...

    with pytest.raises(ContractRefused, match=r"Two tools are called `shell\.say`"):
        connections_of([module(speak, other)])


def test_a_tool_names_each_of_its_arguments() -> None:
    with pytest.raises(ContractRefused, match="name each argument"):

        @tool()
        def loose(**anything: str) -> None: ...


@pytest.mark.parametrize("name", ["", "a__b", "A", "a.b", "x" * 33])
def test_a_connection_has_a_name_that_stands_before_tools_names(name: str) -> None:
    with pytest.raises(ContractRefused, match="A connection cannot be called"):
        tool(connection=name)


def test_the_function_stays_what_it_is() -> None:
    assert get_contact("c1").phone == "12"
