"""Conditional requests: the tags of `If-Match` and `If-None-Match` (RFC 9110, 13)."""

from __future__ import annotations

import re

from fastapi import Request

from turnback.core.errors import BadInput

_TAG = r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_LIST = re.compile(rf"[ \t]*(?:,[ \t]*)*{_TAG}(?:[ \t]*,(?:[ \t]*{_TAG})?)*[ \t]*")
_ONE = re.compile(_TAG)


def tags(request: Request, header: str) -> list[str] | None:
    """The entity tags that a header lists, as they stand there, or `["*"]`; None without it.

    Raises `BadInput` for what is no list of tags.
    """
    values = request.headers.getlist(header)
    if not values:
        return None
    listed = ", ".join(values)
    if listed.strip() == "*":
        return ["*"]
    if not _LIST.fullmatch(listed):
        raise BadInput(f"`{header}` must be `*` or a list of quoted tags, as `ETag` has them")
    return _ONE.findall(listed)


def is_known(request: Request, etag: str) -> bool:
    """Whether `If-None-Match` names this representation, by the weak comparison: then 304."""
    known = tags(request, "If-None-Match") or []
    return known == ["*"] or etag in [tag.removeprefix("W/") for tag in known]
