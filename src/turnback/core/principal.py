"""Who is calling, and what there is that one may be allowed to do (protocol.md 4).

Who may what is computed from the live rows, in the one place `store/access.py`; here are its words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from turnback.core.errors import BadInput

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._@+:-]{0,199}$")
"""What principals and projects can be called."""

AGENT = "agent"
"""The service's own id, which stands beside what the agent did; nobody can be called so."""


def named(name: str) -> str:
    """The name of a principal or a project. Raises `BadInput` where nobody can be called so."""
    if NAME.fullmatch(name) is None or name == AGENT:
        raise BadInput(
            f"`{name[:200]}` cannot be a principal's or a project's name: take up to 200 of"
            f" `A-Za-z0-9._@+:-`, and not `{AGENT}`"
        )
    return name


class Right(StrEnum):
    """What one may do with a session. `MANAGE`: delete, grants, visibility."""

    READ = "read"
    RUN = "run"
    FORK = "fork"
    MANAGE = "manage"


class ProjectRight(StrEnum):
    """What one may do in a project. `ADMINISTER`: keys, roles, purge."""

    CREATE = "create"
    ADMINISTER = "administer"


class ProjectRole(StrEnum):
    """What a principal is in a project; one without a role is a guest, who has only grants."""

    VIEWER = "viewer"
    EDITOR = "editor"
    OWNER = "owner"


class Visibility(StrEnum):
    """Who of a project sees a session without a grant: those with a role, or its owner alone."""

    PROJECT = "project"
    PRIVATE = "private"


GRANTABLE = frozenset({Right.READ, Right.RUN, Right.FORK})
"""The rights that a grant on a session can give."""

ROLES: dict[ProjectRight, frozenset[ProjectRole]] = {
    ProjectRight.CREATE: frozenset({ProjectRole.EDITOR, ProjectRole.OWNER}),
    ProjectRight.ADMINISTER: frozenset({ProjectRole.OWNER}),
}
"""The roles that have each right in a project."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: its id, and the one project it acts in (the tenancy boundary).

    `credential` is the id of the API key that it came with. None is for the two that need none,
    and may do everything in their project: `LOCAL` and the service itself. `decides`: what it asks
    counts as a person's own decision. It is how somebody came, and not who they are.
    """

    id: str
    project_id: str
    credential: str | None
    decides: bool = field(default=True, compare=False)


LOCAL = Principal(id="local", project_id="local", credential=None, decides=False)
"""The one principal as long as no key was ever made: whoever reaches the loopback address."""

LOCAL_PERSON = replace(LOCAL, decides=True)
"""`LOCAL`, come with the token of this boot, which the agent's own tools have not."""


def service_of(project_id: str) -> Principal:
    """The service itself in a project: as whom live sessions and tickers read and write."""
    return Principal(AGENT, project_id, credential=None, decides=False)
