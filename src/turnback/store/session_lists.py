"""The list of sessions that a caller may read, newest first, a page at a time."""

from __future__ import annotations

from turnback.core.principal import Visibility
from turnback.store import newest
from turnback.store.access import caller, may_read
from turnback.store.session_rows import COLUMNS

_LISTED = f"""s.deleted_at is null and (s.archived_at is not null) = $4::boolean
    and ($5::text is null or s.name ilike $5::text)
    and (select {may_read("s", "c")} from caller c)"""

_BEFORE = newest.below("$6", "$7")

_PAGE = "order by created_at desc, id desc limit $8::bigint"


def _candidates(visibility: Visibility, if_: str, more: str = "true") -> str:
    return f"""(select s.* from sessions s where s.project_id = $3::text
    and s.visibility = '{visibility}' and (s.created_at, s.id) < {_BEFORE}
    and (select {if_} from caller)
    and {more} and {_LISTED} {_PAGE})"""


SESSIONS = f"""with caller as ({caller()})
select {COLUMNS} from (
{_candidates(Visibility.PROJECT, "role is not null")}
union all
{_candidates(Visibility.PRIVATE, "role = 'owner'")}
union all
{_candidates(Visibility.PRIVATE, "role <> 'owner'", "s.owner = (select principal_id from caller)")}
union all
(select s.* from session_grants g cross join lateral (
    select s.* from sessions s where s.root_id = g.root_id and s.id = g.session_id and {_LISTED}
        and (select role is null or s.visibility = 'private' and s.owner <> principal_id
            from caller)
    offset 0) s
where g.project_id = $3::text and g.principal_id = (select principal_id from caller)
    and (g.session_created_at, g.session_id) < {_BEFORE}
    and (select role is distinct from 'owner' from caller)
order by g.session_created_at desc, g.session_id desc limit $8::bigint)
) found {_PAGE}"""
"""Four disjoint parts, each read from an index in the order of the list: what those with a role
see, private ones of all for the project's owner and their own for the others, and what was granted.
What is asked of the caller is in subqueries, so that the scans keep their order; what is asked of
it alone is evaluated once.
"""


def escape_like(text: str) -> str:
    """A text as `like` takes it, so that it means itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
