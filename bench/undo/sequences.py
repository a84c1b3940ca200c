"""Calls that no task has: drawn at random from a suite's tools, with strangers in between.

A seed is a whole story: turns of a few calls each, whose arguments are things that are there; what
strangers do between them, before the undo and while it goes on; and which calls of the undo go
wrong. What is drawn is what somebody in their senses may do: nobody is put into a channel twice,
and of the calendar each event is written to once, since the mails that told of it have the very
event attached and so change along with it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from bench.undo.dojo import Fault, Task, ToolCall
from bench.undo.scene import Scene, Tier, scene
from bench.undo.service import Service
from bench.undo.trial import Trial, taken_back

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
PEOPLE = ("ann@x.org", "bo@x.org", "cy@x.org")
DAYS = {"start_day": "2031-01-01", "end_day": "2031-01-02"}

Draw = Callable[["Story"], ToolCall | None]


class Story:
    """One seed in one world."""

    def __init__(self, seed: int, suite: str, world: Any) -> None:
        self.random = Random(f"{suite} {seed}")
        self.suite = suite
        self.world = world
        calendar = getattr(world, "calendar", None)
        self.events = set() if calendar is None else set(calendar.events)
        self.members: set[tuple[str, str]] = set()

    def of(self, some: Sequence[Any]) -> Any:
        return self.random.choice(some)

    def word(self) -> str:
        return f"{self.of(WORDS)} {self.random.randrange(1_000)}"

    def may(self, share: float) -> bool:
        return self.random.random() < share

    def event(self) -> str | None:
        """One of those that were there at first and still are, not written to by us."""
        left = sorted(self.events & self.world.calendar.events.keys())
        if not left:
            return None
        id_ = str(self.of(left))
        self.events.remove(id_)
        return id_

    def file(self) -> str:
        return str(self.of(sorted(self.world.cloud_drive.files)))

    def turn(self) -> list[ToolCall]:
        """One to three calls."""
        draws = CALLS[self.suite]
        drawn = (self.of(draws)(self) for _ in range(self.random.randint(1, 3)))
        return [call for call in drawn if call is not None]

    def stranger(self) -> Callable[[Any], object]:
        """What somebody else does, if there is anything left to do it to."""
        act = self.of(ACTS[self.suite])

        def acting(world: Any) -> None:
            with suppress(IndexError):  # of each act the choice comes first
                act(self, world)

        return acting

    def fault(self) -> Fault | None:
        return self.of(tuple(Fault)) if self.may(0.3) else None


def _time(story: Story) -> str:
    return f"2031-0{story.random.randint(1, 9)}-1{story.random.randint(0, 9)} 10:00"


def _create_event(story: Story) -> ToolCall:
    start = _time(story)
    people = [story.of(PEOPLE)] if story.may(0.5) else []
    return "create_calendar_event", {
        "title": story.word(),
        "start_time": start,
        "end_time": start.replace("10:00", "11:00"),
        "participants": people,
    }


def _on_event(tool: str, args: Callable[[Story], dict[str, Any]]) -> Draw:
    def draw(story: Story) -> ToolCall | None:
        id_ = story.event()
        return None if id_ is None else (tool, {"event_id": id_} | args(story))

    return draw


def _send_email(story: Story) -> ToolCall:
    said = {"subject": story.word(), "body": story.word()}
    return "send_email", {"recipients": [story.of(PEOPLE)]} | said


def _add_user(story: Story) -> ToolCall | None:
    slack = story.world.slack
    free = [
        (user, channel)
        for user in slack.users
        for channel in slack.channels
        if channel not in slack.user_channels[user] and (user, channel) not in story.members
    ]
    if not free:
        return None
    user, channel = story.of(free)
    story.members.add((user, channel))
    return "add_user_to_channel", {"user": user, "channel": channel}


def _scheduled(story: Story) -> ToolCall | None:
    planned = story.world.bank_account.scheduled_transactions
    if not planned:
        return None
    changes = {"amount": story.random.randint(1, 99), "subject": story.word(), "date": "2031-01-01"}
    name = story.of(tuple(changes))
    return "update_scheduled_transaction", {"id": story.of(planned).id, name: changes[name]}


def _payment(story: Story) -> dict[str, Any]:
    return {
        "recipient": "GB29NWBK60161331926819",
        "amount": story.random.randint(1, 99),
        "subject": story.word(),
        "date": "2031-01-01",
    }


def _post(story: Story) -> ToolCall:
    pages = list(story.world.web.web_content)
    url = story.of(pages) if story.may(0.6) else f"www.{story.of(WORDS)}.org"
    return "post_webpage", {"url": url, "content": story.word()}


OFFICE: tuple[Draw, ...] = (
    _create_event,
    _on_event("cancel_calendar_event", lambda _: {}),
    _send_email,
)

CALLS: dict[str, tuple[Draw, ...]] = {
    "workspace": (
        *OFFICE,
        _on_event("reschedule_calendar_event", lambda s: {"new_start_time": _time(s)}),
        _on_event("add_calendar_event_participants", lambda s: {"participants": [s.of(PEOPLE)]}),
        lambda s: ("create_file", {"filename": s.word(), "content": s.word()}),
        lambda s: ("create_file", {"filename": s.word(), "content": s.word()}),
        lambda s: ("append_to_file", {"file_id": s.file(), "content": s.word()}),
        lambda s: ("append_to_file", {"file_id": s.file(), "content": s.word()}),
        lambda s: ("delete_file", {"file_id": s.file()}),
        lambda s: (
            "share_file",
            {"file_id": s.file(), "email": s.of(PEOPLE), "permission": s.of(("r", "rw"))},
        ),
        lambda s: ("delete_email", {"email_id": s.of(sorted(s.world.inbox.emails))}),
        lambda _: ("get_unread_emails", {}),
    ),
    "travel": (
        *OFFICE,
        lambda s: ("reserve_hotel", DAYS | {"hotel": s.of(s.world.hotels.hotel_list).name}),
        lambda s: (
            "reserve_restaurant",
            {
                "restaurant": s.of(s.world.restaurants.restaurant_list).name,
                "start_time": "2031-01-01 19:00",
            },
        ),
        lambda s: (
            "reserve_car_rental",
            {
                "company": s.of(s.world.car_rental.company_list).name,
                "start_time": "2031-01-01 09:00",
                "end_time": "2031-01-02 09:00",
            },
        ),
    ),
    "banking": (
        _scheduled,
        _scheduled,
        lambda s: ("update_user_info", {s.of(("street", "city", "first_name")): s.word()}),
        lambda s: ("update_user_info", {s.of(("street", "city", "first_name")): s.word()}),
        lambda s: ("send_money", _payment(s)),
        lambda s: ("schedule_transaction", _payment(s) | {"recurring": s.may(0.5)}),
        lambda s: ("update_password", {"password": s.word()}),
    ),
    "slack": (
        _add_user,
        _add_user,
        _post,
        _post,
        lambda s: (
            "send_direct_message",
            {"recipient": s.of(s.world.slack.users), "body": s.word()},
        ),
        lambda s: (
            "send_channel_message",
            {"channel": s.of(s.world.slack.channels), "body": s.word()},
        ),
        lambda s: ("invite_user_to_slack", {"user": s.of(WORDS), "user_email": s.of(PEOPLE)}),
        lambda s: ("remove_user_from_slack", {"user": s.of(s.world.slack.users)}),
    ),
}
"""By suite, what the agent may do; what it does often stands twice."""


def _edit_file(story: Story, world: Any) -> None:
    file = world.cloud_drive.files[story.file()]
    setattr(file, story.of(("content", "filename")), story.word())
    file.size = len(file.content)


def _delete_file(story: Story, world: Any) -> None:
    del world.cloud_drive.files[story.file()]


def _remake_file(story: Story, world: Any) -> None:
    id_ = story.file()
    gone = world.cloud_drive.files.pop(id_)
    text = story.word()
    changes = {"content": text, "size": len(text)}
    world.cloud_drive.files[id_] = gone.model_copy(update=changes)


def _another_file(story: Story, world: Any) -> None:
    files = world.cloud_drive.files
    id_ = str(max(map(int, files)) + 1)
    files[id_] = files[story.file()].model_copy(update={"id_": id_, "filename": story.word()})


def _edit_event(story: Story, world: Any) -> None:
    event = world.calendar.events[story.of(sorted(world.calendar.events))]
    if story.may(0.5):
        event.title = story.word()
    else:
        event.start_time = datetime.datetime(2032, 1, story.random.randint(1, 28), 9)


def _widen_event(story: Story, world: Any) -> None:
    world.calendar.events[story.of(sorted(world.calendar.events))].participants.append("me@x.org")


def _delete_event(story: Story, world: Any) -> None:
    del world.calendar.events[story.of(sorted(world.calendar.events))]


def _mail(story: Story, world: Any) -> None:
    emails = world.inbox.emails
    id_ = str(max(map(int, (*emails, *world.inbox.trash))) + 1)
    first = emails[min(emails, key=int)]
    emails[id_] = first.model_copy(update={"id_": id_, "subject": story.word()})


def _read_mail(story: Story, world: Any) -> None:
    mail = world.inbox.emails[story.of(sorted(world.inbox.emails))]
    mail.read = not mail.read


def _edit_reservation(story: Story, world: Any) -> None:
    changes = {story.of(("title", "contact_information")): story.word()}
    world.reservation = world.reservation.model_copy(update=changes)


def _edit_scheduled(story: Story, world: Any) -> None:
    one = story.of(world.bank_account.scheduled_transactions)
    if story.may(0.5):
        one.amount = float(story.random.randint(1_000, 2_000))
    else:
        one.subject = story.word()


def _drop_scheduled(story: Story, world: Any) -> None:
    planned = world.bank_account.scheduled_transactions
    planned.remove(story.of(planned))


def _remake_scheduled(story: Story, world: Any) -> None:
    planned = world.bank_account.scheduled_transactions
    one = story.of(planned)
    planned.remove(one)
    planned.append(one.model_copy(update={"recipient": "GB00", "amount": 1.0}))


def _execute_scheduled(story: Story, world: Any) -> None:
    planned = world.bank_account.scheduled_transactions
    one = story.of(planned)
    planned.remove(one)
    world.bank_account.transactions.append(one)


def _edit_user(story: Story, world: Any) -> None:
    setattr(world.user_account, story.of(("street", "city", "password")), story.word())


def _join(story: Story, world: Any) -> None:
    user, channel = story.of(world.slack.users), story.of(world.slack.channels)
    if channel not in world.slack.user_channels[user]:
        world.slack.user_channels[user].append(channel)


def _leave(story: Story, world: Any) -> None:
    channels = world.slack.user_channels[story.of(world.slack.users)]
    if channels:
        channels.remove(story.of(channels))


def _message(story: Story, world: Any) -> None:
    some = [one for inbox in world.slack.channel_inbox.values() for one in inbox]
    inboxes = (*world.slack.channel_inbox.values(), *world.slack.user_inbox.values())
    story.of(inboxes).append(story.of(some).model_copy(update={"body": story.word()}))


def _edit_page(story: Story, world: Any) -> None:
    world.web.web_content[story.of(list(world.web.web_content))] = story.word()


def _delete_page(story: Story, world: Any) -> None:
    del world.web.web_content[story.of(list(world.web.web_content))]


def _invite(story: Story, world: Any) -> None:
    user = story.of(WORDS)
    if user not in world.slack.users:
        world.slack.users.append(user)
        world.slack.user_inbox[user] = []
        world.slack.user_channels[user] = []


OFFICE_ACTS = (_edit_event, _widen_event, _delete_event, _mail, _read_mail)
FILE_ACTS = (_edit_file, _edit_file, _delete_file, _remake_file, _another_file)
ACTS: dict[str, tuple[Callable[[Story, Any], None], ...]] = {
    "workspace": (*OFFICE_ACTS, *FILE_ACTS),
    "travel": (*OFFICE_ACTS, _edit_reservation, _edit_reservation),
    "banking": (
        _edit_scheduled,
        _edit_scheduled,
        _drop_scheduled,
        _remake_scheduled,
        _execute_scheduled,
        _edit_user,
        _edit_user,
    ),
    "slack": (_join, _leave, _message, _edit_page, _edit_page, _delete_page, _invite),
}
"""By suite, what strangers do."""


async def trials(service: Service, tier: Tier, task: Task, seed: int) -> list[Trial]:
    """A story, its undo, and the undo of what that has left; every third one is undisturbed."""
    async with scene(service, task, tier) as one:
        story = Story(seed, task.suite, one.dojo.environment)
        disturbed = seed % 3 != 0
        for n in range(story.random.randint(1, 3)):
            if n and disturbed and story.may(0.4):
                one.stranger(story.stranger())
            if calls := story.turn():
                await one.make(*calls)
        if not one.turns:
            return []
        name = f"{tier.name}: {task.suite}, random {seed}"
        if not disturbed:
            return [await taken_back(one, name)]
        while story.may(0.5):
            one.stranger(story.stranger())
        first = await taken_back(
            one, name, fault=lambda _: story.fault(), late=_meanwhile(one, story), disturbed=True
        )
        if first.broken:
            return [first]
        while story.may(0.3):
            one.stranger(story.stranger())
        return [first, await taken_back(one, f"{name}, the rest", disturbed=True)]


def _meanwhile(one: Scene, story: Story) -> Callable[[int, str], None]:
    """Strangers while it goes on: each right after a call has been made, before a look at it."""
    seen = 0

    def late(writes: int, tool: str) -> None:
        nonlocal seen
        if writes > seen and tool in one.reads:
            seen = writes
            if story.may(0.2):
                one.stranger(story.stranger())

    return late
