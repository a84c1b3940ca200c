"""What of a call is secret is shown to nobody, wherever it stands."""

from __future__ import annotations

from typing import Any

import pytest
from any_json import json_values
from hypothesis import given, settings

from turnback.core.contracts.model import Contract, parse
from turnback.core.contracts.secrets import (
    HIDDEN,
    edited_args,
    has_secrets,
    shown_args,
    shown_result,
    without_secrets,
)
from turnback.core.errors import InvalidArguments

PASSWORDS = parse(
    {
        "secret": [{"$": "$.args..password"}, {"$1": "$.result.token"}],
        "resources": {
            "login": {
                "key": ["id"],
                "read": {"call": "get", "args": {"id": {"$1": "$.key.id"}}},
                "state": {"hash": {"$1": "$.now.hash"}, "codes": {"$1": "$.now.codes"}},
                "compare": "set",
                "secret": ["codes"],
            }
        },
        "touches": [{"login": {"id": {"$1": "$.args.id"}}}],
    },
    of="set_password",
)


def test_secrets_of_arguments_and_results_are_hidden_wherever_they_stand() -> None:
    args = {"id": 1, "users": [{"name": "ann", "password": "x1"}], "password": {"old": "x2"}}
    assert shown_args(PASSWORDS, args) == {
        "id": 1,
        "users": [{"name": "ann", "password": HIDDEN}],
        "password": HIDDEN,
    }
    assert args["password"] == {"old": "x2"}
    assert shown_result(PASSWORDS, args, {"id": 1, "token": "x3"}) == {"id": 1, "token": HIDDEN}
    assert shown_result(PASSWORDS, args, None) is None


def test_what_cannot_be_made_out_is_hidden_whole() -> None:
    by_result = parse({"secret": [{"$": "$.args[?@ == $.result.code]"}]}, of="t")
    assert shown_args(by_result, {"a": 1, "b": 2}) == {"a": HIDDEN, "b": HIDDEN}


def test_whether_a_contract_has_secrets() -> None:
    assert has_secrets(PASSWORDS)
    assert has_secrets(PASSWORDS.model_copy(update={"secret": ()}))
    assert not has_secrets(PASSWORDS.model_copy(update={"secret": (), "touches": ()}))
    assert not has_secrets(Contract())


@settings(deadline=None)
@given(value=json_values)
def test_no_json_keeps_a_secret_from_being_hidden(value: Any) -> None:
    secret = "x-never-shown-x"
    args = {"a": value, "b": [{"password": secret, "c": value}], "password": secret}
    assert secret not in repr(shown_args(PASSWORDS, args))


def test_what_a_person_has_edited_gets_the_secrets_that_they_were_not_shown() -> None:
    proposed = {"user": "ann", "password": "x1", "more": {"password": 2}}
    edited = {"user": "bo", "password": HIDDEN, "more": {"password": HIDDEN}}
    assert edited_args(PASSWORDS, proposed, edited) == proposed | {"user": "bo"}
    assert edited_args(PASSWORDS, proposed, {"user": "bo"}) == {"user": "bo"}


@pytest.mark.parametrize(
    "edited",
    [
        {"password": "mine", "users": []},
        {"users": [{"name": "b", "password": HIDDEN}]},
        {"other": {"password": HIDDEN}},
    ],
)
def test_a_secret_is_not_edited_nor_given_to_another(edited: dict[str, Any]) -> None:
    users = [{"name": "a", "password": "1"}, {"name": "b", "password": "2"}]
    with pytest.raises(InvalidArguments, match="deny the call"):
        edited_args(PASSWORDS, {"password": "x", "users": users}, edited)


def test_a_text_is_shown_without_the_secrets_that_it_quotes() -> None:
    args = {"password": 'o"pen', "deep": [{"password": {"pin": 4711}}], "user": "ann"}
    said = 'ann: "o\\"pen", o"pen and 4711 are wrong'
    assert without_secrets(PASSWORDS, args, said) == (
        f'ann: "{HIDDEN}", {HIDDEN} and {HIDDEN} are wrong'
    )
