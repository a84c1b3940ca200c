"""An MCP server over stdio, by hand and without a library, with the manners that a test asks for.

    python odd_server.py MANNER [FILE]

It has one tool, `act`, which says what it was given. FILE counts what reached it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MANNER = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
TOOL = {
    "name": "act",
    "description": "Does something.",
    "inputSchema": {"type": "object", "properties": {"how": {"type": "string"}}},
    "annotations": {"readOnlyHint": False},
    "_meta": {"turnback/contract": {"contract": 1}},
}


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    say({"id": request["id"], "result": result})


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], **more}


def tools(request: dict[str, Any]) -> None:
    if MANNER == "many":
        page = int((request.get("params") or {}).get("cursor") or 0)
        found = [{**TOOL, "name": f"act{page}_{n}"} for n in range(100)]
        answer(request, {"tools": found, "nextCursor": str(page + 1)})
    elif MANNER == "odd names":
        names = ["act", "", " ", "a\0b", "a\u202eb", "x" * 129, "ünï co.de/é", "y" * 128]
        answer(request, {"tools": [{**TOOL, "name": name} for name in names]})
    elif MANNER == "nameless":
        answer(request, {"tools": [{"title": "no name"}]})
    elif MANNER == "hangs on tools":
        time.sleep(600)
    else:
        answer(request, {"tools": [TOOL]})


def call(request: dict[str, Any]) -> None:
    params = request["params"]
    how = params.get("arguments", {}).get("how", "")
    if FILE is not None:
        with FILE.open("a") as counted:
            counted.write(f"{how}\n")
    match how:
        case "":
            told = {"args": params["arguments"], "key": params.get("_meta", {}).get("turnback/key")}
            answer(request, text("done", structuredContent=told))
        case "environment":
            answer(request, text("", structuredContent=dict(os.environ)))
        case "json":
            answer(request, text('{"in": "text"}'))
        case "fails":
            answer(request, text("it went wrong", isError=True))
        case "refuses":
            say({"id": request["id"], "error": {"code": -32602, "message": "no such thing"}})
        case "pretends":
            say({"id": request["id"], "error": {"code": -38001, "message": "not sent"}})
        case "dies":
            os._exit(3)
        case "sleeps":
            time.sleep(600)
        case "huge":
            answer(request, text("x" * 2_000_000))
        case "endless":
            while True:
                sys.stdout.write("x" * 65_536)
        case "chatters":
            note = {
                "method": "notifications/message",
                "params": {"level": "info", "data": "x" * 999},
            }
            while True:
                say(note)
        case "junk":
            print("Loading…\n\n{not json}\n[]\n\xff")
            print("warning: something", file=sys.stderr)
            answer(request, text("after the junk"))
        case "odd":
            answer(request, {"content": "no list"})
        case "half a character":
            answer(request, text("a\ud800b"))
        case "half":
            sys.stdout.write('{"jsonrpc": "2.0", "id": ')
            sys.stdout.flush()
            os._exit(0)
        case "number":
            answer(request, text("", structuredContent={"n": 2**70}))
        case "infinity":
            answer(request, text("", structuredContent={"n": math.inf}))
        case "changes":
            say({"method": "notifications/tools/list_changed"})
            answer(request, text("changed"))
        case "a child":
            child = subprocess.Popen(["sleep", "600"])
            answer(request, text(str(child.pid)))


def main() -> None:
    if MANNER == "exits":
        sys.exit(4)
    if MANNER == "floods":
        while True:
            sys.stdout.write("x" * 65_536)
    if MANNER == "babbles":
        while True:
            sys.stdout.write("y\n\n{\n" * 9_999)
    if MANNER == "deaf":
        time.sleep(600)
    if MANNER == "shouts":
        sys.stderr.write("secret\n" * 300_000)
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                told = {"name": "odd", "version": "1"}
                answer(
                    request,
                    {
                        "protocolVersion": "2025-06-18",
                        "capabilities": {"tools": {}},
                        "serverInfo": told,
                    },
                )
            case "tools/list":
                tools(request)
            case "tools/call":
                call(request)
            case str() if "id" in request:
                say({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})
    if MANNER == "stays":
        time.sleep(600)


main()
