"""What is counted and timed, as Prometheus reads it; `docs/operations.md` says what each means.

The metrics are the process's own, in a registry of their own. No label has more values than this
file or `core` names: sessions, turns, people and models are never among them. What can be looked
up when somebody asks (`Now`) costs nothing in between.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, get_args

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.process_collector import ProcessCollector

from turnback import __version__

CONTENT_TYPE = CONTENT_TYPE_LATEST
LAG_EVERY = 0.5  # seconds

CommitKind = Literal[
    "prompt",
    "step",
    "end",
    "stop",
    "interrupt",
    "revert",
    "redo",
    "checkout",
    "edit",
    "change",
    "approval",
]
Dialect = Literal["v1", "base"]

FAST = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2, 4, 8)
SLOW = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600)

# A time of creation for each series would double what is read.
disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

_INFO = Gauge("turnback_info", "1, for the version that runs.", ["version"], registry=REGISTRY)
_INFO.labels(__version__).set(1)

# -- clients

_sockets = Gauge("turnback_sockets", "Sockets open now.", ["dialect"], registry=REGISTRY)
SOCKETS = {dialect: _sockets.labels(dialect) for dialect in get_args(Dialect)}

SLOW_READERS = Counter(
    "turnback_slow_readers", "Sockets closed because they read too slowly.", registry=REGISTRY
)

_openings = Counter(
    "turnback_openings", "Sockets opened, by what they were told first.", ["with"],
    registry=REGISTRY,
)  # fmt: skip
OPENINGS = {told: _openings.labels(told) for told in ("snapshot", "replay", "reset")}

REPLAYED = Counter(
    "turnback_replayed_frames", "Frames sent again to clients that came back.", registry=REGISTRY
)

_errors = Counter("turnback_errors", "Errors told to clients.", ["code"], registry=REGISTRY)


def error(code: str) -> None:
    """Count an error that a client is told; `code` is that of a class in `core.errors`."""
    _errors.labels(code).inc()


# -- sessions

LIVE_SESSIONS = Gauge("turnback_live_sessions", "Sessions in memory now.", registry=REGISTRY)

COMMANDS_WAITING = Gauge(
    "turnback_commands_waiting", "Commands in the queues of sessions now.", registry=REGISTRY
)
LONGEST_COMMAND_QUEUE = Gauge(
    "turnback_command_queue_longest", "Commands in the longest such queue.", registry=REGISTRY
)
FRAMES_WAITING = Gauge(
    "turnback_frames_waiting", "Frames in the queues of sockets now.", registry=REGISTRY
)
LONGEST_SEND_QUEUE = Gauge(
    "turnback_send_queue_longest", "Frames in the longest such queue.", registry=REGISTRY
)

COMMAND_SECONDS = Histogram(
    "turnback_command_seconds", "From a command's arrival in its session's queue to its answer.",
    buckets=FAST, registry=REGISTRY,
)  # fmt: skip

_commits = Histogram(
    "turnback_commit_seconds", "One commit, with the wait for a connection.", ["kind"],
    buckets=FAST, registry=REGISTRY,
)  # fmt: skip
COMMIT_SECONDS = {kind: _commits.labels(kind) for kind in get_args(CommitKind)}

EVENTS = Counter(
    "turnback_events", "Events written to the outbox, to be told to clients.", registry=REGISTRY
)

# -- runs

RUNS = Gauge("turnback_runs", "Runs under way in this process.", registry=REGISTRY)

_ended = Counter(
    "turnback_runs_ended", "Runs of this process that have ended, by how.", ["end"],
    registry=REGISTRY,
)  # fmt: skip
ENDS = ("complete", "stopped", "failed", "limit", "interrupted", "waiting", "lost")
RUNS_ENDED = {end: _ended.labels(end) for end in ENDS}

STEP_SECONDS = Histogram(
    "turnback_step_seconds", "A step of a run: the model call, its tools, its commit.",
    buckets=SLOW, registry=REGISTRY,
)  # fmt: skip

_model = Histogram(
    "turnback_model_call_seconds", "One model call, by how it ended.", ["outcome"],
    buckets=SLOW, registry=REGISTRY,
)  # fmt: skip
_tool = Histogram(
    "turnback_tool_call_seconds", "One tool call, by how it ended.", ["outcome"],
    buckets=FAST, registry=REGISTRY,
)  # fmt: skip
OUTCOMES = ("ok", "stopped", "failed", "limit")
MODEL_CALL_SECONDS = {outcome: _model.labels(outcome) for outcome in OUTCOMES}
TOOL_CALL_SECONDS = {outcome: _tool.labels(outcome) for outcome in OUTCOMES}

FIRST_PIECE_SECONDS = Histogram(
    "turnback_model_first_piece_seconds", "From a model call to the first piece of its answer.",
    buckets=SLOW, registry=REGISTRY,
)  # fmt: skip

_tokens = Counter(
    "turnback_model_tokens", "Tokens, as the models' providers count them.", ["direction"],
    registry=REGISTRY,
)  # fmt: skip
TOKENS_IN, TOKENS_OUT = _tokens.labels("input"), _tokens.labels("output")

TAKEOVERS = Counter(
    "turnback_takeovers", "Runs of processes that were gone, ended by this one.", registry=REGISTRY
)

# -- other processes

_wakeups = Counter(
    "turnback_wakeups",
    "Sessions that processes tell each other of. Lost: connections for it that broke off.",
    ["way"], registry=REGISTRY,
)  # fmt: skip
WAKEUPS_SENT, WAKEUPS_HEARD, WAKEUPS_LOST = map(_wakeups.labels, ("sent", "heard", "lost"))

POLL_HEALS = Counter(
    "turnback_poll_heals", "Sessions of which no wake-up had told, found by the poll.",
    registry=REGISTRY,
)  # fmt: skip

# -- the database and the process

DB_CONNECTIONS = Gauge(
    "turnback_db_connections", "Connections of the pool now.", ["state"], registry=REGISTRY
)
DB_AWAY = Counter(
    "turnback_db_unavailable", "Statements that the database did not answer, or refused.",
    registry=REGISTRY,
)  # fmt: skip

LOOP_LAG = Histogram(
    "turnback_loop_lag_seconds", "How late the event loop woke somebody who slept.",
    buckets=FAST, registry=REGISTRY,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Now:
    """What there is at this moment."""

    live_sessions: int
    commands: int
    longest_command_queue: int
    frames: int
    longest_send_queue: int
    db_used: int
    db_idle: int


def render(now: Now) -> bytes:
    """All metrics in Prometheus' text format (`CONTENT_TYPE`)."""
    LIVE_SESSIONS.set(now.live_sessions)
    COMMANDS_WAITING.set(now.commands)
    LONGEST_COMMAND_QUEUE.set(now.longest_command_queue)
    FRAMES_WAITING.set(now.frames)
    LONGEST_SEND_QUEUE.set(now.longest_send_queue)
    DB_CONNECTIONS.labels("used").set(now.db_used)
    DB_CONNECTIONS.labels("idle").set(now.db_idle)
    return generate_latest(REGISTRY)


async def watch_loop() -> None:
    """Time how late this task is woken, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_EVERY
        await asyncio.sleep(LAG_EVERY)
        LOOP_LAG.observe(max(0.0, loop.time() - due))
