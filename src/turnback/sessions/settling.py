"""Residues whose time has come: looked at again, and settled where nothing is left of them."""

from __future__ import annotations

import structlog

from turnback.core.contracts import conditions, states
from turnback.core.contracts.pointers import Document
from turnback.core.contracts.states import Observation
from turnback.core.effects import Effect, Standing
from turnback.core.errors import TurnbackError
from turnback.sessions.outside import OutsideTools
from turnback.store.dao import Dao

log = structlog.get_logger()

AT_ONCE = 100
"""Residues looked at in one round; one that is not settled yet is looked at again in the next."""


async def settle_due(dao: Dao, outside: OutsideTools) -> None:
    """Settle what is. It is told as `WsServerUndoEvent`s of phase `settled`, and raises no outcome.

    Raises `DatabaseUnavailable`.
    """
    for key, residue_id in await dao.undos.due(limit=AT_ONCE):
        try:
            undo = await dao.undos.of_residue(key, residue_id)
            effect = undo.effects[undo.residues[residue_id].effect_id]
            if await _is_settled(outside, effect):
                await dao.undos.settle(key, residue_id)
        except TurnbackError as error:
            log.warning("residue not settled yet", residue=residue_id, code=error.code)


async def _is_settled(outside: OutsideTools, effect: Effect) -> bool:
    """Whether its contract's test agrees, or a later undo has put all of it back."""
    if effect.standing is Standing.REVERTED:
        return True
    _, contract = await outside.of(effect)
    case = None if effect.case is None else contract.cases[effect.case : effect.case + 1]
    settles = case[0].settles if case else None
    if settles is None or settles.when is None:
        return True  # its time is all that there is to wait for
    first = [touch.resource for touch in effect.touches][:1]
    if not first:
        return False
    before = await outside.observe(effect, first)
    [(key, seen)] = before.observed
    if not isinstance(seen, Observation):
        return False
    named = states.key_document(contract.resources[key.kind], key)
    at = Document({"now": seen.answer, "key": named})
    return conditions.holds(settles.when, at) is True
