"""Every setting and every limit, each with a name; read from `TURNBACK_…` and the command line.

This file imports nothing of ours. Rooms take the values they need; none reads the environment.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

OFFLINE = "offline"
"""The built-in stand-in for a model: it needs no network, no key and next to no time."""

MOST = 2**31 - 1  # what PostgreSQL takes for a whole number, and for a timeout in milliseconds


class Unit(str):
    """What a setting counts; `turnback schema` writes it into the table of `docs/operations.md`."""


Positive = Annotated[int, Field(ge=1, le=MOST)]
Bytes = Annotated[Positive, Unit("bytes")]
Characters = Annotated[Positive, Unit("characters")]
Days = Annotated[int, Field(ge=1, le=100_000), Unit("days")]
Milliseconds = Annotated[int, Field(ge=0, le=MOST), Unit("ms")]
Delay = Annotated[float, Field(ge=0, le=MOST // 1_000), Unit("s")]
Seconds = Annotated[float, Field(gt=0, le=MOST // 1_000), Unit("s")]
LogLevel = Literal["debug", "info", "warning", "error"]
CanvasTool = Literal["addOperator", "modifyOperator", "deleteOperator", "getWorkflow"]


def _server_name(name: str) -> str:
    if len(name) > 32 or re.fullmatch(r"[a-z0-9]+([_-][a-z0-9]+)*", name) is None:
        raise ValueError(
            f"`{name[:40]}` cannot be the name of a tool server: use at most 32 small"
            " letters and digits, with a single `-` or `_` between them, such as `my-notes`"
        )
    return name


ServerName = Annotated[str, AfterValidator(_server_name)]
"""What a tool server is called: its tools are `name.tool` to a person, `name__tool` to a model."""


class McpServer(BaseModel):
    """One MCP server: a program that speaks over its standard input and output, or an address."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )

    command: str | None = None
    """The program; found on the `PATH` unless it has a `/`."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, SecretStr] = {}
    """Variables beside the few that every program needs; of ours it gets no other."""
    cwd: Path | None = None
    """The folder it runs in."""
    url: str | None = None
    """The address of a server that speaks streamable HTTP."""
    headers: dict[str, SecretStr] = {}
    """Headers of every request to it, as `Authorization`."""
    trust_contracts: bool = False
    """Whether contracts that it states itself count (undo.md 1)."""
    overlay: Literal["memory", "filesystem", "git"] | None = None
    """Contracts that come with Turnback, for the public server of this name; an administrator's
    own, in `TURNBACK_CONTRACTS_DIR`, count in their place.
    """

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise ValueError("give `command` for a program or `url` for an address")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError("`url` must begin with `http://` or `https://`")
        return self


class Settings(BaseSettings):
    """What an administrator can set; each is described by the text below it."""

    model_config = SettingsConfigDict(
        env_prefix="TURNBACK_",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )

    # -- where and how it serves

    host: str = "127.0.0.1"
    """The address it listens on: a loopback one, or any other once there is an API key."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8700
    """The TCP port; `0` takes any free one."""
    data_dir: Path = Path("./.turnback")
    """Where the embedded PostgreSQL keeps its files; not used with `TURNBACK_DATABASE_URL`."""
    attachments_dir: Path | None = None
    """Where the bytes of attachments are kept; without it, `attachments` in `TURNBACK_DATA_DIR`.

    Processes that share a database share it too.
    """
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the server is reached, as a proxy passes them on in `Host`, without a port;
    a JSON list of them. Loopback names, and the address it is reached at, need not be named.
    """
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may use the server, beside its own; a JSON list of them."""
    log_level: Annotated[LogLevel, BeforeValidator(lambda value: str(value).lower())] = "info"
    """The least that is logged."""
    drain_timeout: Seconds = 10.0
    """How long runs under way may go on when the service is told to end."""

    # -- the database

    database_url: SecretStr | None = None
    """A PostgreSQL, 16 or newer; without it, the embedded one under `TURNBACK_DATA_DIR`."""
    db_pool_size: Positive = 10
    """Connections to the database at most, beside those of the process's lock and its wake-ups."""
    db_connect_timeout: Seconds = 10.0
    """How long a connection may take, from the pool or to the database."""
    db_statement_timeout: Seconds = 30.0
    """How long one statement may take."""
    embedded_timeout: Seconds = 300.0
    """How long each part of the embedded PostgreSQL's start and stop may take."""
    migrate_timeout: Seconds = 60.0
    """How long a migration waits for another process that migrates."""

    # -- the model

    model: str = OFFLINE
    """The model of new sessions: `offline`, or `PROVIDER:NAME` as in `openai:gpt-5-mini`.

    `structured:openai:NAME` is for a model that makes no tool calls, on a server that keeps to a
    JSON schema.
    """
    model_base_url: str | None = None
    """The provider's address; for `openai:…`, any server that speaks chat completions."""
    model_api_key: SecretStr | None = None
    """The provider's key; without it, what the provider itself reads from the environment."""
    model_images: bool = True
    """Whether models that take images are sent them; false for one that takes none unsaid."""
    max_models: Positive = 100
    """Models to which one process keeps connections; those that carry no run make room."""
    offline_delay_ms: Milliseconds = 15
    """The offline model's pause between two words."""

    # -- a run's limits

    max_steps: Positive = 40
    """Model calls in one turn."""
    run_timeout: Seconds = 600.0
    """How long one turn may take."""
    model_timeout: Seconds = 120.0
    """How long one model call may take, whole."""
    model_idle_timeout: Seconds = 60.0
    """How long a model's stream may pause between two pieces."""
    tool_timeout: Seconds = 60.0
    """How long one tool call may take."""
    max_tool_calls_per_step: Positive = 64
    """Tool calls that one answer of the model may make."""
    max_tool_output: Characters = 100_000
    """A tool's output, beyond which it is cut."""
    max_reply_bytes: Bytes = 1_000_000
    """Text and tool arguments of one model call."""
    max_context_tokens: Positive = 100_000
    """Tokens of one request to the model, by an estimate: three bytes of text are one."""
    max_context_turns: Positive = 100
    """Earlier turns that one request to the model tells of, however short they are."""
    model_retries: Annotated[int, Field(ge=0, le=100)] = 2
    """Further tries of a model call that failed for a while, before anything of it had arrived."""
    max_retry_wait: Seconds = 30.0
    """How long a provider may have the next try wait; one that asks for more ends the turn."""
    disabled_tools: frozenset[CanvasTool] = frozenset()
    """Tools that no model is offered and none can call; a JSON list of them."""

    # -- tool servers

    mcp_servers: dict[ServerName, McpServer] = {}
    """MCP servers by name, each with `command`, `args`, `env`, `cwd`, or `url`, `headers`, and
    `overlay`, `trust_contracts`; a JSON object.
    """
    tools_file: Path | None = None
    """A YAML file with more of them, under `mcp_servers`."""
    contracts_dir: Path | None = None
    """The folder of the overlays: contracts for the tools of MCP servers, in YAML. It is refused if
    a configured tool server could write to it.
    """
    tool_modules: tuple[str, ...] = ()
    """Python modules whose functions marked with `@tool` are tools; a JSON list of them."""
    disabled_server_tools: frozenset[str] = frozenset()
    """Tools, as `connection.tool`, or `connection.*` for all of one, that no model is offered and
    none can call; a JSON list of them.
    """
    demo: bool | None = None
    """Whether the demo world is there: a mailbox, a calendar, contacts, payments and a chat that
    are nobody's. Unset, it is there with the embedded database, as long as no MCP server is
    configured.
    """
    tool_start_timeout: Seconds = 30.0
    """How long a tool server may take to be ready and to name its tools."""
    tool_end_timeout: Seconds = 2.0
    """How long a tool server may take to end by itself, before it is killed."""
    tool_restart_delay: Seconds = 0.5
    """How long a tool server that has died stays so; each time twice as long, up to
    `tool_restart_delay_max`.
    """
    tool_restart_delay_max: Seconds = 60.0
    """The longest it stays so; one that ran for this long begins anew."""
    max_server_tools: Positive = 1_000
    """Tools that one server may have; one with more is not used."""
    max_tool_message: Bytes = 8_000_000
    """One message of a tool server, a call's reply among them."""
    max_tool_chatter: Bytes = 32_000_000
    """What a tool server may say between two calls, or during one, before it is ended."""

    # -- what is done outside, and its log

    approval: Literal["never", "irreversible", "writes"] = "irreversible"
    """Which calls of tools outside wait for a person: `never` any, those that are `irreversible`,
    or all `writes`.
    """
    approval_ttl: Seconds = 86_400.0
    """How long such a call waits; then it is not made."""
    secret_key: SecretStr | None = None
    """The key by which states are encrypted that contracts call secret; without it, a call that has
    one cannot be taken back.
    """
    max_before: Bytes = 1_000_000
    """What is kept of one thing's state before a call; of a larger one nothing is put back."""
    lock_expiry: Seconds = 300.0
    """How long a call may work on a thing before another may; more than four `tool_timeout`."""
    lock_patience: Seconds = 30.0
    """How long a call waits for another that works on the same thing."""
    hold_patience: Seconds = 3_600.0
    """How long after its hold a call is still sent that could not be sent before; then never."""
    tool_stop_grace: Seconds = 3.0
    """How long a stopped turn waits for the reply to a call that was sent."""

    # -- undo

    undo_plan_ttl: Seconds = 900.0
    """How long a plan that was shown may be run."""
    undo_reads: Positive = 16
    """How often an undo may look at the things of each effect, on average."""
    undo_tokens: Positive = 100_000
    """Tokens that the agents of one undo may use, where contracts have such (`agentic`)."""
    undo_timeout: Seconds = 600.0
    """After how long an undo begins nothing more."""
    undo_attempts: Positive = 4
    """How often one undo may send one call, or try to read one thing."""
    undo_effect_attempts: Positive = 12
    """How often all undos together may send one call."""
    undo_backoff: Seconds = 0.5
    """How long an undo waits before it tries again; each time twice as long, up to
    `undo_backoff_max`.
    """
    undo_backoff_max: Seconds = 20.0
    """The longest that it waits."""
    read_lag: Delay = 10.0
    """How long a tool's reads may lag behind its writes: a call that was answered and shows nothing
    is not looked at by an undo before."""
    undo_settle_interval: Seconds = 60.0
    """How often it is looked whether what undos have left is settled."""
    max_undo_effects: Positive = 1_000
    """Effects, and turns, that one plan may name."""

    # -- a session's limits

    max_redo_depth: Positive = 1_000
    """Reverts that can be redone, one after the other."""
    max_branch_segments: Positive = 100_000
    """Pieces of other lines that one line may be made of."""
    max_fork_depth: Annotated[int, Field(ge=1, le=1_000)] = 128
    """Forks of forks of forks, one of the other."""
    pending_claim_time: Seconds = 120.0
    """How long one client may be at a fork's pending action, before another may take it."""
    max_prompt_bytes: Bytes = 200_000
    """A prompt."""
    max_workflow_bytes: Bytes = 8_000_000
    """A workflow's document."""
    max_json_depth: Annotated[int, Field(ge=1, le=200)] = 100  # frames wrap it; orjson writes 254
    """Nesting of a workflow's document and of tool arguments."""
    max_edits: Positive = 1_000
    """Edits in one command."""
    max_kept_edits: Positive = 200
    """Runs of people's edits that one revert makes again (`keepEdits`)."""
    command_queue: Positive = 100
    """Commands that wait for one session."""
    session_idle_timeout: Seconds = 300.0
    """After how long a session without sockets leaves memory."""
    max_live_sessions: Positive = 2_000
    """Sessions in memory at once."""
    snapshot_cache: Positive = 64
    """Workflows kept in memory for each of them."""
    directory_cache: Positive = 100_000
    """Sessions of which a process remembers where they are stored, live or not."""
    request_ttl: Seconds = 86_400.0
    """How long a `requestId` and its answer are remembered."""
    idempotency_ttl: Seconds = 86_400.0
    """How long an `Idempotency-Key` and its answer are remembered."""
    events_kept: Positive = 10_000
    """Newest events kept of each session, from which `?since=` is answered."""
    events_kept_days: Days = 7
    """How long those are kept."""
    forget_interval: Seconds = 600.0
    """The time between two rounds of dropping what is past its time."""

    sweep_interval: Seconds = 600.0
    """The time between two rounds of removing deleted sessions that nothing living comes from."""
    sweep_grace: Seconds = 3_600.0
    """How long a deleted session stays; longer than `db_statement_timeout`."""
    sweep_batch: Positive = 1_000
    """Rows that a sweep or a purge removes at once."""
    check_timeout: Seconds = 3_600.0
    """How long one look of `turnback check` may take."""

    # -- attachments

    max_attachment_bytes: Bytes = 20_000_000
    """One file."""
    max_session_attachments: Positive = 200
    """Files that a session may have of its own."""
    max_session_attachment_bytes: Bytes = 200_000_000
    """What those may have together."""
    max_prompt_attachments: Positive = 20
    """Files that one prompt may name."""
    max_image_bytes: Bytes = 5_000_000
    """An image that a model is sent; of a larger one it is told the name."""
    attachment_timeout: Seconds = 600.0
    """How long a file may take to come, before it is refused."""
    max_uploads: Positive = 64
    """Files that may be coming to one process at once."""
    attachment_grace: Seconds = 3_600.0
    """How long bytes stay that nothing refers to; longer than `attachment_timeout`."""

    # -- leases (database clock)

    lease_heartbeat: Seconds = 5.0
    """How often a process says that its runs are alive."""
    lease_grace: Seconds = 1.0
    """How long a process's lock is free, without a heartbeat, before its runs are taken over."""
    lease_expiry: Seconds = 15.0
    """After how long a run whose process says nothing may be ended by another."""
    poll_interval: Seconds = 2.0
    """How often a process looks for what others have written, and whether the database is there."""
    wakeup_interval: Seconds = 0.005
    """The shortest time between two notices to the other processes of what was written."""

    # -- who may connect

    ticket_ttl: Seconds = 30.0
    """How long a ticket for a browser's socket is good, which is used once."""
    tickets_per_key: Positive = 1_000
    """Tickets of one key that are good and were not used."""
    sign_in_ttl: Seconds = 43_200.0
    """How long the page stays signed in."""
    bad_credentials_per_minute: Positive = 60
    """API keys, tickets and cookies that are none, of one address; then none new is looked at."""
    callers_kept: Positive = 10_000
    """Addresses, and credentials found good, that a process remembers for that."""

    # -- sockets and pages

    ws_max_size: Bytes = 9_000_000
    """A frame from a client."""
    ws_max_send: Bytes = 64_000_000
    """A frame to a client."""
    ws_messages_per_minute: Positive = 6_000
    """Frames that a client may send on one socket, beyond which they are refused."""
    ws_sockets_per_principal: Positive = 10_000
    """Sockets that one caller may have open on one process."""
    ws_ping_interval: Seconds = 20.0
    """How often a socket's client is asked whether it is there."""
    ws_ping_timeout: Seconds = 20.0
    """How long its answer may take, before its socket is closed."""
    handshake_timeout: Seconds = 10.0
    """How long a connection may take to say what it wants, before it is cut."""
    keep_alive_timeout: Seconds = 75.0
    """How long a connection is kept between two REST requests: longer than its other end does."""
    replay_events: Positive = 1_000
    """Frames that `?since=` brings at most; beyond that a snapshot is cheaper, and sent instead."""
    replay_size: Bytes = 8_000_000
    """The size of those frames, beyond which a snapshot is sent instead."""
    ws_queue: Positive = 1_000
    """Frames that wait for one slow reader, beyond which its socket is closed."""
    ws_queue_size: Bytes = 64_000_000
    """The size of those frames, beyond which its socket is closed."""
    max_body: Bytes = 9_000_000
    """The body of a REST request."""
    body_timeout: Seconds = 60.0
    """How long a REST request's body may take to come, before it is refused."""
    answer_timeout: Seconds = 30.0
    """How long a client may take nothing of a REST answer that waits for it, before it is cut."""
    snapshot_steps: Positive = 200
    """Steps in a v1 snapshot; older ones are fetched in pages."""
    snapshot_undos: Positive = 20
    """Undos in a v1 snapshot: the newest that are under way, or have left what is open."""
    branch_choices: Positive = 100
    """Lines named where lines part, the newest of them."""
    preview_turns: Positive = 200
    """Turns named in the preview of a revert, the newest of them."""
    page_limit: Positive = 500
    """Rows in a REST page."""
    transcript_limit: Positive = 1_000
    """Records in a page of a transcript."""
    transcript_cache: Bytes = 64_000_000
    """Records kept in memory as they are written into pages."""
    transcript_wait: Seconds = 5.0
    """How long a transcript waits for the session to come to `min_revision`."""
    wait_timeout: Seconds = 600.0
    """How long `?wait=end` waits for a turn's end, and is then answered 202."""
    waits_per_principal: Positive = 1_000
    """Requests of one caller that wait on one process, beyond which they are refused.

    They wait for a turn's end (`?wait=end`), or for `min_revision`.
    """

    @property
    def attachments_folder(self) -> Path:
        """Where the bytes of attachments are kept."""
        return self.attachments_dir or self.data_dir / "attachments"

    @property
    def token_file(self) -> Path:
        """Where scripts find the token that stands for a person, as long as there are no keys."""
        return self.data_dir.absolute() / "token"

    @property
    def origin_file(self) -> Path:
        """Where `turnback address` finds at which address the server is, under the same terms."""
        return self.data_dir.absolute() / "origin"

    @field_validator("attachment_grace")
    @classmethod
    def _outlives_uploads(cls, grace: float, info: ValidationInfo) -> float:
        if grace <= info.data.get("attachment_timeout", 0.0):
            raise ValueError("must be longer than `TURNBACK_ATTACHMENT_TIMEOUT`")
        return grace

    @field_validator("sweep_grace")
    @classmethod
    def _outlives_statements(cls, grace: float, info: ValidationInfo) -> float:
        if grace <= info.data.get("db_statement_timeout", 0.0):
            raise ValueError("must be longer than `TURNBACK_DB_STATEMENT_TIMEOUT`")
        return grace

    @field_validator("lock_expiry")
    @classmethod
    def _outlives_calls(cls, expiry: float, info: ValidationInfo) -> float:
        if expiry <= 4 * info.data.get("tool_timeout", 0.0):
            raise ValueError("must be longer than four times `TURNBACK_TOOL_TIMEOUT`")
        return expiry

    @field_validator("lease_expiry")
    @classmethod
    def _outlives_heartbeats(cls, expiry: float, info: ValidationInfo) -> float:
        if expiry <= info.data.get("lease_heartbeat", 0.0):
            raise ValueError("must be longer than `TURNBACK_LEASE_HEARTBEAT`, or no run lives")
        return expiry
