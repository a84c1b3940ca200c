"""Attaching files over REST: what the tests of attachments share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from serving import Server

CSV = b"id,total\n1,20\n"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\6\0\0\0\x1f\x15\xc4\x89"


async def upload(
    server: Any, session: str, content: bytes = CSV, *, name: str = "orders.csv", key: str = ""
) -> httpx.Response:
    answer: httpx.Response = await server.http.post(
        f"/sessions/{session}/attachments",
        params={"name": name},
        content=content,
        headers={"idempotency-key": key} if key else {},
    )
    return answer


async def attached(server: Any, session: str, content: bytes = CSV, **more: str) -> dict[str, Any]:
    answer = await upload(server, session, content, **more)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def files(server: Server) -> list[Path]:
    """Every file in the folder of attachments, uploads under way among them."""
    return [path for path in server.settings.attachments_folder.rglob("*") if path.is_file()]
