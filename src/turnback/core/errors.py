"""Every error that Turnback names, once, as a tree; each with a stable code.

The code is the wire value: `code` of a `WsServerErrorEvent` and of an RFC 9457 problem. `status`
is the HTTP status of that problem. A message is a sentence that says what to do; `data` carries
what a program needs (never a secret, never bytes of another session).

    TurnbackError
      Refusal              the command cannot be carried out now; nothing has changed
        Busy, NothingToRedo, NotOnPath, StaleHead, EditConflict, ConfirmationRequired,
        RequestConflict, LineageConflict, TurnIncomplete, DepthLimit, CountMismatch,
        PendingActionClaimed,
        PreconditionFailed, PreconditionRequired, BranchLimit, Archived, NotAvailable,
        Draining, QueueFull, KeyTaken, KeyRunning, TranscriptNotReady, RateLimited, TooManySockets,
        TooManyWaits, TooManyTickets, NotAllowed, AlreadyDecided, ApprovalChanged, ResourceBusy,
        AttachmentInherited, NotDeleted, UndoInProgress, PlanChanged, PlanRequired, PlanRefused,
        NotOverwritable, PersonRequired, CallsHeld
      NotFound             in the words for what does not exist
        SessionNotFound, UnknownTurn, UnknownStep, UnknownKey, UnknownTool, NoPendingAction,
        NoSuchApproval, UnknownUndo, UnknownPlan, UnknownResidue, HistoryPurged, AttachmentNotFound,
        AttachmentGone, ThingNotFound
      Unauthenticated      the caller has not shown who they are, or no longer may be
      BadInput             the caller's words are wrong
        InvalidFormat, UnknownType, ContentRequired, MessageIdRequired, InvalidWorkflow,
        InvalidEdit, InvalidArguments, BadCursor, TooLarge, TooSlow, NotStricter, OriginRefused,
        HostRefused, RangeNotSatisfiable, MethodNotAllowed, CodeRefused
      Unresolved           a contract's pointer finds nothing, or what is not known yet
      StoreError           the database's part
        DatabaseUnavailable, FencedOff, RecordConflict, SnapshotMissing, HistoryMissing,
        SchemaMismatch, DowngradeRefused
      StorageFailed        the files' part
      RunError             what ends a run
        ModelFailed, ModelNotConfigured, ToolFailed
      ToolServerFailed     a tool server's part; data: `connection`, `reason`
        NotSent, Lost
      StartError           what keeps the service from starting
        EmbeddedUnavailable, PortBusy, AddressRefused, SettingsInvalid, ContractRefused,
        TokenInReach, NotServing
"""

from __future__ import annotations

from typing import Any, ClassVar


class TurnbackError(Exception):
    """The root of all errors that Turnback raises on purpose.

    Args: `message`, one sentence for a person; `data`, JSON values for a program.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retry_after: ClassVar[int | None] = None
    """Seconds after which the same may succeed; None where it will not by itself."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class Refusal(TurnbackError):
    """A command that cannot be carried out as things stand; nothing has changed."""

    code = "refused"
    status = 409


class Busy(Refusal):
    """A run owns the session (protocol.md, rules of HEAD). The sentence contains `busy`."""

    code = "busy"


class Contended(Refusal):
    """Other processes' commits came first each time that it was decided (lineage.md 3)."""

    code = "contended"
    retry_after = 1


class NothingToRedo(Refusal):
    """The redo stack is empty."""

    code = "nothing_to_redo"


class NotOnPath(Refusal):
    """The turn or step exists, but not on the path from the root to HEAD."""

    code = "not_on_path"


class StaleHead(Refusal):
    """`expectedHeadId` is not HEAD."""

    code = "head_moved"


class EditConflict(Refusal):
    """Something that the edit touches has changed since its base; data: base, theirs, yours."""

    code = "edit_conflict"


class ConfirmationRequired(Refusal):
    """A revert that would take back what another person edited; data: `edits`, and how many."""

    code = "confirmation_required"


class LineageConflict(Refusal):
    """The id that a fork is to have is taken, or was used for another one."""

    code = "lineage_conflict"


