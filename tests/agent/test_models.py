"""Models by name: what each setting leads to, and what is said when one is missing."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from processes import eventually
from pydantic import SecretStr
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from scripted_provider import ScriptedProvider, text

from turnback.agent.conversation import Conversation
from turnback.agent.models import ChatModel, failure_sentence, resolve
from turnback.agent.steps import PastStep
from turnback.core.errors import ModelNotConfigured, TooLarge
from turnback.core.tree import Role
from turnback.core.workflow import EMPTY
from turnback.settings import Settings

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_BASE_URL")


@pytest.fixture(autouse=True)
def no_keys_and_no_network(monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    if "provider" not in request.fixturenames:

        def refuse(*_: object) -> None:
            raise AssertionError("resolving a model opened a connection")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)


async def say(model: ChatModel) -> str:
    conversation = Conversation([PastStep(role=Role.USER, content="hi")], max_tokens=30_000)
    async with model.stream(conversation.messages(EMPTY), tools=(), workflow=EMPTY) as stream:
        async for _ in stream:
            pass
        return stream.get().text or ""


def test_the_default_is_the_offline_stand_in() -> None:
    model = resolve(Settings())
    assert model.name == "offline"
    assert isinstance(model.model, FunctionModel)
    assert not model.counts_tokens


def test_a_name_goes_before_the_settings() -> None:
    settings = Settings(model="openai:x", model_base_url="http://127.0.0.1:1/v1")
    assert resolve(settings, name="offline").name == "offline"
    assert resolve(settings).name == "openai:x"


async def test_openai_with_a_base_url_speaks_chat_completions_there(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    settings = Settings(model="openai:llama-3:8b", model_base_url=provider.url)
    provider.will([text("Hello.")])
    async with resolve(settings) as model:
        assert isinstance(model.model, OpenAIChatModel)
        assert await say(model) == "Hello."
    assert provider.requests[0]["model"] == "llama-3:8b"
    assert "sk-of-another-service" not in provider.headers[0]["authorization"]


async def test_our_own_key_is_sent_to_the_base_url(provider: ScriptedProvider) -> None:
    settings = Settings(
        model="openai:x", model_base_url=provider.url, model_api_key=SecretStr("ours")
    )
    provider.will([text("Hello.")])
    async with resolve(settings) as model:
        await say(model)
    assert provider.headers[0]["authorization"] == "Bearer ours"


async def test_a_model_that_is_left_keeps_no_connection(provider: ScriptedProvider) -> None:
    model = resolve(Settings(model="openai:x", model_base_url=provider.url))
    provider.will([text("Hello.")])
    async with model:
        await say(model)
        assert provider.connections == 1
    await eventually(lambda: not provider.connections)


def test_openai_without_a_base_url_is_openai_itself() -> None:
    model = resolve(Settings(model="openai:gpt-5-mini", model_api_key=SecretStr("sk-x")))
    assert isinstance(model.model, OpenAIResponsesModel)
    assert "api.openai.com" in str(model.model.base_url)


def test_a_key_in_the_environment_is_enough_for_the_provider_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    assert isinstance(resolve(Settings(model="openai:gpt-5-mini")).model, OpenAIResponsesModel)


@pytest.mark.parametrize(
    ("settings", "said", "setting"),
    [
        (
            {"model": "openai:gpt-5-mini"},
            "`openai:gpt-5-mini` cannot be used yet: set `TURNBACK_MODEL_API_KEY` or "
            "`OPENAI_API_KEY`.",
            "model_api_key",
        ),
        (
            {"model": "ollama:llama3"},
            "`ollama:llama3` cannot be used yet: set `TURNBACK_MODEL_BASE_URL` or "
            "`OLLAMA_BASE_URL`.",
            "model_base_url",
        ),
        ({"model": "cohere:command"}, '`pip install "pydantic-ai-slim[cohere]"`', "model"),
        ({"model": "nonsense:x"}, "`nonsense:x` names no known provider", "model"),
        (
            {"model": "nonsense:x", "model_api_key": "k"},
            "`nonsense:x` names no known provider",
            "model",
        ),
        ({"model": "gpt-5"}, "`gpt-5` is not a model: set `TURNBACK_MODEL`", "model"),
        ({"model": "openai:"}, "`openai:` is not a model", "model"),
        ({"model": ":x"}, "`:x` is not a model", "model"),
        ({"model": "test"}, "`test` is not a model", "model"),
        (
            {"model": "deepseek:chat", "model_base_url": "http://127.0.0.1/v1"},
            "does not take `TURNBACK_MODEL_BASE_URL`",
            "model_base_url",
        ),
    ],
)
def test_what_cannot_be_used_names_the_setting_to_change(
    settings: dict[str, Any], said: str, setting: str
) -> None:
    with pytest.raises(ModelNotConfigured) as raised:
        resolve(Settings(**settings))
    assert said in raised.value.message
    assert raised.value.data == {"setting": setting}


def test_a_missing_package_is_named_as_our_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the package were not installed, wherever this runs.
    monkeypatch.setitem(__import__("sys").modules, "anthropic", None)
    monkeypatch.delitem(__import__("sys").modules, "pydantic_ai.providers.anthropic", raising=False)
    with pytest.raises(ModelNotConfigured) as raised:
        resolve(Settings(model="anthropic:claude-sonnet-4-5"))
    assert '`pip install "turnback[anthropic]"`' in raised.value.message


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TooLarge("too much."), "too much."),
        (
            ModelHTTPError(503, "x", body={"message": "sk-secret"}),
            "the model's provider answered with status 503; prompt again in a while.",
        ),
        (ValueError("sk-secret"), "the model failed unexpectedly (`ValueError`); prompt again."),
    ],
)
def test_a_failure_is_one_sentence_without_the_providers_words(error: Exception, said: str) -> None:
    assert failure_sentence(error) == said
