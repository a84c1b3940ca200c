"""What must be a person's own decision, refused to who does not come as one (protocol.md 4)."""

from __future__ import annotations

from turnback.core.errors import PersonRequired
from turnback.core.principal import Principal
from turnback.settings import Settings


def require_person(principal: Principal, settings: Settings) -> None:
    """Raise `PersonRequired`, which says where the token is."""
    if not principal.decides:
        raise PersonRequired(
            "This is for a person to decide: open the address that `turnback address` prints, or"
            f" send the token in `{settings.token_file}` as `Authorization: Bearer`",
            token_file=str(settings.token_file),
        )
