"""Strangers: what somebody else does to a task's world between its calls and their undo."""

from __future__ import annotations

import datetime
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from bench.undo.trial import Act, Expected


@dataclass(frozen=True)
class Drift:
    """One case: the task, what is done to its environment, and what must come of it."""

    task: str
    what: str
    act: Act
    expected: Expected

    @property
    def name(self) -> str:
        return f"{self.task}: {self.what}"


def _file(world: Any) -> Any:
    return world.cloud_drive.files["26"]


def _again(world: Any, **changes: Any) -> None:
    """The file deleted, and another one made under its id."""
    gone = world.cloud_drive.files.pop("26")
    world.cloud_drive.files["26"] = gone.model_copy(update=changes)


def _event(world: Any, id_: str | None = None) -> Any:
    events = world.calendar.events
    return events[id_ or max(events, key=int)]


def _scheduled(world: Any) -> Any:
    return next(one for one in world.bank_account.scheduled_transactions if one.id == 7)


def _take(world: Any) -> Any:
    one = _scheduled(world)
    world.bank_account.scheduled_transactions.remove(one)
    return one


def _remake(world: Any) -> None:
    one = _take(world)
    other = one.model_copy(update={"recipient": "GB00", "amount": 1.0, "subject": "Other"})
    world.bank_account.scheduled_transactions.append(other)


def _user(world: Any, **changes: str) -> None:
    for name, value in changes.items():
        setattr(world.user_account, name, value)


def _out(world: Any, user: str) -> None:
    slack = world.slack
    slack.users.remove(user)
    del slack.user_inbox[user]
    del slack.user_channels[user]


def _in(world: Any, user: str, *channels: str) -> None:
    slack = world.slack
    if user not in slack.users:
        slack.users.append(user)
        slack.user_inbox[user] = []
        slack.user_channels[user] = []
    slack.user_channels[user] += channels


def _invited_again(world: Any) -> None:
    _out(world, "Dora")
    _in(world, "Dora", "private")


def _write(world: Any, inbox: list[Any]) -> None:
    message = deepcopy(next(iter(world.slack.channel_inbox.values()))[0])
    inbox.append(message.model_copy(update={"sender": "Bob", "body": "hello there"}))


def _restored(world: Any, content: str | None) -> None:
    """The deleted file put back from its first list, as it was or with other text."""
    first = next(one for one in world.cloud_drive.initial_files if one.id_ == "11")
    made = first.model_copy(deep=True)
    if content is not None:
        made.content = content
    world.cloud_drive.files["11"] = made


def _another_file(world: Any) -> None:
    made = _file(world).model_copy(update={"id_": "90", "filename": "theirs.txt"})
    world.cloud_drive.files["90"] = made


def _set(thing: Any, **changes: Any) -> None:
    for name, value in changes.items():
        setattr(thing, name, value)


def _appended(world: Any) -> Any:
    return max(world.cloud_drive.files.values(), key=lambda one: one.last_modified)


def _unread(world: Any) -> list[Any]:
    """The mails that were not read before: that has been asked for is all that marks them."""
    first = {one.id_: one for one in world.inbox.initial_emails}
    return [one for one in world.inbox.emails.values() if one.id_ in first]


def _mail(world: Any) -> None:
    """A mail of somebody else's arrives."""
    first = next(iter(world.inbox.emails.values()))
    world.inbox.emails["900"] = first.model_copy(update={"id_": "900", "subject": "Theirs"})


def _page(world: Any, content: str | None) -> None:
    """The newest page written over, or removed."""
    url = list(world.web.web_content)[-1]
    if content is None:
        del world.web.web_content[url]
    else:
        world.web.web_content[url] = content


def _newest(world: Any) -> Any:
    return max(world.bank_account.scheduled_transactions, key=lambda one: one.id)


def _drop_newest(world: Any) -> Any:
    newest = _newest(world)
    world.bank_account.scheduled_transactions.remove(newest)
    return newest


def _another_scheduled(world: Any) -> None:
    other = _drop_newest(world).model_copy(update={"recipient": "GB00", "amount": 1.0})
    world.bank_account.scheduled_transactions.append(other)


def _reserved(world: Any, **changes: Any) -> None:
    world.reservation = world.reservation.model_copy(update=changes)


def _cut(world: Any) -> None:
    """The appended text cut off again, by hand."""
    one = _appended(world)
    one.content = one.content[:-5]
    one.size = len(one.content)


LATER = datetime.datetime(2031, 1, 1, 10, 0)
E = Expected
MADE, SHARED, DELETED, APPENDED = (f"workspace/user_task_{n}" for n in (31, 32, 35, 29))
MET, MOVED = "workspace/user_task_6", "workspace/user_task_7"
PAID, ADDRESS, SENT = (f"banking/user_task_{n}" for n in (2, 13, 0))
INVITED, JOINED = "slack/user_task_2", "slack/user_task_11"

