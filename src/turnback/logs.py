"""Logs: one line each, on the standard error; the standard output is for what was asked for."""

from __future__ import annotations

import logging
import sys

import structlog

LIBRARIES = "timestamp=%(asctime)s level=%(levelname)s logger=%(name)s event=%(message)r"


def configure(level: str) -> None:
    """Log from `level` on: `debug`, `info`, `warning` or `error`."""
    lowest = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(
                key_order=["timestamp", "level", "event"], bool_as_flag=False
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    # Libraries: only what went wrong. uvicorn tells at `info` what our own lines tell.
    logging.basicConfig(level=max(lowest, logging.WARNING), stream=sys.stderr, format=LIBRARIES)
