"""An MCP server over stdio, by hand and without a library, whose tools are those of a vendor.

    python host.py VENDOR FOLDER

The world is FOLDER/world.json, written with each call and locked meanwhile, so that a test may read
and change it, and a process that dies loses nothing. With it are kept who wrote which leaf, the
calls that arrived, the answers by key, and the script of what is to happen: faults, and strangers.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Doc = dict[str, Any]


class ToolError(Exception):
    """What a tool says when it does not do it."""


def vendor(name: str) -> Any:
    """A vendor's module, whoever asks: a test or the server's own process."""
    folder = str(Path(__file__).parents[1])
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name, _, seed = name.partition(":")
    module = importlib.import_module(f"vendors.{name}")
    return module.drawn(seed) if seed else module


class Kept:
    """The file of a world."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.file = folder / "world.json"

    def begin(self, world: Any) -> None:
        doc = {"world": world, "phase": "forward", "script": [], "counts": {}}
        doc |= {"calls": [], "answers": {}, "written": []}
        self.file.write_text(json.dumps(doc))

    @contextmanager
    def open(self) -> Iterator[Doc]:
        """The document, for one who changes it."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            doc = json.loads(self.file.read_text())
            yield doc
            new = self.folder / "world.new"
            new.write_text(json.dumps(doc))
            new.replace(self.file)

    def read(self) -> Doc:
        with self.open() as doc:
            return dict(doc)


def act(module: Any, doc: Doc, author: str, name: str, args: dict[str, Any]) -> Any:
    """Let a tool act, and write down which leaves it wrote; raises `ToolError`."""
    before = module.leaves(doc["world"])
    copy = json.loads(json.dumps(doc["world"]))
    tool = module.TOOLS.get(name) or module.STRANGE[name]
    try:
        return tool(doc["world"], **args)
    except ToolError:
        doc["world"] = copy  # all of it or nothing
        raise
    except (KeyError, TypeError, ValueError) as error:
        doc["world"] = copy
        raise ToolError(f"400: {type(error).__name__} {error}") from None
    finally:
        after = module.leaves(doc["world"])
        wrote = {
            leaf: after.get(leaf)
            for leaf in sorted(before.keys() | after.keys())
            if before.get(leaf) != after.get(leaf)
        }
        if wrote:
            doc["written"].append([author, wrote])


def attempt(module: Any, doc: Doc, author: str, name: str, args: dict[str, Any]) -> set[str]:
    """Let a tool act if it will; the things whose leaves it wrote."""
    wrote = len(doc["written"])
    try:
        act(module, doc, author, name, args)
    except ToolError:
        pass
    return {leaf.split("|")[1] for _, leaves in doc["written"][wrote:] for leaf in leaves}


def beside(
    module: Any, doc: Doc, theirs: tuple[str, dict[str, Any]], ours: tuple[str, dict[str, Any]]
) -> bool:
    """Whether two calls act on different things, also once theirs was made: a folder may take along
    what has just come into it. No look can see what comes right after it."""
    alone, after = (json.loads(json.dumps(doc)) for _ in range(2))
    first = attempt(module, after, "x", *theirs)
    then = attempt(module, after, "x", *ours)
    return first.isdisjoint(then | attempt(module, alone, "x", *ours))


def due(doc: Doc, name: str, is_read: bool) -> list[Doc]:
    """What the script has for this call."""
    counts, kind = doc["counts"], "reads" if is_read else "writes"
    for counted in (kind, name):
        counts[counted] = counts.get(counted, 0) + 1
    found = []
    for one in doc["script"]:
        n = counts.get(one["count"], 0) - one["at"]
        if one["count"] in (kind, name) and 0 <= n < one.get("times", 1):
            found.append(one)
    return found


class Host:
    """Answers requests."""

    def __init__(self, name: str, folder: Path) -> None:
        self.module = vendor(name)
        self.kept = Kept(name, folder)

    def call(self, name: str, args: dict[str, Any], meta: dict[str, Any]) -> Doc | None:
        """The answer to a call; None where there is to be none."""
        key = meta.get("turnback/key") or args.pop("request_id", None)
        is_read = name in self.module.READS
        with self.kept.open() as doc:
            happens = due(doc, name, is_read)
            for one in happens:
                for what, with_ in one.get("strangers", ()):
                    if (
                        one.get("race")
                        or is_read
                        or beside(self.module, doc, (what, with_), (name, args))
                    ):
                        attempt(self.module, doc, "stranger", what, with_)
            faults = [one["fault"] for one in happens if "fault" in one]
            fault = faults[0] if faults else None
            written = len(doc["written"])  # so far
            doc["calls"].append([name, args, key, is_read, doc["phase"], fault, written])
            answer = self._answer(doc, name, args, key, fault, is_read)
        if fault in ("dies_before", "dies_after"):
            os._exit(3)
        return None if fault in ("lost_before", "lost_after") else answer

    def _answer(
        self, doc: Doc, name: str, args: Any, key: Any, fault: str | None, is_read: bool
    ) -> Doc:
        match fault:
            case "refused":
                return said("403: you may not do this any more", is_error=True)
            case "error_body":
                return said({"error": {"code": 17, "message": "no"}})
            case "lie":
                return said({"ok": True, "id": args.get("id", "x")})
            case "busy":
                return said("503: try again later", is_error=True)
            case "lost_before" | "dies_before":
                return said("")
        author = "reads" if is_read else doc["phase"]
        honoured = key if name in getattr(self.module, "HONOURS", ()) else None
        if honoured is not None and honoured in doc["answers"]:
            return dict(doc["answers"][honoured])
        try:
            answer = said(act(self.module, doc, author, name, args))
        except ToolError as error:
            answer = said(str(error), is_error=True)
        if honoured is not None:
            doc["answers"][honoured] = answer
        return said("503: try again later", is_error=True) if fault == "busy_after" else answer

    def serve(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            match request.get("method"):
                case "initialize":
                    result: Any = {
                        "protocolVersion": "2025-06-18",
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": self.kept.name, "version": "1"},
                    }
                case "tools/list":
                    schema = {"type": "object"}
                    tools = [{"name": name, "inputSchema": schema} for name in self.module.TOOLS]
                    result = {"tools": tools}
                case "tools/call":
                    given = request["params"]
                    result = self.call(
                        given["name"], given.get("arguments") or {}, given.get("_meta") or {}
                    )
                case _ if "id" in request:
                    error = {"code": -32601, "message": "unknown"}
                    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))
                    sys.stdout.flush()
                    continue
                case _:
                    continue
            if result is not None:
                answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
                print(json.dumps(answer), flush=True)


def said(answer: Any, *, is_error: bool = False) -> Doc:
    """A result as MCP has it: objects as structured content, all of it as text."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    result: Doc = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if isinstance(answer, dict):
        result["structuredContent"] = answer
    return result


if __name__ == "__main__":
    # `vendors.host` is who raises, whoever imports it.
    vendor("host").Host(sys.argv[1], Path(sys.argv[2])).serve()
