"""The frames and both addresses of the socket as an AsyncAPI 3 document.

It says who sends which frame where; what a frame holds is the JSON Schema that `turnback.schema`
makes of the models. `docs/decisions/0015` has why it is made and not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from turnback import __version__
from turnback.api.auth import TICKET
from turnback.api.definitions import UNIONS, moved
from turnback.api.frames import BASE, V1

Json = dict[str, Any]
Dialect = Literal["base", "v1"]

VERSION = "3.1.0"

DIALECTS: dict[Dialect, tuple[str, str]] = {
    "base": ("BaseClientFrame", "BaseServerFrame"),
    "v1": ("ClientFrame", "ServerFrame"),
}
"""The unions of frames that each kind of client sends and is sent."""

SINCE = {
    "type": "string",
    "pattern": "^[0-9]{1,18}$",
    "description": "The last `eventSeq` that the client has seen: it gets what came after it, each "
    "frame once and in order, or a snapshot with `reset: true`. Only for v1.",
}
EPOCH = {
    "type": "string",
    "description": "The `streamEpoch` of the snapshot that `since` counts from.",
}
PROTOCOL = {
    "type": "string",
    "description": f"What the client offers, a list: `{V1}` for what is described here as v1; "
    f"`{BASE}`, or no such header, for the frames of the public Revert & Redo proposal. The server "
    f"answers with the one of these that it took. A browser offers its ticket beside it, as "
    f"`{TICKET}…`, which the server never takes.",
    "examples": [V1, BASE, f"{V1}, {TICKET}5f0c1e…"],
}
SECURITY: dict[str, Json] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key. As long as none was ever made, nothing is asked for.",
    },
    "ticket": {
        "type": "httpApiKey",
        "in": "header",
        "name": "Sec-WebSocket-Protocol",
        "description": f"`{TICKET}` and a ticket of `POST /ws-tickets`, for browsers: good once, "
        "for one session, from the origin it was asked for by.",
    },
}
"""The ways to say who connects; each alone will do. A cookie is none."""


def document(definitions: Mapping[str, Json]) -> Json:
    """The document, of the definitions (by name, `$ref`s to `#/$defs/`) of all frames."""
    messages: dict[str, Json] = {}
    sent: dict[tuple[Dialect, str], list[str]] = {}
    for dialect, unions in DIALECTS.items():
        for union in unions:
            members = [_name(member) for member in definitions[union]["oneOf"]]
            messages |= {name: _message(name, definitions[name]) for name in members}
            sent[dialect, union] = members
    channels = {
        "session": _channel(
            "/sessions/{sessionId}/ws",
            "A session's socket",
            {"sessionId": {"description": "The session's id, from `POST /sessions`."}},
            list(messages),
        ),
        "agent": _channel(
            "/api/agents/{agentId}/react",
            "The same socket where the public proposal has it",
            {"agentId": {"description": "The agent's id: a session's."}},
            list(messages),
        ),
    }
    schemas = {
        name: moved(_schema(definition), "#/components/schemas/")
        for name, definition in definitions.items()
        if name not in UNIONS
    }
    return {
        "asyncapi": VERSION,
        "id": "urn:turnback:socket",
        "info": {
            "title": "Turnback's socket",
            "version": __version__,
            "description": "One JSON object in each text frame, tagged by `type`. What order they "
            "come in and what to do with them is in docs/protocol.md.",
            "license": {
                "name": "Apache-2.0",
                "url": "https://www.apache.org/licenses/LICENSE-2.0",
            },
            "tags": [{"name": "agents"}, {"name": "workflows"}],
        },
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "127.0.0.1:8700",
                "protocol": "ws",
                "description": "Where `turnback serve` listens, unless set otherwise.",
                "security": [{"$ref": f"#/components/securitySchemes/{name}"} for name in SECURITY],
            }
        },
        "channels": channels,
        "operations": {
            name: operation
            for channel in channels
            for dialect in DIALECTS
            for name, operation in _operations(channel, dialect, sent).items()
        },
        "components": {
            "messages": messages,
            "schemas": schemas,
            "securitySchemes": SECURITY,
        },
    }


def _name(reference: Json) -> str:
    return str(reference["$ref"]).rsplit("/", 1)[-1]


def _message(name: str, definition: Json) -> Json:
    message: Json = {
        "name": definition["properties"]["type"]["const"],
        "title": name,
        "summary": definition.get("description", "").split("\n\n")[0],
        "contentType": "application/json",
        "payload": {"$ref": f"#/components/schemas/{name}"},
    }
    if "requestId" in definition["properties"]:
        message["correlationId"] = {
            "description": "Made up by the client, and echoed in the answer.",
            "location": "$message.payload#/requestId",
        }
    return message


def _channel(address: str, title: str, parameters: Json, messages: Sequence[str]) -> Json:
    return {
        "address": address,
        "title": title,
        "servers": [{"$ref": "#/servers/local"}],
        "parameters": parameters,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
        "bindings": {
            "ws": {
                "method": "GET",
                "query": {"type": "object", "properties": {"since": SINCE, "epoch": EPOCH}},
                "headers": {"type": "object", "properties": {"Sec-WebSocket-Protocol": PROTOCOL}},
                "bindingVersion": "0.1.0",
            }
        },
    }


def _operations(
    channel: str, dialect: Dialect, sent: Mapping[tuple[Dialect, str], Sequence[str]]
) -> dict[str, Json]:
    """What the server takes and sends on a channel, from the server's side as AsyncAPI has it."""
    client, server = (sent[dialect, union] for union in DIALECTS[dialect])
    who = "a v1 client" if dialect == "v1" else "a base client"
    taken: Json = {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": f"A command from {who}.",
        "messages": _references(channel, client),
    }
    if dialect == "v1":
        answers = [name for name in server if name in ("WsServerAckEvent", "WsServerErrorEvent")]
        taken["reply"] = {
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": _references(channel, answers),
        }
    told: Json = {
        "action": "send",
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": f"What {who} is told.",
        "messages": _references(channel, server),
    }
    return {f"{channel}.{dialect}.take": taken, f"{channel}.{dialect}.tell": told}


def _references(channel: str, messages: Sequence[str]) -> list[Json]:
    return [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in messages]


def _schema(schema: Any) -> Any:
    """A definition in the words of AsyncAPI, which has no mapping of a discriminator's values."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _schema(member)
        for name, member in schema.items()
        if not (name == "discriminator" and isinstance(member, dict) and "mapping" in member)
    }