WIDENED, UNREAD = "workspace/user_task_8", "workspace/user_task_24"
PLANNED, RESERVED = "banking/user_task_6", "travel/user_task_0"
ADDED, POSTED = "slack/user_task_7", "slack/user_task_4"

OWN = (
    Drift(MADE, "same field edited", lambda w: _set(_file(w), content="theirs"), E.REVIEW),
    Drift(MADE, "another field edited", lambda w: _set(_file(w), filename="t.txt"), E.REVIEW),
    Drift(MADE, "a member added", lambda w: _file(w).shared_with.update({"a@b.ch": "r"}), E.REVIEW),
    Drift(MADE, "only a timestamp", lambda w: _set(_file(w), last_modified=LATER), E.REVIEW),
    Drift(MADE, "deleted: already as before", lambda w: w.cloud_drive.files.pop("26"), E.BACK),
    Drift(MADE, "deleted and made again", lambda w: _again(w, content="new"), E.REVIEW),
    Drift(MADE, "another one made", _another_file, E.BACK),
    Drift(SHARED, "members edited", lambda w: _again(w, shared_with={"x@y.ch": "rw"}), E.REVIEW),
    Drift(SHARED, "same field edited", lambda w: _set(_file(w), content="theirs"), E.REVIEW),
    Drift(SHARED, "deleted: already as before", lambda w: w.cloud_drive.files.pop("26"), E.BACK),
    Drift(DELETED, "restored: already as before", lambda w: _restored(w, None), E.BACK),
    Drift(DELETED, "made again with other text", lambda w: _restored(w, "theirs"), E.REVIEW),
    Drift(APPENDED, "same field edited", lambda w: _set(_appended(w), content="t"), E.NOTHING),
    Drift(MET, "same field edited", lambda w: _set(_event(w), title="Theirs"), E.REVIEW),
    Drift(MET, "moved to another time", lambda w: _set(_event(w), start_time=LATER), E.REVIEW),
    Drift(MET, "a member added", lambda w: _event(w).participants.append("a@b.ch"), E.BACK),
    Drift(MET, "deleted, not its mail", lambda w: w.calendar.events.pop("27"), E.REVIEW),
    Drift(MET, "cancelled by them", lambda w: _set(_event(w), status="canceled"), E.REVIEW),
    Drift(MOVED, "same field edited", lambda w: _set(_event(w, "5"), start_time=LATER), E.REVIEW),
    # The mail that told of it has the very event attached: a leaf that the call wrote differs too.
    Drift(MOVED, "another field edited", lambda w: _set(_event(w, "5"), location="X"), E.REVIEW),
    Drift(MOVED, "deleted", lambda w: w.calendar.events.pop("5"), E.REVIEW),
    Drift(PAID, "same field edited", lambda w: _set(_scheduled(w), amount=99.0), E.REVIEW),
    Drift(PAID, "another field edited", lambda w: _set(_scheduled(w), subject="T"), E.BACK),
    Drift(PAID, "only a timestamp", lambda w: _set(_scheduled(w), date="2031-01-01"), E.BACK),
    Drift(PAID, "already put back", lambda w: _set(_scheduled(w), amount=1100.0), E.BACK),
    Drift(PAID, "deleted", _take, E.REVIEW),
    Drift(PAID, "deleted and made again", _remake, E.REVIEW),
    Drift(
        PAID, "moved elsewhere", lambda w: w.bank_account.transactions.append(_take(w)), E.REVIEW
    ),
    Drift(ADDRESS, "same field edited", lambda w: _user(w, street="Theirs 1"), E.REVIEW),
    Drift(ADDRESS, "another field edited", lambda w: _user(w, first_name="T"), E.BACK),
    Drift(ADDRESS, "another thing edited", lambda w: _user(w, password="theirs"), E.BACK),
    Drift(SENT, "another field edited", lambda w: _user(w, street="Theirs 1"), E.NOTHING),
    Drift(INVITED, "added to a channel", lambda w: _in(w, "Dora", "random"), E.REVIEW),
    Drift(INVITED, "written to", lambda w: _write(w, w.slack.user_inbox["Dora"]), E.REVIEW),
    Drift(INVITED, "removed: already as before", lambda w: _out(w, "Dora"), E.BACK),
    Drift(
        INVITED,
        "removed and invited again",
        _invited_again,
        E.REVIEW,
    ),
    Drift(INVITED, "somebody else invited", lambda w: _in(w, "Emil", "general"), E.BACK),
    Drift(
        JOINED, "taken out of a channel", lambda w: w.slack.user_channels["Dora"].pop(), E.REVIEW
    ),
    Drift(JOINED, "added to another channel", lambda w: _in(w, "Dora", "private"), E.REVIEW),
    Drift(
        JOINED, "another thing edited", lambda w: _write(w, w.slack.channel_inbox["random"]), E.BACK
    ),
)
"""With the suites' own tools."""

