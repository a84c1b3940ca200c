"""The sentences in English."""

from __future__ import annotations

from turnback.core.undo.outcome import Count
from turnback.core.undo.rows import CompensationState, Fix, Outcome, Reason
from turnback.core.undo.words.shape import Sentence, Words

NOBODY = "Nobody was told of it by this call."
SEEN = "{who} may have seen it since {since}."

WORDS = Words(
    residues={
        # by how it ended
        "compensated": Sentence(
            "What `{tool}` did on {since} was offset by another action; both stay on record.",
            SEEN,
            "What `{tool}` did on {since} will be offset by another action; both stay on record.",
        ),
        "unchecked": Sentence(
            "What `{tool}` did on {since} was offset as far as its server says; it could not be"
            " checked.",
            SEEN,
        ),
        "cancelled_left": Sentence(
            "`{tool}` of {since} was cancelled in time, and something of it is still there.", NOBODY
        ),
        "needs_you": Sentence(
            "What `{tool}` did on {since} cannot be taken back from here.", NOBODY
        ),
        "told": Sentence("`{tool}` told {who} on {since}; that cannot be taken back.", SEEN),
        "undeclared": Sentence(
            "Nothing is declared of `{tool}`, so nobody knows what its call of {since} changed or"
            " how it could be put back.",
            "Who has seen it is not known.",
        ),
        "purged": Sentence(
            "What `{tool}` found on {since} was purged with its history, so it cannot be put back"
            " from here.",
            "Who has seen it is not known any more.",
        ),
        "tool_changed": Sentence(
            "What `{tool}` did on {since} stays: {detail}.",
            SEEN,
        ),
        "restored": Sentence(
            "What `{tool}` did on {since} is from before a restore from backup, and whether it was"
            " taken back since cannot be looked at; nothing was done about it.",
            "Who has seen it is not known.",
        ),
        "too_late": Sentence(
            "`{tool}` of {since} was to be cancelled, and it was too late for that.", SEEN
        ),
        "needs_review": Sentence(
            "What `{tool}` wrote on {since} was changed by somebody else since; nothing was"
            " overwritten.",
            "Whoever changed it knows it as it is now.",
        ),
        "recreated": Sentence(
            "What `{tool}` worked on {since} was removed and made again by somebody else; it was"
            " left alone.",
            "Whoever made it again knows it as it is now.",
        ),
        "occupied": Sentence(
            "Others' things lie in what `{tool}` made on {since}; it was left with them.",
            "Whoever put them there expects to find them.",
        ),
        "in_doubt": Sentence(
            "An inverse of `{tool}` of {since} was sent, and nobody knows whether it took effect.",
            "Who has seen it is not known.",
        ),
        "forward_in_doubt": Sentence(
            "Nobody knows whether `{tool}` of {since} took effect; nothing was done about it.",
            "Who has seen it is not known.",
            "Nobody knows whether `{tool}` of {since} took effect; look before you rely on it.",
        ),
        "partly": Sentence(
            "What `{tool}` did on {since} was put back in part.", "Some of it may have been seen."
        ),
        "blocked": Sentence(
            "What `{tool}` did on {since} stays, since something that depends on it could not be"
            " taken back.",
            SEEN,
        ),
        "later_call": Sentence(
            "What `{tool}` did on {since} stays, since a later call of the agent's own is in its"
            " way and still stands.",
            SEEN,
        ),
        "failed": Sentence("What `{tool}` did on {since} could not be put back: {detail}.", SEEN),
        "noop_inverse": Sentence(
            "The inverse of `{tool}` of {since} was reported as done, and nothing changed.", SEEN
        ),
        "not_started": Sentence("What `{tool}` did on {since} was not begun: {because}.", SEEN),
        "left": Sentence(
            "Something of what `{tool}` did on {since} is left.",
            NOBODY,
            "Something of what `{tool}` did on {since} will be left.",
        ),
        # by the words of contracts
        "file_left": Sentence(
            "A file that `{tool}` made on {since} is still there; its server cannot delete.", NOBODY
        ),
        "folder_left": Sentence(
            "A folder that `{tool}` made on {since} is still there; its server cannot delete.",
            NOBODY,
        ),
        "moved": Sentence("What `{tool}` moved on {since} is still at its new place.", NOBODY),
        "mail_sent": Sentence(
            "The mail “{subject}” went to {who} on {since} and cannot be called back.", SEEN
        ),
        "invitation_sent": Sentence(
            "The invitation “{subject}” went to {who} on {since}; they may have it in their"
            " mailbox.",
            SEEN,
        ),
        "notice_sent": Sentence(
            "“{subject}” was taken back, and {who} got a notice of it and of its end.",
            SEEN,
            "“{subject}” will be taken back; {who} had a notice of it and will get one of its end.",
        ),
        "message_posted": Sentence("The message “{subject}” was posted to {who} on {since}.", SEEN),
        "payment_made": Sentence(
            "The payment “{subject}” to {who} was made on {since} and cannot be recalled.", SEEN
        ),
        "payment_refunded": Sentence(
            "The payment “{subject}” of {since} was refunded; both stay on the statement.",
            SEEN,
            "The payment “{subject}” of {since} will be refunded; both stay on the statement.",
        ),
        "shared": Sentence(
            "“{subject}” was shared with {who} on {since}; what they copied stays theirs.", SEEN
        ),
        "commit_left": Sentence(
            "A commit that `{tool}` made on {since} stays in the history.", NOBODY
        ),
    },
    fixes={
        Fix.YOU: "Look at it and put it right by hand, or acknowledge it.",
        Fix.PEOPLE: "Write to those concerned; a draft is below.",
        Fix.ADMINISTRATOR: "Tell the administrator: the contract of this tool is not true.",
        Fix.LATER_UNDO: "Try the rest in a new plan.",
        Fix.NOBODY: "Nobody can change it; acknowledge it.",
    },
    states={
        CompensationState.PENDING: "waiting",
        CompensationState.CHECKING: "being checked",
        CompensationState.INTENT: "about to be sent",
        CompensationState.SENT: "sent",
        CompensationState.VERIFYING: "being verified",
        CompensationState.REVERTED: "reverted",
        CompensationState.COMPENSATED: "compensated",
        CompensationState.CANCELLED: "cancelled",
        CompensationState.NEEDS_YOU: "needs you",
        CompensationState.NEEDS_REVIEW: "needs a review",
        CompensationState.IN_DOUBT: "in doubt",
        CompensationState.PARTLY: "put back in part",
        CompensationState.BLOCKED: "blocked",
        CompensationState.FAILED: "failed",
        CompensationState.NOOP_INVERSE: "without effect",
        CompensationState.NOT_STARTED: "not started",
    },
    reasons={
        Reason.ALREADY: "already as before",
        Reason.COVERED: "put back together with another effect",
        Reason.NEVER_HAPPENED: "it never took effect",
        Reason.IRREVERSIBLE: "there is no way back",
        Reason.PURGED: "history purged",
        Reason.TOO_LATE: "too late to cancel",
        Reason.AGENT: "its agent did not come to an end within its bounds",
        Reason.RESTORED: "it is from before a restore from backup",
        Reason.TOOL_CHANGED: "a tool that it takes is not what it was",
        Reason.DRIFT: "changed by somebody else",
        Reason.RECREATED: "removed and made again by somebody else",
        Reason.OCCUPIED: "others' things are in it",
        Reason.UNREADABLE: "it cannot be read",
        Reason.REFUSED: "the tool refused",
        Reason.ATTEMPTS: "tried as often as allowed",
        Reason.NOTHING_CHANGED: "reported as done, and nothing changed",
        Reason.UNCHECKED: "unchecked",
        Reason.LOST: "sent, and no reply",
        Reason.FORWARD_IN_DOUBT: "not known whether it happened",
        Reason.DEPENDENT: "something that depends on it still stands",
        Reason.LATER_CALL: "a later call of the agent's own is in its way and still stands",
        Reason.BUDGET: "the budget is used up",
        Reason.DEADLINE: "the time is used up",
        Reason.POLICY: "an earlier one failed",
        Reason.STOPPED: "stopped by a person",
    },
    outcomes={
        Outcome.FULLY_REVERTED: "Fully reverted",
        Outcome.PARTIALLY_REVERTED: "Partially reverted",
        Outcome.NOT_REVERTED: "Not reverted",
    },
    counts={
        Count.NEEDS_YOU: ("{n} needs you", "{n} need you"),
        Count.NEEDS_REVIEW: ("{n} needs a review", "{n} need a review"),
        Count.IN_DOUBT: ("{n} in doubt", "{n} in doubt"),
        Count.FAILED: ("{n} failed", "{n} failed"),
        Count.NOT_STARTED: ("{n} not started", "{n} not started"),
        Count.COMPENSATE: ("{n} compensated", "{n} compensated"),
        Count.CANCEL: ("{n} cancelled", "{n} cancelled"),
        Count.REVERT: ("{n} reverted", "{n} reverted"),
    },
    settles="It settles on {when}.",
    seen=SEEN,
    nobody_told=NOBODY,
    nobody_named="people whom the tool does not name",
    and_more="{named} and {more} more",
    no_detail="the tool gave no reason",
    draft_subject="About “{subject}” of {since}",
    draft_body=(
        "Hello,\n\n“{subject}” reached you on {since} by mistake. Please disregard it.\n\n"
        "I am sorry for the trouble.\n"
    ),
)
