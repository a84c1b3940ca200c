"""The most that can come back of a task, whatever takes it back: by the leaves that it changes.

Neither the service nor a contract has a part in it. A task's calls are made in a world of its own,
and each leaf that differs after them is held against what the tools of a tier can do, as their
sources have it. A power that is measured against this shows how much of what is possible comes
back, and why it is no more: nothing removes a mail, a message or a payment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bench.undo.dojo import Dojo, Path, Task, differing


@dataclass(frozen=True)
class Possible:
    """What the tools of a tier can do about a leaf that was `made`, `gone` or `changed`, by place.

    `back`: there is one that puts it back. `offset`: there is one that does something about it.
    `told`: whatever is put back, somebody was told of it.
    """

    back: tuple[str, ...]
    offset: tuple[str, ...]
    told: tuple[str, ...] = ()

    def fully(self, task: Task) -> bool:
        """Whether all that a task changes can be put back."""
        leaves = list(_changes(task))
        return bool(leaves) and all(
            _among(leaf, self.back) and not _among(leaf, self.told) for leaf in leaves
        )

    def partly(self, task: Task) -> bool:
        """Whether something can be done about anything that it changes."""
        return any(_among(leaf, self.back + self.offset) for leaf in _changes(task))


_BOTH = (
    "made cloud_drive/files/*",
    "changed bank_account/scheduled_transactions/*",
    "changed user_account/street",
    "changed user_account/city",
    "changed user_account/first_name",
    "changed user_account/last_name",
    "changed web/web_content/*",
)

OWN = Possible(
    back=(*_BOTH, "made slack/users/*"),
    offset=(
        "made calendar/events/*/id_",
        "changed calendar/events/*_time",
        "gone cloud_drive/files/*",
    ),
)
"""With the suites' own tools: an event can be cancelled, and is still there."""

ADAPTED = Possible(
    back=(
        *_BOTH,
        "gone cloud_drive/files/*",
        "changed cloud_drive/files/*",
        "changed inbox/emails/*/read",
        "changed reservation/*",
        "made bank_account/scheduled_transactions/*",
        "made slack/user_channels/*",
        "made web/web_content/*",
    ),
    offset=("made calendar/events/*", "changed calendar/events/*", "made slack/users/*"),
    told=("made */shared_with/*", "made */participants/*"),
)
"""With the adapters: an invitation, and what is shared, tells somebody."""


def _changes(task: Task) -> Iterator[str]:
    """Each leaf that a task's calls change, and how."""
    dojo = Dojo(task.id, task.make(), task.functions)
    before = dojo.leaves
    for tool, args in task.truth(dojo.environment):
        dojo.act(tool, args)
    now = dojo.leaves
    for path in differing(before, now):
        how = "made" if path not in before else "gone" if path not in now else "changed"
        place = path
        if path[:2] == ("slack", "user_channels"):
            user: Path = ("slack", "users", path[2])
            place = user if user not in before else path  # who is new goes out of all channels
        yield f"{how} {'/'.join(place)}"


def _among(leaf: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(leaf, pattern) for pattern in patterns)
