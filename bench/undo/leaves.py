"""From a residue's claim to the dump's leaves that it speaks of; the map is frozen.

A claim of one leaf is one path. A claim of a whole thing, which nothing could read, is the list of
that thing's leaves: those of the kind, those under its key, and of a mail that was sent those of
each new mail about the same.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

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
        new = {mail for mail in mails - {leaf[:3] for leaf in before} if _tells(mail, key[0], now)}
        return frozenset(leaf for leaf in now if leaf[:3] in new)
    if kind == "trash":
        trash = ("inbox", "trash")  # that it is empty is a leaf of its own
        return frozenset(
            leaf
            for leaf in before.keys() | now.keys()
            if leaf in (trash, (*trash, key[0], *leaf[3:]))
        )
    if kind == "mail" and path == ("folder",):
        folders = ("emails", key[0]), ("trash", key[0])
        its = frozenset(leaf for leaf in before.keys() | now.keys() if leaf[1:3] in folders)
        trashed = any(leaf[1] == "trash" for leaf in its)  # then the trash is, or was, not empty
        return its | {("inbox", "trash")} if trashed else its
    if path == () and kind in WHOLE:
        return frozenset(WHOLE[kind])
    if path == ():
        return _whole(kind, key, before.keys() | now.keys())
    return frozenset({leaf} if (leaf := _leaf(kind, key, path)) is not None else ())


THINGS: dict[str, tuple[Path, ...]] = {
    "mails": (("inbox", "emails"),),
    "mail": (("inbox", "emails"), ("inbox", "trash")),
    "event": (("calendar", "events"),),
    "file": (("cloud_drive", "files"),),
    "files": (("cloud_drive", "files"),),
    "transactions": (("bank_account", "transactions"),),
    "planned": (("bank_account", "scheduled_transactions"),),
    "scheduled": (("bank_account", "scheduled_transactions"),),
    "user": (("user_account",),),
    "channel": (("slack", "channel_inbox"),),
    "inbox": (("slack", "user_inbox"), ("slack", "users")),
    "member": (("slack", "user_channels"),),
    "page": (("web", "web_content"),),
}
"""Where the things of a kind are, each under its key: of what was read, but is not known now."""


def _whole(kind: str, key: Path, leaves: AbstractSet[Path]) -> frozenset[Path]:
    """Every leaf of one thing, each by its path."""
    under = [(*place, *key) for place in THINGS[kind]]
    return frozenset(leaf for leaf in leaves if any(leaf[: len(one)] == one for one in under))


def _tells(mail: Path, about: str, now: Leaves) -> bool:
    """Whether a mail has this subject, or the event of this name or id attached."""
    attached = now.get((*mail, "attachments", "0", "id_"))
    return about in str(now[*mail, "subject"]) or attached == about


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