class TurnIncomplete(Refusal):
    """A fork after a turn that is running, or that the conversation leaves in its middle."""

    code = "turn_incomplete"


class DepthLimit(Refusal):
    """A fork of a fork of a fork…, `max_fork_depth` times; data: `limit`, `value`."""

    code = "depth_limit"
    status = 422


class CountMismatch(Refusal):
    """A fork would not inherit as many turns as its caller says; data: `inherited_turn_count`."""

    code = "count_mismatch"
    status = 422


class PendingActionClaimed(Refusal):
    """Another client carries out the session's pending action; data: `retryAfterMs`."""

    code = "pending_action_claimed"


class RequestConflict(Refusal):
    """A `requestId` or key used again with other content."""

    code = "request_conflict"
    status = 422


class KeyTaken(Refusal):
    """An `Idempotency-Key` used again for another request."""

    code = "idempotency_conflict"
    status = 422


class KeyRunning(Refusal):
    """The request with this `Idempotency-Key` is still being answered; ask again."""

    code = "idempotency_running"
    retry_after = 1


class TranscriptNotReady(Refusal):
    """The session has not come to `min_revision` within `transcript_wait`; ask again."""

    code = "transcript_not_ready"
    status = 503
    retry_after = 1


class PreconditionFailed(Refusal):
    """`If-Match` names another content than the one at HEAD."""

    code = "precondition_failed"
    status = 412


class PreconditionRequired(Refusal):
    """A write that must say which content it is made on, and does not (no `If-Match`)."""

    code = "precondition_required"
    status = 428


class BranchLimit(Refusal):
    """The session has `max_branch_segments` segments; go on in a new session."""

    code = "branch_limit"


class Archived(Refusal):
    """The session is archived and read-only until it is unarchived."""

    code = "archived"


class NotAvailable(Refusal):
    """A part of the protocol that this server does not offer (`/capabilities` does not name it)."""

    code = "not_available"
    status = 501


class Draining(Refusal):
    """The server is going down and starts no new run."""

    code = "draining"
    status = 503
    retry_after = 1


class QueueFull(Refusal):
    """The session's command queue, or another bounded queue, has no room; try again."""

    code = "queue_full"
    status = 429
    retry_after = 1


class RateLimited(Refusal):
    """More messages a minute than a socket may send; data: `limit`, `value`, `retryAfterMs`."""

    code = "rate_limited"
    status = 429


class TooManySockets(Refusal):
    """More sockets than a principal may have; data: `limit`, `value`, `retryAfterMs`."""

    code = "too_many_sockets"
    status = 429


class TooManyWaits(Refusal):
    """More requests that wait than a principal may have; data: as of sockets."""

    code = "too_many_waits"
    status = 429
    retry_after = 1


class UndoInProgress(Refusal):
    """An undo of this session is under way; data: `undoId`."""

    code = "undo_in_progress"


class CallsHeld(Refusal):
    """Calls are held back that would still be made; data: `effectIds`, `until` (ms)."""

    code = "calls_held"


class PlanChanged(Refusal):
    """What the plan would do is not what it was, or it is too old; data: `planId`, `plan`: anew."""

    code = "plan_changed"


class PlanRequired(Refusal):
    """What an undo would do needs a look first; data: `planId`, `plan`."""

    code = "plan_required"


class PlanRefused(Refusal):
    """A plan that cannot be run: something depends on it, or itself; data: `missing`, `cycle`."""

    code = "plan_refused"


class NotOverwritable(Refusal):
    """A residue that is not somebody else's change, or whose effect is taken back by now."""

    code = "not_overwritable"


class AlreadyDecided(Refusal):
    """Somebody else has decided about the call, or it waits no more; data: `status`, `by`."""

    code = "already_decided"


class ApprovalChanged(Refusal):
    """The call that waits is not the one that was shown; data: `argsHash` of what waits now."""

    code = "approval_changed"


class ResourceBusy(Refusal):
    """Another call of ours works on the same thing in the world, and did not end in time."""

    code = "resource_busy"
    retry_after = 1


class TooManyTickets(Refusal):
    """More tickets that nobody has used yet than a key may have; data: as of sockets."""

    code = "too_many_tickets"
    status = 429


