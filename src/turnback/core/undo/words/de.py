"""The sentences in German."""

from __future__ import annotations

from turnback.core.undo.outcome import Count
from turnback.core.undo.rows import CompensationState, Fix, Outcome, Reason
from turnback.core.undo.words.shape import Sentence, Words

NOBODY = "Durch diesen Aufruf hat niemand davon erfahren."
SEEN = "Gesehen haben können es seit {since}: {who}."

WORDS = Words(
    residues={
        # by how it ended
        "compensated": Sentence(
            "Was `{tool}` am {since} getan hat, wurde durch eine weitere Aktion ausgeglichen; beide"
            " bleiben verzeichnet.",
            SEEN,
            "Was `{tool}` am {since} getan hat, wird durch eine weitere Aktion ausgeglichen; beide"
            " bleiben verzeichnet.",
        ),
        "unchecked": Sentence(
            "Was `{tool}` am {since} getan hat, wurde nach Angabe des Servers ausgeglichen; prüfen"
            " ließ es sich nicht.",
            SEEN,
        ),
        "cancelled_left": Sentence(
            "`{tool}` vom {since} wurde rechtzeitig abgebrochen, und etwas davon ist noch da.",
            NOBODY,
        ),
        "needs_you": Sentence(
            "Was `{tool}` am {since} getan hat, lässt sich von hier aus nicht zurücknehmen.", NOBODY
        ),
        "told": Sentence(
            "Durch `{tool}` haben es am {since} erfahren: {who}. Das lässt sich nicht"
            " zurücknehmen.",
            SEEN,
        ),
        "undeclared": Sentence(
            "Über `{tool}` ist nichts erklärt; was der Aufruf vom {since} geändert hat und wie es"
            " zurückzunehmen wäre, weiß niemand.",
            "Wer es gesehen hat, ist nicht bekannt.",
        ),
        "purged": Sentence(
            "Was `{tool}` am {since} vorgefunden hat, wurde mit dem Verlauf gelöscht und lässt sich"
            " von hier aus nicht wiederherstellen.",
            "Wer es gesehen hat, ist nicht mehr bekannt.",
        ),
        "tool_changed": Sentence(
            "Was `{tool}` am {since} getan hat, bleibt: {detail}.",
            SEEN,
        ),
        "restored": Sentence(
            "Was `{tool}` am {since} getan hat, ist von vor einer Wiederherstellung aus einer"
            " Sicherung, und ob es seither zurückgenommen wurde, lässt sich nicht nachsehen; es"
            " wurde nichts unternommen.",
            "Wer es gesehen hat, ist nicht bekannt.",
        ),
        "too_late": Sentence(
            "`{tool}` vom {since} sollte abgebrochen werden; dafür war es zu spät.", SEEN
        ),
        "needs_review": Sentence(
            "Was `{tool}` am {since} geschrieben hat, hat seither jemand anderes geändert;"
            " überschrieben wurde nichts.",
            "Wer es geändert hat, kennt es so, wie es jetzt ist.",
        ),
        "recreated": Sentence(
            "Woran `{tool}` am {since} gearbeitet hat, hat jemand anderes entfernt und neu"
            " angelegt; es blieb unberührt.",
            "Wer es neu angelegt hat, kennt es so, wie es jetzt ist.",
        ),
        "occupied": Sentence(
            "In dem, was `{tool}` am {since} angelegt hat, liegt etwas von anderen; es blieb mit"
            " ihm stehen.",
            "Wer es hineingelegt hat, rechnet damit, es dort zu finden.",
        ),
        "in_doubt": Sentence(
            "Zu `{tool}` vom {since} wurde ein Gegenaufruf gesendet; ob er gewirkt hat, weiß"
            " niemand.",
            "Wer es gesehen hat, ist nicht bekannt.",
        ),
        "forward_in_doubt": Sentence(
            "Ob `{tool}` vom {since} gewirkt hat, weiß niemand; es wurde nichts unternommen.",
            "Wer es gesehen hat, ist nicht bekannt.",
            "Ob `{tool}` vom {since} gewirkt hat, weiß niemand; es ist nachzusehen.",
        ),
        "partly": Sentence(
            "Was `{tool}` am {since} getan hat, wurde zum Teil zurückgenommen.",
            "Einiges davon kann gesehen worden sein.",
        ),
        "blocked": Sentence(
            "Was `{tool}` am {since} getan hat, bleibt, weil sich etwas nicht zurücknehmen ließ,"
            " das davon abhängt.",
            SEEN,
        ),
        "later_call": Sentence(
            "Was `{tool}` am {since} getan hat, bleibt, weil ein späterer eigener Aufruf des"
            " Agenten im Weg ist und noch besteht.",
            SEEN,
        ),
        "failed": Sentence(
            "Was `{tool}` am {since} getan hat, ließ sich nicht zurücknehmen: {detail}.", SEEN
        ),
        "noop_inverse": Sentence(
            "Der Gegenaufruf zu `{tool}` vom {since} wurde als erledigt gemeldet, und nichts hat"
            " sich geändert.",
            SEEN,
        ),
        "not_started": Sentence(
            "Was `{tool}` am {since} getan hat, wurde nicht angegangen: {because}.", SEEN
        ),
        "left": Sentence(
            "Von dem, was `{tool}` am {since} getan hat, ist etwas geblieben.",
            NOBODY,
            "Von dem, was `{tool}` am {since} getan hat, wird etwas bleiben.",
        ),
        # by the words of contracts
        "file_left": Sentence(
            "Eine Datei, die `{tool}` am {since} angelegt hat, ist noch da; der Server kann nicht"
            " löschen.",
            NOBODY,
        ),
        "folder_left": Sentence(
            "Ein Ordner, den `{tool}` am {since} angelegt hat, ist noch da; der Server kann nicht"
            " löschen.",
            NOBODY,
        ),
        "moved": Sentence(
            "Was `{tool}` am {since} verschoben hat, liegt noch an seinem neuen Ort.", NOBODY
        ),
        "mail_sent": Sentence(
            "Die E-Mail „{subject}“ ging am {since} an {who} und lässt sich nicht zurückholen.",
            SEEN,
        ),
        "invitation_sent": Sentence(
            "Die Einladung „{subject}“ ging am {since} an {who}; sie kann dort im Postfach liegen.",
            SEEN,
        ),
        "notice_sent": Sentence(
            "„{subject}“ wurde zurückgenommen; {who} hat davon und von seinem Ende erfahren.",
            SEEN,
            "„{subject}“ wird zurückgenommen; {who} hat davon erfahren und erfährt auch das Ende.",
        ),
        "message_posted": Sentence(
            "Die Nachricht „{subject}“ wurde am {since} veröffentlicht, für {who}.", SEEN
        ),
        "payment_made": Sentence(
            "Die Zahlung „{subject}“ an {who} wurde am {since} ausgeführt und lässt sich nicht"
            " zurückrufen.",
            SEEN,
        ),
        "payment_refunded": Sentence(
            "Die Zahlung „{subject}“ vom {since} wurde erstattet; beides bleibt auf dem Auszug.",
            SEEN,
            "Die Zahlung „{subject}“ vom {since} wird erstattet; beides bleibt auf dem Auszug.",
        ),
        "shared": Sentence(
            "„{subject}“ wurde am {since} mit {who} geteilt; was sie kopiert haben, bleibt ihnen.",
            SEEN,
        ),
        "commit_left": Sentence(
            "Ein Commit, den `{tool}` am {since} angelegt hat, bleibt in der Historie.", NOBODY
        ),
    },
    fixes={
        Fix.YOU: "Sieh es dir an und stelle es von Hand richtig, oder nimm es zur Kenntnis.",
        Fix.PEOPLE: "Schreib den Betroffenen; ein Entwurf steht unten.",
        Fix.ADMINISTRATOR: "Sag der Verwaltung Bescheid: Der Vertrag des Werkzeugs stimmt nicht.",
        Fix.LATER_UNDO: "Versuche den Rest in einem neuen Plan.",
        Fix.NOBODY: "Daran kann niemand etwas ändern; nimm es zur Kenntnis.",
    },
    states={
        CompensationState.PENDING: "wartet",
        CompensationState.CHECKING: "wird geprüft",
        CompensationState.INTENT: "wird gleich gesendet",
        CompensationState.SENT: "gesendet",
        CompensationState.VERIFYING: "wird nachgeprüft",
        CompensationState.REVERTED: "zurückgenommen",
        CompensationState.COMPENSATED: "ausgeglichen",
        CompensationState.CANCELLED: "abgebrochen",
        CompensationState.NEEDS_YOU: "braucht dich",
        CompensationState.NEEDS_REVIEW: "braucht eine Durchsicht",
        CompensationState.IN_DOUBT: "ungewiss",
        CompensationState.PARTLY: "zum Teil zurückgenommen",
        CompensationState.BLOCKED: "aufgehalten",
        CompensationState.FAILED: "gescheitert",
        CompensationState.NOOP_INVERSE: "ohne Wirkung",
        CompensationState.NOT_STARTED: "nicht begonnen",
    },
    reasons={
        Reason.ALREADY: "schon wie vorher",
        Reason.COVERED: "zusammen mit einem anderen zurückgenommen",
        Reason.NEVER_HAPPENED: "es hat nie gewirkt",
        Reason.IRREVERSIBLE: "es gibt keinen Weg zurück",
        Reason.PURGED: "Verlauf gelöscht",
        Reason.TOO_LATE: "zu spät zum Abbrechen",
        Reason.AGENT: "sein Agent kam innerhalb seiner Grenzen zu keinem Ende",
        Reason.RESTORED: "es ist von vor einer Wiederherstellung aus einer Sicherung",
        Reason.TOOL_CHANGED: "ein Werkzeug, das es braucht, ist nicht mehr das von damals",
        Reason.DRIFT: "von jemand anderem geändert",
        Reason.RECREATED: "von jemand anderem entfernt und neu angelegt",
        Reason.OCCUPIED: "es liegt etwas von anderen darin",
        Reason.UNREADABLE: "es ist nicht lesbar",
        Reason.REFUSED: "das Werkzeug hat abgelehnt",
        Reason.ATTEMPTS: "so oft versucht wie erlaubt",
        Reason.NOTHING_CHANGED: "als erledigt gemeldet, und nichts hat sich geändert",
        Reason.UNCHECKED: "ungeprüft",
        Reason.LOST: "gesendet, und keine Antwort",
        Reason.FORWARD_IN_DOUBT: "nicht bekannt, ob es geschehen ist",
        Reason.DEPENDENT: "etwas, das davon abhängt, besteht noch",
        Reason.LATER_CALL: "ein späterer eigener Aufruf des Agenten ist im Weg und besteht noch",
        Reason.BUDGET: "das Budget ist verbraucht",
        Reason.DEADLINE: "die Zeit ist verbraucht",
        Reason.POLICY: "ein früheres ist gescheitert",
        Reason.STOPPED: "von einem Menschen angehalten",
    },
    outcomes={
        Outcome.FULLY_REVERTED: "Vollständig zurückgenommen",
        Outcome.PARTIALLY_REVERTED: "Zum Teil zurückgenommen",
        Outcome.NOT_REVERTED: "Nicht zurückgenommen",
    },
    counts={
        Count.NEEDS_YOU: ("{n} braucht dich", "{n} brauchen dich"),
        Count.NEEDS_REVIEW: ("{n} braucht eine Durchsicht", "{n} brauchen eine Durchsicht"),
        Count.IN_DOUBT: ("{n} ungewiss", "{n} ungewiss"),
        Count.FAILED: ("{n} gescheitert", "{n} gescheitert"),
        Count.NOT_STARTED: ("{n} nicht begonnen", "{n} nicht begonnen"),
        Count.COMPENSATE: ("{n} ausgeglichen", "{n} ausgeglichen"),
        Count.CANCEL: ("{n} abgebrochen", "{n} abgebrochen"),
        Count.REVERT: ("{n} zurückgenommen", "{n} zurückgenommen"),
    },
    settles="Es wird am {when} endgültig.",
    seen=SEEN,
    nobody_told=NOBODY,
    nobody_named="Personen, die das Werkzeug nicht nennt",
    and_more="{named} und {more} weitere",
    no_detail="das Werkzeug hat keinen Grund genannt",
    draft_subject="Zu „{subject}“ vom {since}",
    draft_body=(
        "Guten Tag,\n\n„{subject}“ vom {since} hat Sie versehentlich erreicht. Bitte betrachten"
        " Sie es als gegenstandslos.\n\nEntschuldigen Sie die Umstände.\n"
    ),
)
