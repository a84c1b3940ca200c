"""The one call path: approval, observe, intent, call, result (undo.md 2).

Every call of an outside tool comes this way. Its intent is committed before it is sent, so that
whatever happens afterwards, it is known that it may have been; what came of it is committed before
anybody is told. A call that only reads leaves nothing in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import orjson

from turnback.core.approvals import Approval, ApprovalPolicy, ApprovalStatus
from turnback.core.contracts import choose, secrets
from turnback.core.effects import EffectClass, Json
from turnback.core.errors import InvalidArguments, ResourceBusy
from turnback.settings import Settings
from turnback.store.effects import Effects
from turnback.store.ledger import Ledger
from turnback.store.locks import Locks
from turnback.tools.arguments import check_arguments
from turnback.tools.connection import Connection
from turnback.tools.making import Making, Stopped
from turnback.tools.registry import Tool
from turnback.tools.settle import Place, Settling
from turnback.tools.telling import Answered, not_allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """What bounds one call; seconds, bytes and characters. The meanings are in settings.py."""

    tool_timeout: float
    max_tool_output: int
    max_before: int
    lock_expiry: float
    lock_patience: float
    lease_expiry: float
    tool_stop_grace: float
    approval: ApprovalPolicy
    approval_ttl: float

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits that the settings name; the fields have the settings' names."""
        values = {name: getattr(settings, name) for name in cls.__dataclass_fields__}
        return cls(**values | {"approval": ApprovalPolicy(settings.approval)})


class Calls:
    """Makes calls, and writes of each in the log what is known of it."""

    def __init__(
        self, *, effects: Effects, ledger: Ledger, locks: Locks, limits: CallLimits
    ) -> None:
        self.effects = effects
        self.ledger = ledger
        self.locks = locks
        self.limits = limits
        self.settling = Settling(
            effects=effects,
            ledger=ledger,
            locks=locks,
            tool_timeout=limits.tool_timeout,
            max_before=limits.max_before,
            lock_expiry=limits.lock_expiry,
            lease_expiry=limits.lease_expiry,
        )

    async def question(
        self,
        connection: Connection,
        tool: Tool,
        args: Mapping[str, Json],
        place: Place,
        *,
        tool_call_id: str,
        stop: asyncio.Event,
    ) -> Approval | None:
        """What a person has to decide before a call is made, which is not made. None: nothing."""
        making = Making(self, connection, tool, args, place, tool_call_id, None, stop)
        try:
            check_arguments(tool, args)
            return await making.question()
        except (InvalidArguments, Stopped):
            return None
        finally:
            making.over()

    def only_reads(self, tool: Tool, args: Mapping[str, Json]) -> bool:
        """Whether a call surely changes nothing, so that it may overlap with others."""
        contract = tool.contract
        return choose.may_only_read(contract) and (
            choose.worst_possible(contract, tool.connection, args) is EffectClass.READ
        )

    async def call(
        self,
        connection: Connection,
        tool: Tool,
        args: Mapping[str, Json],
        place: Place,
        *,
        tool_call_id: str,
        approval: Approval | None,
        stop: asyncio.Event,
    ) -> Answered | Approval:
        """Make a call once, or ask for it: then nothing was done, and a person has to decide.

        `approval` is what was decided about it before, if anything was. Setting `stop` ends the
        wait for its reply after `tool_stop_grace` seconds. Raises `FencedOff` where the run is no
        longer this process's, `DatabaseUnavailable` where the database stays away; whatever else
        goes wrong is for the model to read.
        """
        proposed = None
        if approval is not None:
            if approval.status is not ApprovalStatus.APPROVED:
                return Answered(not_allowed(approval), is_error=True)
            if approval.edited is not None:
                try:
                    edited = secrets.edited_args(tool.contract, args, approval.edited)
                except InvalidArguments as error:
                    return Answered(f"{error.message}.", is_error=True)
                proposed, args = args, edited
        making = Making(self, connection, tool, args, place, tool_call_id, approval, stop, proposed)
        try:
            check_arguments(tool, args)
            answer = await making.run()
        except (InvalidArguments, ResourceBusy) as error:
            answer = Answered(f"{error.message}.", is_error=True)
        except Stopped:
            answer = Answered("Not run: the turn was stopped.", is_error=True)
        finally:
            making.over()
        if isinstance(answer, Answered) and approval is not None and approval.edited is not None:
            changed = orjson.dumps(approval.edited).decode()
            note = f"[Somebody who approved this call changed its arguments to {changed}]\n"
            answer = replace(answer, output=note + answer.output)
        return answer
