"""Which of a session's events a turn led to, or one command: what a script that waits is answered.

Events are found by the commits that wrote them, so that the status before a turn's first step and
the one after its last are among them.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnback.core.principal import Principal
from turnback.store.database import Database
from turnback.store.rows import SessionKey

COMMIT_EVENTS = 100
"""More events than one commit tells: how far to look around one for the others of its commit."""

_AROUND = f"""select min(e.event_seq) as first, max(e.event_seq) as last, ends.head,
    ends.first as told_first
from ends join session_events e on e.root_id = $1::uuid and e.session_id = $2::uuid
    and e.event_seq > ends.first - {COMMIT_EVENTS} and e.event_seq < ends.last + {COMMIT_EVENTS}
where e.commit_id in (select commit_id from session_events where root_id = $1::uuid
    and session_id = $2::uuid and event_seq in (ends.first, ends.last))
group by ends.head, ends.first"""

TURN = f"""with ends as (
    select f.event_seq as first, l.event_seq as last, l.id as head from turns t
    join records f on f.root_id = $1::uuid and f.branch_id = t.first_branch and f.seq = t.first_seq
    join records l on l.root_id = $1::uuid and l.branch_id = t.first_branch and l.seq = t.last_seq
    where t.root_id = $1::uuid and t.session_id = $2::uuid and t.id = $3::uuid)
{_AROUND}"""

REQUEST = f"""with ends as (
    select event_seq as first, event_seq as last, answer ->> 'headId' as head
    from session_requests where root_id = $1::uuid and session_id = $2::uuid
        and principal = $3::text and request_id = $4::text)
{_AROUND}"""


@dataclass(frozen=True, slots=True)
class Span:
    """The events `first` to `last`, and HEAD as they left it."""

    first: int
    last: int
    head_id: str


class Spans:
    """Reads of spans, each one statement."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def of_turn(self, principal: Principal, key: SessionKey, turn_id: str) -> Span | None:
        """The events of a turn that has ended; None where it has not, or they are not all kept."""
        del principal  # the key was given by `Dao.key`, which has asked
        return await self._span(TURN, key.root_id, key.id, turn_id)

    async def of_request(
        self, principal: Principal, key: SessionKey, request_id: str
    ) -> Span | None:
        """The events of one command's commit; None where it led to none, or they are not kept."""
        return await self._span(REQUEST, key.root_id, key.id, principal.id, request_id)

    async def _span(self, text: str, *args: str) -> Span | None:
        row = await self._db.run(lambda c: c.fetchrow(text, *args))
        if row is None or row["first"] > row["told_first"]:
            return None
        return Span(row["first"], row["last"], row["head"])
