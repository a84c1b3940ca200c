"""How a failing example is told: as it was found, where looking for a shorter one takes minutes."""

from __future__ import annotations

from hypothesis import Phase

AS_FOUND = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
"""For tests whose examples are commands to a real database or server."""
