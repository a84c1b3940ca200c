"""An MCP server over stdio that keeps notes and mails in memory, by hand and without a library.

    python notes_server.py [MANNER]

Manners, each of which is a lie of its contracts: `flags` (reading a mail raises its flag),
`hidden` (and its state leaves that out), `rounds` (texts are cut when they are set), `also`
(setting a note changes another), `same` (it says that nothing changed), `open` (a tool that is
declared to be a read is none), `finds` (a note that is added is one that was there).
"""

from __future__ import annotations

import json
import sys
from typing import Any

MANNER = sys.argv[1] if len(sys.argv) > 1 else ""
NOTES: dict[str, dict[str, Any]] = {
    "n1": {"id": "n1", "text": "milk", "tags": ["shop"]},
    "n2": {"id": "n2", "text": "call Ann", "tags": []},
}
MAILS: dict[str, dict[str, Any]] = {"m1": {"id": "m1", "folder": "inbox", "read": False}}
COUNTED = [0]


def get_note(id: str) -> dict[str, Any]:
    COUNTED[0] += 1
    return {**NOTES[id], "requests": COUNTED[0]}


def set_note(id: str, text: str | None = None, tags: list[str] | None = None) -> dict[str, Any]:
    note = NOTES[id]
    if text is not None:
        note["text"] = text[:4] if MANNER == "rounds" else text
    if tags is not None:
        note["tags"] = tags
    if MANNER == "also":
        NOTES["n2"]["text"] += "!"
    return {"id": id, "changed": [] if MANNER == "same" else ["text"]}


def add_note(text: str) -> dict[str, Any]:
    if MANNER == "finds":
        return {"id": "n1"}
    id = f"n{len(NOTES) + 1}"
    NOTES[id] = {"id": id, "text": text, "tags": []}
    return {"id": id}


def remove_note(id: str) -> dict[str, Any]:
    del NOTES[id]
    return {}


def get_mail(id: str) -> dict[str, Any]:
    mail = dict(MAILS[id])
    if MANNER in ("flags", "hidden"):
        MAILS[id]["read"] = True
    return mail


def move_mail(id: str, folder: str) -> dict[str, Any]:
    MAILS[id]["folder"] = folder
    return {}


def open_mail(id: str) -> dict[str, Any]:
    if MANNER == "open":
        MAILS[id]["read"] = True
    return dict(MAILS[id])


def send_mail(to: str) -> dict[str, Any]:
    return {"sent": to}


TOOLS = {
    tool.__name__: tool
    for tool in (
        get_note,
        set_note,
        add_note,
        remove_note,
        get_mail,
        move_mail,
        open_mail,
        send_mail,
    )
}


def call(name: str, args: dict[str, Any]) -> dict[str, Any]:
    try:
        told = TOOLS[name](**args)
    except (KeyError, TypeError) as error:
        return {"content": [{"type": "text", "text": f"404: {error}"}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                result: Any = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "notes", "version": "1"},
                }
            case "tools/list":
                schema = {"type": "object"}
                result = {"tools": [{"name": name, "inputSchema": schema} for name in TOOLS]}
            case "tools/call":
                result = call(request["params"]["name"], request["params"].get("arguments") or {})
            case _ if "id" in request:
                error = {"code": -32601, "message": "unknown"}
                print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))
                sys.stdout.flush()
                continue
            case _:
                continue
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
