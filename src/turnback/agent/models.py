"""Models by name: what `TURNBACK_MODEL` names becomes something that can be streamed from.

`offline` is the built-in stand-in (offline.py). Every other name is `PROVIDER:NAME` as pydantic-ai
has it. Only here is it known which providers there are and how their failures read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import metadata
from types import TracebackType
from typing import Any, Protocol, Self

import httpx2
from pydantic_ai import exceptions as provider_errors
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.tools import ToolDefinition

from turnback.agent import offline, structured
from turnback.agent.http import client
from turnback.agent.prompt import Instructions, instructions, tokens_of_tools
from turnback.core.errors import ModelNotConfigured, TurnbackError
from turnback.core.workflow import Workflow
from turnback.settings import OFFLINE, Settings

STRUCTURED = "structured:"

FIRST_PAUSE = 0.5  # seconds before the second try of a model call; doubled before each after it
LONGEST_PAUSE = 8.0


class Streamed(Protocol):
    """A model's reply as it arrives: to be iterated once, then `get` has all of it."""

    def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]: ...

    def get(self) -> ModelResponse:
        """The reply as its provider gave it."""


@dataclass(frozen=True, kw_only=True)
class ChatModel:
    """A model to stream from.

    `name` is the name it was resolved by. `counts_tokens` is false where a usage figure would be
    made up. `structured` is one that answers by actions (structured.py), of which no reply may be
    longer than `max_reply_bytes`; others are bounded by whoever takes their replies. `sends_images`
    is false where an administrator says that it takes none. As an async context manager it closes
    its connections, for good; it works without being entered.
    """

    name: str
    model: Model
    counts_tokens: bool = True
    structured: bool = False
    max_reply_bytes: int = sys.maxsize
    http: httpx2.AsyncClient | None = None
    sends_images: bool = True

    @property
    def takes_images(self) -> bool:
        """Whether it can be sent images."""
        takes = self.model.profile.get("supports_image_input", True)
        return self.sends_images and takes and not self.structured

    @property
    def instructions(self) -> Instructions:
        """What this model is told ahead of a conversation."""
        return structured.instructions if self.structured else instructions

    def tokens_beside(self, tools: Sequence[ToolDefinition]) -> int:
        """How many tokens a request takes beside its messages, with `tools` offered."""
        return structured.example_tokens() if self.structured else tokens_of_tools(tools)

    def stream(
        self,
        messages: Sequence[ModelMessage],
        *,
        tools: Sequence[ToolDefinition],
        workflow: Workflow,
    ) -> AbstractAsyncContextManager[Streamed]:
        """One model call, tried once, on the `workflow` that `messages` tell of.

        Leaving the context closes the stream and its connection.
        """
        if self.structured:
            names = [tool.name for tool in tools]
            return structured.stream(
                self.model,
                messages,
                tools=names,
                workflow=workflow,
                max_reply_bytes=self.max_reply_bytes,
            )
        return model_request_stream(
            self.model,
            messages,
            # Whether to try again is decided in one place, where Stop is heard too: the loop.
            model_settings={"max_retries": 0},
            model_request_parameters=ModelRequestParameters(function_tools=list(tools)),
            instrument=False,
        )

    async def __aenter__(self) -> Self:
        await self.model.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.model.__aexit__(kind, error, trace)
        if self.http is not None:
            await self.http.aclose()


def resolve(settings: Settings, *, name: str | None = None) -> ChatModel:
    """The model called `name`, or else the one in the settings. Touches no network.

    With a base URL, `openai:` speaks chat completions there, as Ollama, vLLM and LiteLLM do, and
    sends only the key of our own settings: a key in the environment may be another service's.
    `structured:openai:` is the same for a model that makes no tool calls of its own.

    Raises `ModelNotConfigured`; its message names the setting to change.
    """
    name = name or settings.model
    if name == OFFLINE:
        return ChatModel(
            name=name, model=offline.model(delay_ms=settings.offline_delay_ms), counts_tokens=False
        )
    given, is_structured = name.removeprefix(STRUCTURED), name.startswith(STRUCTURED)
    provider, _, model_name = given.partition(":")
    if is_structured and (provider != "openai" or not settings.model_base_url):
        raise ModelNotConfigured(
            f"`{name}` cannot be used: `{STRUCTURED}` goes before `openai:NAME`, with the address "
            "of a server that keeps to a JSON schema in `TURNBACK_MODEL_BASE_URL`.",
            setting="model_base_url",
        )
    if not provider or not model_name:
        raise ModelNotConfigured(
            f"`{name}` is not a model: set `TURNBACK_MODEL` to `offline` or `PROVIDER:NAME`, "
            "such as `openai:gpt-5-mini`.",
            setting="model",
        )
    key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
    if provider == "openai" and settings.model_base_url:
        http = client(max_reply_bytes=settings.max_reply_bytes)
        model = _chat_completions(model_name, settings.model_base_url, key, http)
        return ChatModel(
            name=name,
            model=model,
            structured=is_structured,
            max_reply_bytes=settings.max_reply_bytes,
            http=http,
            sends_images=settings.model_images,
        )
    options = {"base_url": settings.model_base_url, "api_key": key}
    return ChatModel(
        name=name,
        model=_inferred(name, {k: v for k, v in options.items() if v is not None}),
        sends_images=settings.model_images,
    )