class AttachmentInherited(Refusal):
    """A file that was attached in another session of the family; it can be removed there."""

    code = "attachment_inherited"


class NotDeleted(Refusal):
    """A purge of a session that is not deleted."""

    code = "not_deleted"


class NotAllowed(Refusal):
    """The caller may know of it and lacks the right (protocol.md 4); data: `right`."""

    code = "not_allowed"
    status = 403


class PersonRequired(Refusal):
    """What must be a person's decision, asked without this boot's token; data: `token_file`."""

    code = "person_required"
    status = 403


class Unauthenticated(TurnbackError):
    """No credential, or one that is not known, expired or revoked."""

    code = "unauthenticated"
    status = 401


class NotFound(TurnbackError):
    """What was named does not exist, or the caller may not know of it."""

    code = "not_found"
    status = 404


class SessionNotFound(NotFound):
    """No such session for this principal."""

    code = "session_not_found"


class UnknownTurn(NotFound):
    """No such turn reachable from this session."""

    code = "unknown_turn"


class UnknownStep(NotFound):
    """No such step reachable from this session."""

    code = "unknown_step"


class AttachmentNotFound(NotFound):
    """No such attachment that this session may read; data: `attachment_id`."""

    code = "attachment_not_found"


class AttachmentGone(NotFound):
    """An attachment that was removed, or whose bytes are missing; data: `attachment_id`."""

    code = "attachment_gone"
    status = 410


class UnknownKey(NotFound):
    """No such API key in this project."""

    code = "unknown_key"


class UnknownTool(NotFound):
    """No such tool from outside, or no such tool server."""

    code = "unknown_tool"


class NoSuchApproval(NotFound):
    """No call of this id waits for a person, or did in the turn that is under way."""

    code = "unknown_approval"


class UnknownEffect(NotFound):
    """No such effect of this session, nor of a turn that it inherits."""

    code = "unknown_effect"


class UnknownPlan(NotFound):
    """No such undo plan of this caller's in this session."""

    code = "unknown_plan"


class UnknownUndo(NotFound):
    """No such undo in this session."""

    code = "unknown_undo"


class UnknownResidue(NotFound):
    """No undo of this session has left a residue of this id."""

    code = "unknown_residue"


class NoPendingAction(NotFound):
    """The session has no pending action, or none any more."""

    code = "no_pending_action"


class ThingNotFound(NotFound):
    """There is no such thing in the demo world."""

    code = "thing_not_found"


class HistoryPurged(NotFound):
    """A part of this history was removed for good, by its owner's wish."""

    code = "history_purged"
    status = 410


class BadInput(TurnbackError):
    """The caller's words are wrong; the message says how to put them right."""

    code = "bad_input"
    status = 422


class MethodNotAllowed(BadInput):
    """The path is asked by other methods; data: `allowed`, which."""

    code = "method_not_allowed"
    status = 405


class InvalidFormat(BadInput):
    """Not a JSON object of the form asked for."""

    code = "invalid_format"
    status = 400


class UnknownType(BadInput):
    """A frame whose `type` is not one of the protocol's."""

    code = "unknown_type"
    status = 400


class ContentRequired(BadInput):
    """A prompt without content."""

    code = "content_required"


class MessageIdRequired(BadInput):
    """A revert that names neither a turn nor a step."""

    code = "message_id_required"


class InvalidWorkflow(BadInput):
    """A document that cannot be held as a workflow; data: `path`."""

    code = "invalid_workflow"


class InvalidEdit(BadInput):
    """An edit that does not fit the workflow it is made on; none of its list was applied."""

    code = "invalid_edit"


class InvalidArguments(BadInput):
    """Arguments of a tool that its schema does not allow; data: `path`."""

    code = "invalid_arguments"


class BadCursor(BadInput):
    """A cursor that is not one of this listing's; begin again without one."""

    code = "bad_cursor"


class TooLarge(BadInput):
    """Over a limit; data: `limit` (its name in settings) and its value."""

    code = "too_large"
    status = 413


class TooSlow(BadInput):
    """A body did not come in time; data: `limit` (its name in settings) and its value."""

    code = "too_slow"
    status = 408


