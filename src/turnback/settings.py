"""Every setting and every limit, each with a name; read from `TURNBACK_…` and the command line.

This file imports nothing of ours. Rooms take the values they need; none reads the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

MOST = 2**31 - 1  # what PostgreSQL takes for a whole number, and for a timeout in milliseconds

Positive = Annotated[int, Field(ge=1, le=MOST)]
Seconds = Annotated[float, Field(gt=0, le=MOST // 1_000)]
LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """What an administrator can set. Units are in the names or the comments beside them."""

    model_config = SettingsConfigDict(
        env_prefix="TURNBACK_", env_ignore_empty=True, extra="ignore", frozen=True
    )

    # -- where and how it serves
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8700
    data_dir: Path = Path("./.turnback")
    allowed_origins: tuple[str, ...] = ()  # beside the server's own
    log_level: Annotated[LogLevel, BeforeValidator(lambda value: str(value).lower())] = "info"
    drain_timeout: Seconds = 10.0

    # -- the database
    database_url: SecretStr | None = None  # none: the embedded PostgreSQL under data_dir
    db_pool_size: Positive = 10
    db_connect_timeout: Seconds = 10.0
    db_statement_timeout: Seconds = 30.0
    embedded_timeout: Seconds = 300.0  # each part of the embedded server's start and stop
    migrate_timeout: Seconds = 60.0  # for another process that migrates

    # -- the model
    model: str = "offline"
    model_base_url: str | None = None
    model_api_key: SecretStr | None = None
    max_models: Positive = 100  # different ones in use by the sessions of one process
    offline_delay_ms: Annotated[int, Field(ge=0, le=MOST)] = 15  # between the offline model's words

    # -- a run's limits
    max_steps: Positive = 40  # model calls in a turn
    run_timeout: Seconds = 600.0
    model_timeout: Seconds = 120.0  # one model call, whole
    model_idle_timeout: Seconds = 60.0  # between two pieces of a model's stream
    tool_timeout: Seconds = 60.0
    max_tool_calls_per_step: Positive = 64
    max_tool_output: Positive = 100_000  # characters of a tool's output
    max_reply_bytes: Positive = 1_000_000  # text and tool arguments of one model call
    max_context_bytes: Positive = 400_000  # of history and workflow sent to the model

    # -- a session's limits
    max_redo_depth: Positive = 1_000
    max_branch_segments: Positive = 100_000
    max_prompt_bytes: Positive = 200_000
    max_workflow_bytes: Positive = 8_000_000
    max_json_depth: Annotated[int, Field(ge=1, le=200)] = 100  # frames wrap it; orjson writes 254
    max_edits: Positive = 1_000  # in one command
    command_queue: Positive = 100  # waiting commands per session
    session_idle_timeout: Seconds = 300.0  # a session without sockets leaves memory
    max_live_sessions: Positive = 2_000
    snapshot_cache: Positive = 64  # workflows kept in memory per live session
    request_ttl: Seconds = 86_400.0  # how long a requestId is remembered
    events_kept: Positive = 10_000  # newest per session, for ?since=
    events_kept_days: Annotated[int, Field(ge=1, le=100_000)] = 7
    forget_interval: Seconds = 600.0  # between two rounds of dropping what is past its time

    # -- leases (database clock)
    lease_heartbeat: Seconds = 5.0
    lease_expiry: Seconds = 15.0
    poll_interval: Seconds = 2.0

    # -- sockets and pages
    ws_max_size: Positive = 9_000_000  # bytes in one frame from a client
    ws_max_send: Positive = 64_000_000  # bytes in one frame to a client
    ws_queue: Positive = 1_000  # frames waiting for one slow reader
    ws_queue_size: Positive = 64_000_000  # characters of those frames
    max_body: Positive = 9_000_000  # bytes of a REST body
    snapshot_steps: Positive = 200  # steps in a v1 snapshot
    branch_choices: Positive = 100  # newest lines named where lines part
    page_limit: Positive = 500  # rows in a REST page

    @field_validator("lease_expiry")
    @classmethod
    def _outlives_heartbeats(cls, expiry: float, info: ValidationInfo) -> float:
        if expiry <= info.data.get("lease_heartbeat", 0.0):
            raise ValueError("must be longer than `TURNBACK_LEASE_HEARTBEAT`, or no run lives")
        return expiry