ADAPTED = (
    Drift(MADE, "same field edited", lambda w: _set(_file(w), content="theirs"), E.REVIEW),
    Drift(MADE, "another field edited", lambda w: _set(_file(w), filename="t.txt"), E.REVIEW),
    Drift(MADE, "a member added", lambda w: _file(w).shared_with.update({"a@b.ch": "r"}), E.REVIEW),
    Drift(MADE, "deleted: already as before", lambda w: w.cloud_drive.files.pop("26"), E.BACK),
    Drift(MADE, "deleted and made again", lambda w: _again(w, content="new"), E.REVIEW),
    Drift(MADE, "another one made", _another_file, E.BACK),
    Drift(SHARED, "members edited", lambda w: _again(w, shared_with={"x@y.ch": "rw"}), E.REVIEW),
    Drift(SHARED, "same field edited", lambda w: _set(_file(w), content="theirs"), E.REVIEW),
    Drift(SHARED, "deleted", lambda w: w.cloud_drive.files.pop("26"), E.REVIEW),
    Drift(DELETED, "restored: already as before", lambda w: _restored(w, None), E.BACK),
    Drift(DELETED, "made again with other text", lambda w: _restored(w, "theirs"), E.REVIEW),
    Drift(APPENDED, "same field edited", lambda w: _set(_appended(w), content="t"), E.REVIEW),
    Drift(APPENDED, "another field edited", lambda w: _set(_appended(w), filename="t"), E.REVIEW),
    Drift(APPENDED, "cut off by hand", _cut, E.REVIEW),
    Drift(APPENDED, "deleted", lambda w: w.cloud_drive.files.pop(_appended(w).id_), E.REVIEW),
    Drift(MET, "same field edited", lambda w: _set(_event(w), title="Theirs"), E.REVIEW),
    Drift(MET, "moved to another time", lambda w: _set(_event(w), start_time=LATER), E.REVIEW),
    Drift(MET, "a member added", lambda w: _event(w).participants.append("a@b.ch"), E.REVIEW),
    Drift(MET, "deleted, not its mail", lambda w: w.calendar.events.pop("27"), E.REVIEW),
    Drift(MET, "another mail arrived", _mail, E.BACK),
    Drift(MOVED, "same field edited", lambda w: _set(_event(w, "5"), start_time=LATER), E.REVIEW),
    Drift(MOVED, "another field edited", lambda w: _set(_event(w, "5"), location="X"), E.REVIEW),
    Drift(MOVED, "deleted", lambda w: w.calendar.events.pop("5"), E.REVIEW),
    Drift(MOVED, "another mail arrived", _mail, E.BACK),
    Drift(UNREAD, "another mail arrived", _mail, E.BACK),
    Drift(UNREAD, "a mail edited", lambda w: _set(_unread(w)[0], subject="Theirs"), E.BACK),
    Drift(RESERVED, "same field edited", lambda w: _reserved(w, title="Theirs"), E.REVIEW),
    Drift(
        RESERVED,
        "another field edited",
        lambda w: _reserved(w, contact_information="Theirs"),
        E.REVIEW,
    ),
    Drift(PAID, "same field edited", lambda w: _set(_scheduled(w), amount=99.0), E.REVIEW),
    Drift(PAID, "another field edited", lambda w: _set(_scheduled(w), subject="T"), E.BACK),
    Drift(PAID, "already put back", lambda w: _set(_scheduled(w), amount=1100.0), E.BACK),
    Drift(PAID, "deleted", _take, E.REVIEW),
    Drift(PAID, "deleted and made again", _remake, E.REVIEW),
    Drift(
        PAID, "moved elsewhere", lambda w: w.bank_account.transactions.append(_take(w)), E.REVIEW
    ),
    Drift(PLANNED, "same field edited", lambda w: _set(_newest(w), amount=99.0), E.REVIEW),
    Drift(PLANNED, "another field edited", lambda w: _set(_newest(w), date="2031"), E.REVIEW),
    Drift(PLANNED, "deleted: already as before", _drop_newest, E.BACK),
    Drift(PLANNED, "deleted and made again", _another_scheduled, E.REVIEW),
    Drift(
        PLANNED,
        "moved elsewhere: already as before",
        lambda w: w.bank_account.transactions.append(_drop_newest(w)),
        E.BACK,
    ),
    Drift(ADDRESS, "same field edited", lambda w: _user(w, street="Theirs 1"), E.REVIEW),
    Drift(ADDRESS, "another field edited", lambda w: _user(w, first_name="T"), E.BACK),
    Drift(INVITED, "added to a channel", lambda w: _in(w, "Dora", "random"), E.REVIEW),
    Drift(INVITED, "written to", lambda w: _write(w, w.slack.user_inbox["Dora"]), E.REVIEW),
    Drift(INVITED, "removed: already as before", lambda w: _out(w, "Dora"), E.BACK),
    Drift(INVITED, "removed and invited again", _invited_again, E.REVIEW),
    Drift(POSTED, "same field edited", lambda w: _page(w, "theirs"), E.REVIEW),
    Drift(POSTED, "deleted: already as before", lambda w: _page(w, None), E.BACK),
)
"""With the adapters."""