class NotStricter(BadInput):
    """A session's own setting that is looser than its server's; data: `limit` and its `value`."""

    code = "not_stricter"


class OriginRefused(BadInput):
    """A browser page of another origin."""

    code = "origin_refused"
    status = 403


class HostRefused(BadInput):
    """A `Host` header that is not this server's (DNS rebinding)."""

    code = "host_refused"
    status = 421


class CodeRefused(BadInput):
    """The code of a printed address that was used already, or is of another start."""

    code = "code_refused"
    status = 403


class RangeNotSatisfiable(BadInput):
    """A `Range` that begins behind the end of the file; data: `size`."""

    code = "range_not_satisfiable"
    status = 416


class Unresolved(TurnbackError):
    """A pointer of a contract that cannot be resolved, so that what hangs on it is not known."""

    code = "unresolved"


class StoreError(TurnbackError):
    """The database's part in a failure."""

    code = "store_error"
    status = 503


class DatabaseUnavailable(StoreError):
    """The database cannot be reached, or was lost in the middle of a statement."""

    code = "database_unavailable"
    retry_after = 1


class FencedOff(StoreError):
    """Another holder has raised the session's fence: this run may write nothing more."""

    code = "fenced_off"
    status = 409


class RecordConflict(StoreError):
    """A record with this id exists and is another."""

    code = "record_conflict"
    status = 409


class SnapshotMissing(StoreError):
    """A stored workflow cannot be put together again: a part is missing or damaged."""

    code = "snapshot_missing"
    status = 409


class HistoryMissing(StoreError):
    """Records of a transcript are missing from the database: it is not shown in part."""

    code = "history_missing"
    status = 409


class SchemaMismatch(StoreError):
    """The database is at another migration than this version needs."""

    code = "schema_mismatch"


class DowngradeRefused(StoreError):
    """A migration that cannot be taken back: what it brought is in use."""

    code = "downgrade_refused"


class StorageFailed(TurnbackError):
    """The files of attachments cannot be read or written: a full disk, a folder that is gone."""

    code = "storage_failed"
    status = 503


class RunError(TurnbackError):
    """What ends a run; the turn's last step says so."""

    code = "run_failed"
    status = 502


class ModelFailed(RunError):
    """The model raised, returned nothing, or took too long."""

    code = "model_failed"


class ModelNotConfigured(RunError):
    """The model's name, address or key is not usable; the message says which setting."""

    code = "model_not_configured"
    status = 422


class ToolFailed(RunError):
    """A tool call that failed: an error to the model, never the end of the run."""

    code = "tool_failed"


class ToolServerFailed(TurnbackError):
    """A tool server does not run, cannot be reached, or says nothing that can be used."""

    code = "tool_server_failed"
    status = 502


class NotSent(ToolServerFailed):
    """A call that surely did not reach its tool: nothing happened, and it may be made again."""

    code = "tool_not_sent"
    status = 503


class Lost(ToolServerFailed):
    """A call that was sent and has no usable reply: nobody knows whether it took effect."""

    code = "tool_reply_lost"
    status = 504


class StartError(TurnbackError):
    """What keeps the service from starting; the message says what to do."""

    code = "start_failed"


class EmbeddedUnavailable(StartError):
    """The embedded PostgreSQL cannot run here; `TURNBACK_DATABASE_URL` names another."""

    code = "embedded_unavailable"


class PortBusy(StartError):
    """The port is taken."""

    code = "port_busy"


class AddressRefused(StartError):
    """A non-loopback address, refused while there is only the one local principal."""

    code = "address_refused"


class SettingsInvalid(StartError):
    """A setting that cannot be used; the message names it."""

    code = "settings_invalid"


class ContractRefused(StartError):
    """A contract that contradicts itself or a rule (undo.md 1); the message says what to change."""

    code = "contract_refused"


class TokenInReach(StartError):
    """A tool server is configured with a folder that holds the token by which people decide."""

    code = "token_in_reach"


class NotServing(StartError):
    """No server runs on this data directory that a person could be shown the address of."""

    code = "not_serving"
