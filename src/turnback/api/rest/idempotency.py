"""`Idempotency-Key`: a POST that creates, sent again, makes nothing again (protocol.md 3).

One mechanism for all of them. The route does its work under the id that the key reserves, and the
work is idempotent in that id; so neither a crash nor a lost answer makes anything twice. Refusals
are not kept: what was refused may be sent again, corrected, with the same key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from fastapi import Request, Response

from turnback.api.rest.request import principal_of, sessions_of
from turnback.core.errors import BadInput, DatabaseUnavailable, Refusal, TurnbackError
from turnback.store.ids import new_id
from turnback.store.keys import Answer, Claim

log = structlog.get_logger()

HEADER = "idempotency-key"
_KEY = re.compile(r"[!-~]{1,200}")

IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "A key of the client's own making. The same key with the same body is answered as the "
        "first time and makes nothing again; with another body, or for another route, it is "
        "refused with 422 `idempotency_conflict`; while the first is being answered, with 409 "
        "`idempotency_running` and `Retry-After`. Kept for `idempotency_ttl`; refusals are not."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
"""The header as OpenAPI has it."""


@asynccontextmanager
async def idempotent(
    request: Request, body: bytes, *, session_id: str | None = None
) -> AsyncIterator[Claim]:
    """The claim of the request's key, held within; without a key, a claim that nobody else knows.

    Where `claim.answer` is set, the request has been answered before, and the caller may still read
    what it is about: `session_id`, or the session that it made. Otherwise its work is to be done
    under `claim.id`, and `claim.answer` to be set. Raises `BadInput`, `KeyTaken`, `KeyRunning`,
    `SessionNotFound`.
    """
    key = _key(request)
    if key is None:
        yield Claim(None, new_id(), first=True)
        return
    sessions, settings = sessions_of(request), sessions_of(request).settings
    keys = sessions.dao.keys
    # Beyond this nobody is being answered any more, whatever has become of the process.
    expiry = settings.wait_timeout + 2 * settings.db_statement_timeout
    claim = await keys.claim(principal_of(request), key, _fingerprint(request, body), expiry=expiry)
    if claim.answer is not None:
        made = session_id or _made(claim.answer) or claim.id
        await sessions.dao.session(principal_of(request), made)  # it may have been deleted since
        yield claim
        return
    forget = False
    try:
        yield claim
    except TurnbackError as error:
        # After a failure of ours the work may have been done: the id stays reserved for it.
        forget = claim.first and (error.status < 500 or isinstance(error, Refusal))
        raise
    finally:
        try:
            await keys.release(claim, forget=forget)
        except DatabaseUnavailable as error:
            log.warning("idempotency key not released", code=error.code)


def response(answer: Answer) -> Response:
    """An answer, the first time and every time."""
    headers = {} if answer.location is None else {"location": answer.location}
    return Response(
        answer.body, status_code=answer.status, media_type="application/json", headers=headers
    )


def _key(request: Request) -> str | None:
    found = request.headers.getlist(HEADER)
    if not found:
        return None
    if len(found) > 1 or not _KEY.fullmatch(found[0]):
        raise BadInput("`Idempotency-Key` must be 1 to 200 printable ASCII characters, no spaces")
    return found[0]


def _made(answer: Answer) -> str | None:
    """The session that an answer's `Location` is of."""
    return None if answer.location is None else answer.location.split("/")[2]


def _fingerprint(request: Request, body: bytes) -> bytes:
    content = f"{request.method} {request.url.path}\n".encode() + body
    return hashlib.blake2b(content, digest_size=20).digest()
