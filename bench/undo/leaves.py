"""From a residue's claim to the dump's leaves that it speaks of; the map is frozen.

A claim of one leaf is one path. A claim of a whole thing, which nothing could read, is the list of
that thing's leaves: those of the kind, and of a mail that was sent those of each mail that is new.
"""

from __future__ import annotations

from bench.undo.dojo import Leaves, Path
from turnback.core.undo.rows import Claim

WHOLE: dict[str, tuple[Path, ...]] = {
    "password": (("user_account", "password"),),
    "reservation": tuple(
        ("reservation", name)
        for name in (
            "reservation_type",
            "title",
            "start_time",
            "end_time",
            "contact_information",
        )
    ),
}


def claimed(claim: Claim, before: Leaves, now: Leaves) -> frozenset[Path]:
    """The leaves that a claim is about."""
    kind, path = claim.resource.kind, claim.path
    key = tuple(str(part) for part in claim.resource.key)
    if kind == "sent":
        mails = {leaf[:3] for leaf in now if leaf[:2] == ("inbox", "emails")}
        new = mails - {leaf[:3] for leaf in before}
        return frozenset(leaf for leaf in now if leaf[:3] in new)
    if path == ():
        return frozenset(WHOLE[kind])
    return frozenset({leaf} if (leaf := _leaf(kind, key, path)) is not None else ())


def _leaf(kind: str, key: Path, path: Path) -> Path | None:
    """The one leaf; None of a part that says only that the thing is there."""
    match kind, path:
        case "mails", ("all", *rest):
            return ("inbox", "emails", *rest)
        case "mail", ("it", *rest):
            return ("inbox", "emails", *key, *rest)
        case "event", ("it", "0", *rest) | ("it", *rest):
            return ("calendar", "events", *key, *rest)
        case "reservation", ("it", *rest):
            return ("reservation", *rest)
        case "file", ("it", *rest):
            return ("cloud_drive", "files", *key, *rest)
        case "files", ("all", *rest):
            return ("cloud_drive", "files", *rest)
        case "transactions", ("all", *rest):
            return ("bank_account", "transactions", *rest)
        case "planned", ("all", *rest):
            return ("bank_account", "scheduled_transactions", *rest)
        case "scheduled", ("it", "0", *rest) | ("it", *rest):
            return ("bank_account", "scheduled_transactions", *key, *rest)
        case "user", ("info", *rest):
            return ("user_account", *rest)
        case "channel", ("messages", *rest):
            return ("slack", "channel_inbox", *key, *rest)
        case "inbox", ("messages", *rest):
            return ("slack", "user_inbox", *key, *rest)
        case "member", ("users", *_):
            return ("slack", "user_channels", *key)
        case "inbox", ("user",):
            return ("slack", "users", *key)
        case "page", ("content",):
            return ("web", "web_content", *key)
        case "channel", ("name",):
            return None
        case _:
            raise AssertionError(f"no leaf is known for a `{kind}` at {path}")
