"""Logs: one line for each event, on the standard error; the standard output is for what was asked.

A line is a JSON object, or for a person at a terminal a line of text. It has ids, kinds, counts
and times, and never content: of an exception its type and where it came from, but not its message,
which may quote what somebody wrote; of a library's line its words before any value was put in.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from turnback.telemetry import context
from turnback.telemetry.exceptions import trace

if TYPE_CHECKING:
    import asyncio

    from structlog.typing import EventDict, WrappedLogger

MIGRATIONS = "alembic.runtime.migration"

log = structlog.get_logger()


def configure(level: str) -> None:
    """Log from `level` on: `debug`, `info`, `warning` or `error`."""
    lowest = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            _add_ids,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _tell_exception,
            _as_text if sys.stderr.isatty() else _as_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=lambda *_: _Lines(sys.stderr),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Foreign()]
    # Libraries: only what went wrong. uvicorn tells at `info` what our own lines tell, and some
    # clients tell at `debug` what was sent to a model.
    root.setLevel(max(lowest, logging.WARNING))
    logging.getLogger(MIGRATIONS).setLevel(lowest)
    warnings.showwarning = _on_warning


def on_loop_error(loop: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
    """An event loop's exception handler; its own prints what its callbacks were called with."""
    what = str(told.get("message") or "").partition("\n")[0]
    log.error("event loop error", what=_words(what), exc_info=told.get("exception"))


# -- the parts of a line


def _add_ids(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    return {**context.ids(), **event}


def _tell_exception(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    given = event.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        event["exception"] = trace(error)
    return event


def _as_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    order = ("timestamp", "level", "event")
    line = {**{key: event.pop(key) for key in order if key in event}, **event}
    # In ASCII: no line break, escape sequence or half of a character leaves its string.
    return json.dumps(line, default=lambda value: type(value).__name__)


def _as_text(logger: WrappedLogger, method: str, event: EventDict) -> str:
    when, level = str(event.pop("timestamp"))[11:19], str(event.pop("level"))
    words, exception = event.pop("event"), event.pop("exception", None)
    rest = "".join(f"  {key}={_visible(value)}" for key, value in event.items())
    return f"{when} {level:8}{_visible(words)}{rest}" + (f"\n{exception}" if exception else "")


def _visible(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else ascii(text)


class _Lines:
    """Writes a line. What cannot be written, to a full disk or a closed pipe, is let go of:
    a log must not end what it tells of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass

    log = debug = info = warning = error = critical = exception = msg


# -- the lines of libraries


class _Foreign(logging.Handler):
    """Tells a library's line as one of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it, without the values that the library has put in."""
        if record.name == MIGRATIONS:  # ids and titles of our own migrations
            words = record.getMessage()
            if not words.startswith("Running"):
                return
        else:
            words = _words(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        log.log(record.levelno, words, logger=record.name, exc_info=error)


def _words(message: object) -> str:
    """The fixed beginning of a message, of which only a template can be told from what is in it."""
    text = message if isinstance(message, str) else type(message).__name__
    return re.split(r"[\n(<'\"`:]", text, maxsplit=1)[0].strip()


def _on_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    log.warning("python warning", category=category.__name__, where=f"{filename}:{lineno}")
