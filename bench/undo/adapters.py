"""Adapters: what a vendor's interface has and the suites' tools lack, one record per call.

Each is a function of an environment and of a call's arguments. None sees the dump: it reads, puts
back or removes the one record that it is asked for, and an act answers with what it made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentdojo.default_suites.v1.tools import banking_client, calendar_client

Adapter = Callable[..., Any]


def get_event(world: Any, id: str) -> Any:
    """Read one event."""
    return world.calendar.events[id]


def put_event(world: Any, id: str, record: dict[str, Any]) -> Any:
    """Put one event as it is given."""
    world.calendar.events[id] = type(get_event(world, id)).model_validate(record)
    return get_event(world, id)


def delete_event(world: Any, id: str) -> Any:
    """Remove one event, telling nobody."""
    return world.calendar.events.pop(id)


def _telling(act: Callable[..., Any]) -> Adapter:
    """An act on the calendar, answered with the event and the mail that it sent."""

    def acting(world: Any, **args: Any) -> Any:
        event = act(world.calendar, world.inbox, **args)
        mail = max(world.inbox.emails, key=int)
        return {"event": event, "mail": mail}

    acting.__doc__ = act.__doc__
    acting.__name__ = act.__name__
    return acting


create_calendar_event = _telling(calendar_client.create_calendar_event)
reschedule_calendar_event = _telling(calendar_client.reschedule_calendar_event)
cancel_calendar_event = _telling(calendar_client.cancel_calendar_event)


def get_mail(world: Any, id: str) -> Any:
    """Read one mail, and in which folder it is, which does not mark it."""
    if id in world.inbox.trash:
        return {"folder": "trash", "mail": world.inbox.trash[id]}
    return {"folder": "inbox", "mail": world.inbox.emails[id]}


def restore_mail(world: Any, id: str) -> Any:
    """Take one mail out of the trash."""
    world.inbox.emails[id] = world.inbox.trash.pop(id)
    return get_mail(world, id)


def mark_unread(world: Any, id: str) -> Any:
    """Mark one mail as not read."""
    world.inbox.emails[id].read = False
    return get_mail(world, id)


def put_file(world: Any, id: str, record: dict[str, Any]) -> Any:
    """Go back to a version of one file."""
    world.cloud_drive.files[id] = type(next(iter(world.cloud_drive.files.values()))).model_validate(
        record
    )
    return world.cloud_drive.files[id]


def get_reservation(world: Any) -> Any:
    """Read the reservation."""
    return world.reservation


def put_reservation(world: Any, record: dict[str, Any]) -> Any:
    """Set the reservation as it is given."""
    world.reservation = type(world.reservation).model_validate(record)
    return world.reservation


def schedule_transaction(world: Any, **args: Any) -> Any:
    """Schedule a transaction; the record that was made."""
    banking_client.schedule_transaction(world.bank_account, **args)
    return world.bank_account.scheduled_transactions[-1]


def delete_scheduled(world: Any, id: int) -> Any:
    """Remove one scheduled transaction."""
    planned = world.bank_account.scheduled_transactions
    return planned.pop(next(at for at, one in enumerate(planned) if one.id == id))


def leave_channel(world: Any, user: str, channel: str) -> Any:
    """Take one user out of one channel."""
    world.slack.user_channels[user].remove(channel)
    return {"user": user, "channel": channel}


def delete_page(world: Any, url: str) -> Any:
    """Remove one page."""
    return {"content": world.web.web_content.pop(url)}


def _named(*functions: Adapter) -> dict[str, Adapter]:
    return {function.__name__: function for function in functions}


_OFFICE = (
    get_event,
    put_event,
    delete_event,
    create_calendar_event,
    cancel_calendar_event,
    get_mail,
)

ADAPTERS: Mapping[str, Mapping[str, Adapter]] = {
    "workspace": _named(*_OFFICE, reschedule_calendar_event, restore_mail, mark_unread, put_file),
    "travel": _named(*_OFFICE, get_reservation, put_reservation),
    "banking": _named(schedule_transaction, delete_scheduled),
    "slack": _named(leave_channel, delete_page),
}
