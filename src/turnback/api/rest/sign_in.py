"""Signing in and out, and coming as a person, for the page; and who a caller is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from turnback.api.auth import COOKIE
from turnback.api.guard import is_loopback, port_of
from turnback.api.person import cookie_of
from turnback.api.rest.answer import PROBLEMS, json_answer
from turnback.api.rest.request import (
    Body,
    body_of,
    callers_of,
    parsed,
    principal_of,
    read_object,
    sessions_of,
)
from turnback.core.errors import CodeRefused
from turnback.core.principal import LOCAL_PERSON, Principal

router = APIRouter(responses=PROBLEMS)


class SignIn(Body):
    """The API key to sign in with."""

    key: str


class Arrival(Body):
    """The code of the address that was printed: what stands behind its `#`."""

    code: Annotated[str, Field(max_length=200)]


class CallerBody(BaseModel):
    """Who is calling: `principal` in `project`, and its role there; null: it has only grants.

    `key_id` is null as long as there are no keys: then everyone is `local`, and nobody signs in.
    `decides`: what it asks counts as a person's decision; without keys, only with the token.
    """

    principal: str
    project: str
    role: Literal["viewer", "editor", "owner"] | None
    key_id: str | None
    decides: bool


async def _caller(request: Request, principal: Principal) -> dict[str, Any]:
    return {
        "principal": principal.id,
        "project": principal.project_id,
        "role": await sessions_of(request).dao.access.role(principal),
        "key_id": principal.credential,
        "decides": principal.decides,
    }


@router.post("/sign-in", response_model=CallerBody, openapi_extra=body_of(SignIn))
async def sign_in(request: Request) -> Response:
    """Sign in with an API key, for a cookie that is as good as the key for `sign_in_ttl`.

    The cookie is for pages of this server: scripts send the key, and sockets take no cookie.
    """
    asked: SignIn = parsed(SignIn, await read_object(request))
    sessions, seconds = sessions_of(request), sessions_of(request).settings.sign_in_ttl
    principal = await callers_of(request).of_key(request, asked.key)
    secret = await sessions.dao.identities.sign_in(principal, seconds=seconds)
    callers_of(request).remember(secret)
    answer = json_answer(await _caller(request, principal), headers={"cache-control": "no-store"})
    answer.set_cookie(COOKIE, secret, max_age=int(seconds), **_how(request))
    return answer


@router.post("/person", response_model=CallerBody, openapi_extra=body_of(Arrival))
async def arrive(request: Request) -> Response:
    """Swap the code of the printed address for a cookie, by which a page decides as a person.

    Each code is good once, and the cookie until the server ends. Scripts send the token itself.
    """
    asked: Arrival = parsed(Arrival, await read_object(request))
    callers = callers_of(request)
    if not callers.is_local(request):
        raise CodeRefused("This server has API keys: sign in with one")
    secret = callers.person.swap(asked.code, port=port_of(request.scope))
    answer = json_answer(
        await _caller(request, LOCAL_PERSON), headers={"cache-control": "no-store"}
    )
    answer.set_cookie(cookie_of(request), secret, **_how(request))
    return answer


@router.post("/sign-out", status_code=204)
async def sign_out(request: Request) -> Response:
    """Sign out: the cookie that the request came with is good no longer. The key still is."""
    if (secret := request.cookies.get(COOKIE)) is not None:
        await sessions_of(request).dao.identities.sign_out(secret)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, **_how(request))
    return answer


@router.get("/whoami", response_model=CallerBody)
async def whoami(request: Request) -> Response:
    """Who is calling, and what they are in their project."""
    return json_answer(await _caller(request, principal_of(request)))


def _how(request: Request) -> dict[str, Any]:
    # By `Host`: a proxy that ends TLS on this machine reaches us at a loopback address as well.
    secure = not is_loopback(request.url.hostname or "")
    return {"httponly": True, "samesite": "strict", "secure": secure}