def _chat_completions(
    model_name: str, base_url: str, key: str | None, http: httpx2.AsyncClient
) -> Model:
    # The client costs half a second to import, which the offline model need not wait for.
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # A stream that ends without a finish reason was cut: its text is not the model's answer.
    profile = OpenAIModelProfile(
        openai_chat_streaming_requires_finish_reason=True, supports_json_schema_output=True
    )
    provider = OpenAICompatibleProvider(
        "openai-compatible", base_url=base_url, api_key=key, http_client=http, profile=profile
    )
    return OpenAIChatModel(model_name, provider=provider)


def _inferred(name: str, options: dict[str, str]) -> Model:
    def provider(provider_name: str) -> Provider[Any]:
        provider_class: Any = infer_provider_class(provider_name)
        made: Provider[Any] = provider_class(**options)
        return made

    try:
        return infer_model(name, provider) if options else infer_model(name)
    except ImportError as error:
        raise ModelNotConfigured(
            f"`{name}` needs a package that is not installed: `pip install {_extra(str(error))}`.",
            setting="model",
        ) from error
    except TypeError as error:
        given = " and ".join(f"`TURNBACK_MODEL_{option.upper()}`" for option in options)
        raise ModelNotConfigured(
            f"The provider of `{name}` does not take {given}: unset it and set what the provider "
            "itself reads from the environment.",
            setting="model_base_url" if "base_url" in options else "model_api_key",
        ) from error
    except ValueError as error:
        raise _unknown(name) from error
    except UserError as error:
        if "Unknown model" in error.message:
            raise _unknown(name) from error
        wanted = "base_url" if re.search("base_url|endpoint", error.message) else "api_key"
        own = "".join(f" or `{v}`" for v in re.findall(r"`([A-Z0-9_]+)`", error.message)[:1])
        raise ModelNotConfigured(
            f"`{name}` cannot be used yet: set `TURNBACK_MODEL_{wanted.upper()}`{own}.",
            setting=f"model_{wanted}",
        ) from error


def _unknown(name: str) -> ModelNotConfigured:
    return ModelNotConfigured(
        f"`{name}` names no known provider: set `TURNBACK_MODEL` to `offline`, `openai:NAME`, "
        "`anthropic:NAME` or another that pydantic-ai has.",
        setting="model",
    )


def _extra(message: str) -> str:
    """What to install, out of pydantic-ai's own advice; our extra where we have one."""
    named = re.search(r"pydantic-ai-slim\[([\w-]+)\]", message)
    if not named:
        return '"pydantic-ai"'
    ours = metadata("turnback").get_all("Provides-Extra") or []
    return f'"turnback[{named[1]}]"' if named[1] in ours else f'"{named[0]}"'


def pause_before_retry(error: BaseException, *, tries: int) -> float | None:
    """Seconds to wait before the next try, after `tries` that failed; None where it is of no use.

    A provider that says how long to wait is heard (`Retry-After`, RFC 9110 10.2.3).
    """
    match error:
        case provider_errors.ModelHTTPError(headers={"x-should-retry": "false"}):
            return None
        case (
            provider_errors.ModelRateLimitError()
            | provider_errors.ModelUnavailableError()
            | provider_errors.ModelServerError()
            | provider_errors.ModelConnectionError()
        ):
            asked: float | None = error.retry_after
            return min(FIRST_PAUSE * 2.0 ** (tries - 1), LONGEST_PAUSE) if asked is None else asked
        case _:
            return None


def failure_sentence(error: BaseException) -> str:
    """Why a model call failed, for a person: one sentence, no secret, no trace, no foreign text."""
    match error:
        case TurnbackError():
            return error.message
        case provider_errors.ModelAuthenticationError():
            return "the model's provider refused the key; check `TURNBACK_MODEL_API_KEY`."
        case provider_errors.ModelNotFoundError():
            return (
                "the model's provider does not know this model or address; check "
                "`TURNBACK_MODEL` and `TURNBACK_MODEL_BASE_URL`."
            )
        case provider_errors.ModelContextWindowExceededError():
            return (
                "the conversation is too long for this model; lower `TURNBACK_MAX_CONTEXT_TOKENS`."
            )
        case provider_errors.ModelRateLimitError():
            return "the model's provider is limiting our rate; try again in a while."
        case provider_errors.ModelQuotaExceededError():
            return "the account at the model's provider has no quota left; see to it there."
        case provider_errors.ModelTimeoutError() | provider_errors.ModelRequestTimeout():
            return "the model's provider took too long; prompt again."
        case provider_errors.ModelConnectionError(phase="connect"):
            return "the model's provider cannot be reached; check `TURNBACK_MODEL_BASE_URL`."
        case provider_errors.ModelConnectionError():
            return "the connection to the model's provider broke off; prompt again."
        case provider_errors.ModelHTTPError():
            advice = "prompt again in a while"
            if error.status_code < 500:
                advice = "check `TURNBACK_MODEL` and `TURNBACK_MODEL_BASE_URL`"
            return f"the model's provider answered with status {error.status_code}; {advice}."
        case provider_errors.ContentFilterError():
            return "the model's provider filtered the answer; put it in other words."
        case provider_errors.ModelAPIError() | provider_errors.UnexpectedModelBehavior():
            return "the model's answer was cut short or could not be read; prompt again."
        case _:
            return f"the model failed unexpectedly (`{type(error).__name__}`); prompt again."
