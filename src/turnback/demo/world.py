"""The demo's state: things by kind and id in one SQLite file, for as many processes as open it."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

BUSY = 10.0  # seconds that a write waits for another process's
KEYS_KEPT = 86_400.0  # seconds that an idempotency key is honoured

_TABLES = """
CREATE TABLE IF NOT EXISTS things (
    kind TEXT NOT NULL, id TEXT NOT NULL, fields TEXT NOT NULL, made INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE TABLE IF NOT EXISTS trash (
    kind TEXT NOT NULL, id TEXT NOT NULL, fields TEXT NOT NULL, made INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE TABLE IF NOT EXISTS numbers (kind TEXT PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, asked TEXT NOT NULL, reply TEXT NOT NULL, at REAL NOT NULL
);
"""

SEED: tuple[tuple[str, str, Fields], ...] = (
    ("contact", "ada", {"name": "Ada Lindgren", "email": "ada@example.org", "phone": "555-0101"}),
    ("contact", "ben", {"name": "Ben Okafor", "email": "ben@example.org", "phone": "555-0102"}),
    ("contact", "cara", {"name": "Cara Weiss", "email": "cara@example.org", "phone": "555-0103"}),
    (
        "event",
        "review",
        {"title": "Weekly review", "start": "2031-05-08T17:00", "end": "2031-05-08T18:00"},
    ),
    ("channel", "general", {"name": "general", "topic": "Everybody"}),
)


class World:
    """The world in a file, made with a few things in it where there is none yet.

    `now` is the time in seconds since the epoch.
    """

    def __init__(self, file: Path, *, now: Callable[[], float] = time.time) -> None:
        self.now = now
        file.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(
            file, timeout=BUSY, isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode = WAL")
        with self.change():
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            if not self._db.execute("SELECT 1 FROM numbers").fetchone():
                for kind, id_, fields in SEED:
                    self.put(kind, id_, fields)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def change(self) -> Iterator[None]:
        """Within it, what is done takes effect together, or not at all if it raises."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def get(self, kind: str, id_: str) -> Fields | None:
        """A thing's fields; None if there is none."""
        found = self._db.execute(
            "SELECT fields FROM things WHERE kind = ? AND id = ?", (kind, id_)
        ).fetchone()
        return None if found is None else json.loads(found[0])

    def all(self, kind: str) -> dict[str, Fields]:
        """Every thing of a kind by its id, in the order of ids."""
        found = self._db.execute(
            "SELECT id, fields FROM things WHERE kind = ? ORDER BY id", (kind,)
        )
        return {id_: json.loads(fields) for id_, fields in found}

    def made(self, kind: str, id_: str) -> int | None:
        """What tells a thing from another one made again under its id; None if there is none."""
        found = self._db.execute(
            "SELECT made FROM things WHERE kind = ? AND id = ?", (kind, id_)
        ).fetchone()
        return None if found is None else int(found[0])

    def put(self, kind: str, id_: str, fields: Fields) -> None:
        """Change a thing to this, or make it."""
        made = self.made(kind, id_) or self.number("made")
        self._db.execute(
            "INSERT OR REPLACE INTO things VALUES (?, ?, ?, ?)",
            (kind, id_, json.dumps(fields), made),
        )

    def remove(self, kind: str, id_: str) -> bool:
        """Put a thing into the trash; whether it was there."""
        moved = self._db.execute(
            "INSERT OR REPLACE INTO trash SELECT * FROM things WHERE kind = ? AND id = ?",
            (kind, id_),
        )
        self._db.execute("DELETE FROM things WHERE kind = ? AND id = ?", (kind, id_))
        return moved.rowcount > 0

    def restore(self, kind: str, id_: str) -> bool:
        """Take a thing out of the trash, as the one that it was; whether it lay there."""
        moved = self._db.execute(
            "INSERT INTO things SELECT * FROM trash WHERE kind = ? AND id = ?", (kind, id_)
        )
        self._db.execute("DELETE FROM trash WHERE kind = ? AND id = ?", (kind, id_))
        return moved.rowcount > 0

    def number(self, kind: str) -> int:
        """The next number of its kind; none is given twice."""
        found = self._db.execute(
            "INSERT INTO numbers VALUES (?, 1) ON CONFLICT (kind) DO UPDATE SET n = n + 1"
            " RETURNING n",
            (kind,),
        ).fetchone()
        return int(found[0])

    def replied(self, key: str, asked: str) -> Fields | None:
        """What was answered under an idempotency key; raises `ValueError` if other was asked."""
        self._db.execute("DELETE FROM keys WHERE at < ?", (self.now() - KEYS_KEPT,))
        found = self._db.execute("SELECT asked, reply FROM keys WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        if found[0] != asked:
            raise ValueError("This idempotency key was used for something else")
        return json.loads(found[1])  # type: ignore[no-any-return]

    def remember(self, key: str, asked: str, reply: Fields) -> None:
        """Answer the same under this key from now on."""
        self._db.execute(
            "INSERT INTO keys VALUES (?, ?, ?, ?)", (key, asked, json.dumps(reply), self.now())
        )
