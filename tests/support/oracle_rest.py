"""Histories over REST on real servers, which are killed now and then; the model answers what the
history says.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import httpx
import orjson
from hypothesis.stateful import rule
from oracle import Asked, How, Origin, Refused, Session, Sum
from oracle_actors import fields_of
from oracle_histories import (
    CORE,
    STORED,
    Command,
    Kinds,
    Route,
    Seen,
    Shown,
    StoredHistories,
    commands,
)
from processes import Process, eventually, process
from rest import idle
from scripted_provider import CUT, Answer, Item, Pause, call, scripted_provider
from scripted_provider import text as saying
from scripted_provider import usage as counting

from turnback.core.workflow import load
from turnback.store.dao import Dao
from turnback.store.database import Database
from turnback.store.ids import new_id

MARK = re.compile(r"\n#([0-9a-f-]{36})")
"""What a prompt ends with, by which the model knows whose it is."""


class Rest:
    """Two servers over one database, asked in turns; they stay for the histories after this one."""

    max_depth = 3
    max_redo = 3

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self._asked: dict[str, tuple[list[Item], asyncio.Event]] = {}
        self._holders: dict[str, Process] = {}
        self._documents: dict[str, str] = {}
        self._run(self._start())

    async def _start(self) -> None:
        self._provider = await self._open.enter_async_context(scripted_provider())
        self._provider.improvise = self._wait_for_words
        self._settings = {
            "model": "openai:scripted",
            "model_base_url": self._provider.url,
            "model_retries": 0,
            "max_fork_depth": self.max_depth,
            "max_redo_depth": self.max_redo,
            "sweep_interval": 86_400,
            "sweep_batch": 3,
        }
        database = await Database.open(self._url, size=2, connect_timeout=10, statement_timeout=30)
        self._open.push_async_callback(database.close)
        self._dao = Dao(
            database,
            node_id=new_id(),
            max_redo_depth=self.max_redo,
            directory_cache=100,
            attachments=self._folder / "attachments",
        )
        self._servers = [await self._begun() for _ in range(2)]
        self._keys: dict[str, dict[str, str]] = {}
        for name in ("local", "ann"):
            made = await self._ask("/keys", principal=name, role="owner")
            self._keys[name] = {"authorization": f"Bearer {made['key']}"}
            for server in self._servers:
                server.http.headers.update(self._keys["local"])

    async def _begun(self) -> Process:
        """A server more."""
        return await self._open.enter_async_context(
            process(self._folder, self._url, **self._settings)
        )

    def kill(self) -> dict[str, str]:
        """Kill the server that is asked now, and start another; HEAD of each run that it held."""
        killed: dict[str, str] = self._run(self._kill())
        return killed

    async def _kill(self) -> dict[str, str]:
        dead = self._servers[0]
        dead.kill()
        await dead.end()
        self._servers[0] = await self._begun()
        self._http.headers.update(self._keys["local"])
        held = [session for session, holder in self._holders.items() if holder is dead]
        for session in held:
            waiting, given = await self._until_asked(session)
            waiting.append(CUT)
            given.set()
            await self._until_ended(session)
        return {id_: (await self._get(f"/sessions/{id_}"))["head_id"] for id_ in held}

    def end(self) -> None:
        """End the servers."""
        self._run(self._open.aclose())
        self._runner.close()

    def close(self) -> None:
        """End the runs of a history."""

        async def end() -> None:
            for session in list(self._asked):
                await self._answered(session, [CUT], is_last=True)

        self._run(end())

    def forget(self) -> None:
        self._servers.reverse()

    def sweep(self) -> set[str]:
        return set(self._run(self._dao.sweeper.run(grace=0, batch=3)).sessions)

    # -- the model

    def _wait_for_words(self) -> Answer:
        [*_, session] = MARK.findall("".join(map(_told, self._provider.requests[-1]["messages"])))
        items: list[Item] = []
        given = asyncio.Event()
        items.append(Pause(given))
        self._asked[session] = (items, given)
        return Answer(items)

    async def _answered(self, session: str, items: list[Item], *, is_last: bool) -> None:
        """Let the model say this; wait until it is asked again, or the run has ended."""
        waiting, given = await self._until_asked(session)
        waiting += items
        given.set()
        if is_last:
            await self._until_ended(session)
        else:
            await self._until_asked(session, again=True)

    async def _until_asked(
        self, session: str, *, again: bool = False
    ) -> tuple[list[Item], asyncio.Event]:
        await eventually(
            lambda: session in self._asked and not (again and self._asked[session][1].is_set())
        )
        return self._asked[session]

    async def _until_ended(self, session: str) -> None:
        await idle(self._server, session)
        del self._asked[session], self._holders[session]

    # -- commands

    def new_id(self) -> str:
        return new_id()

    def create(self, name: str, document: str) -> str:
        body = {"name": name, "workflow": self._content(document)}
        return str(self._run(self._http.post("/sessions", json=body)).json()["id"])

    def prompt(self, session: str, text: str, key: str | None) -> tuple[str, str]:
        fields = {} if key is None else {"turnKey": key}
        done = self._command(session, "Prompt", content=f"{text}\n#{session}", **fields)
        if self._run(self._get(f"/sessions/{session}"))["state"] != "AVAILABLE":  # no retry
            self._holders.setdefault(session, self._server)
        return done["turnId"], done["headId"]

    def answer(
        self, session: str, text: str, document: str, end: str | None, calls: int, tokens: int
    ) -> str:
        del document  # the model changes nothing here
        return str(self._run(self._answer(session, text, end, calls, tokens)))

    async def _answer(
        self, session: str, text: str, end: str | None, calls: int, tokens: int
    ) -> str:
        looks = [call("getWorkflow", {}, id=f"c{n}", index=n) for n in range(calls)]
        match end:
            case "stopped":
                await self._until_asked(session)
                await self._post(session, {"type": "WsClientStopCommand"})
                await self._until_ended(session)
            case "failed":
                await self._answered(session, [CUT], is_last=True)
            case _:
                items = [saying(text), *looks, counting(tokens, 1)]
                await self._answered(session, items, is_last=end is not None)
        return str((await self._get(f"/sessions/{session}"))["head_id"])

    def stop(self, session: str) -> None:
        self._command(session, "Stop")

    def edit(self, session: str, document: str, by: str) -> tuple[str | None, str]:
        answer = self._run(
            self._http.put(
                f"/sessions/{session}/workflow",
                json=self._content(document),
                headers={"if-match": "*"} | self._keys[by],
            )
        )
        made = {} if answer.status_code == 204 else answer.json()
        return made.get("turnId"), made.get("headId", "")

    def revert_turn(self, session: str, turn: str, how: How) -> How:
        return self._revert(session, how, messageId=turn)

    def revert_step(self, session: str, step: str, how: How) -> How:
        return self._revert(session, how, stepId=step)

    def _revert(self, session: str, how: How, **place: str) -> How:
        flags = {"confirm": how.kind == "confirm", "keepEdits": how.kind == "keep"}
        done = self._command(session, "Revert", by=how.by, **place, **flags)
        return replace(how, turn=done.get("turnId"), step=done["headId"])

    def redo(self, session: str, *, all_: bool) -> None:
        self._command(session, "Redo", all=all_)

    def checkout(self, session: str, step: str) -> None:
        self._command(session, "Checkout", stepId=step)

    def rename(self, session: str, name: str) -> None:
        self._run(self._http.patch(f"/sessions/{session}", json={"name": name}))

    def archive(self, session: str, archived: bool) -> None:
        self._run(self._http.patch(f"/sessions/{session}", json={"archived": archived}))

    def delete(self, session: str) -> None:
        self._run(self._http.delete(f"/sessions/{session}"))

    def purge(self, session: str) -> None:
        self._run(self._http.post(f"/sessions/{session}/purge"))

    def fork(self, id_: str, asked: Asked) -> bool:
        body: dict[str, Any] = {"target_session_id": id_, "mode": asked.mode, "name": asked.name}
        if asked.draft is not None:
            body["draft"] = asked.draft
        if asked.turn is not None:
            body["boundary"] = {"turn_id": asked.turn, "position": asked.side}
        answer = self._run(self._http.post(f"/sessions/{asked.source}/fork", json=body))
        said = answer.json()
        assert said["session"]["id"] == id_
        assert (said["lineage"]["parent_id"], said["lineage"]["boundary"]) == (
            asked.source,
            body.get("boundary"),
        )
        return bool(answer.status_code == 201)

    # -- what is seen

    def seen(self, session: str) -> Seen:
        seen: Seen = self._run(self._seen(session))
        return seen

    async def _seen(self, session: str) -> Seen:
        row = await self._get(f"/sessions/{session}")
        local = self._keys["local"]
        async with self._server.connect(session, additional_headers=local) as client:
            told = await client.snapshot()
        assert (told["headId"], told["state"]) == (row["head_id"], row["state"])
        assert told["canRedo"] is bool(told["redoDepth"])
        workflow = await self._get(f"/sessions/{session}/workflow")
        assert told["workflowContent"] == workflow
        path = [step["id"] for step in told["steps"]]
        assert await self._steps(session, "steps", 7) == path
        family = await self._ask("/sessions/lineage/query", session_id=session)
        pending = (await self._get(f"/sessions/{session}/pending-action"))["pending_action"]
        usage = await self._unless_purged(f"/sessions/{session}/usage")
        return Seen(
            head=row["head_id"],
            state=row["state"],
            document=workflow["said"],
            redo=(told["redoDepth"], told["redoId"]),
            path=path,
            origin=_origin(family["lineage"]),
            name=row["name"],
            archived=row["archived"],
            pending=pending and (pending["mode"], _unmarked(pending["draft"]), pending["turn_key"]),
            family=(
                [other["session_id"] for other in family["ancestors"]],
                [other["session_id"] for other in family["children"]],
            ),
            visible=usage and _sum(usage["visible"]),
            spent=usage and _sum(usage["spent"]),
        )

    async def _steps(self, session: str, route: str, limit: int) -> list[str]:
        """The ids of the visible steps, read from the newest page on, or what is left of them."""
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            query = f"?limit={limit}" + (f"&before={cursor}" if cursor else "")
            page = await self._unless_purged(f"/sessions/{session}/{route}{query}")
            if page is None:
                break
            found, cursor = [step["id"] for step in page["steps"]] + found, page["next_cursor"]
        return found

    async def _unless_purged(self, path: str) -> dict[str, Any] | None:
        """None where the answer is that a part of it was purged."""
        try:
            return await self._get(path)
        except Refused as refused:
            if refused.code == "history_purged":
                return None
            raise

    def shown(self, session: str, limit: int) -> list[Route]:
        async def both() -> list[Route]:
            return [await self._read(session, limit, post=post) for post in (True, False)]

        routes: list[Route] = self._run(both())
        return routes

    async def _read(self, session: str, limit: int, *, post: bool) -> Route:
        """A transcript, page by page, by the query or by the plain route."""
        route = Route()
        more: dict[str, Any] = {"limit": limit}
        while True:
            if post:
                body = {"session_id": session} | more
                answer = await self._http.post("/sessions/transcript/query", json=body)
            else:
                answer = await self._http.get(f"/sessions/{session}/transcript", params=more)
            if answer.status_code == 410:
                told = answer.json()["data"]
                route.holes.append((told["after"], told["until"]))
            else:
                told = _sound(answer).json()
                written = [orjson.dumps(record) for record in told["records"]]
                assert b'"records":[' + b",".join(written) + b"]" in answer.content
                assert told["count"] == len(written) <= limit
                assert told["next_cursor"] is None or told["count"] == limit
                route.records += [self._shown(bytes_) for bytes_ in written]
            if told["next_cursor"] is None:
                return route
            more["cursor"] = told["next_cursor"]

    def _shown(self, written: bytes) -> Shown:
        fields = fields_of(written, self._documents)
        fields["text"] = _unmarked(fields["text"])
        if fields["end"] in ("stopped", "failed", "interrupted"):
            del fields["text"]  # the server's own words
        return Shown(written, fields)

    # -- parts

    @property
    def _server(self) -> Process:
        return self._servers[0]

    @property
    def _http(self) -> httpx.AsyncClient:
        return self._server.http

    def _content(self, document: str) -> dict[str, Any]:
        content = {"operators": [], "said": document}
        self._documents[load(content, max_bytes=10**6, max_depth=50).hash] = document
        return content

    def _command(
        self, session: str, type_: str, *, by: str = "local", **fields: Any
    ) -> dict[str, Any]:
        frame = {"type": f"WsClient{type_}Command", **fields}
        made: dict[str, Any] = self._run(self._post(session, frame, by))
        return made

    async def _post(self, session: str, frame: dict[str, Any], by: str = "local") -> dict[str, Any]:
        path, headers = f"/sessions/{session}/commands", self._keys[by]
        answer = await self._http.post(path, json=frame, headers=headers)
        said: dict[str, Any] = _sound(answer).json()
        return said

    async def _ask(self, path: str, **body: Any) -> dict[str, Any]:
        said: dict[str, Any] = _sound(await self._http.post(path, json=body)).json()
        return said

    async def _get(self, path: str) -> dict[str, Any]:
        said: dict[str, Any] = _sound(await self._http.get(path)).json()
        return said

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        done = self._runner.run(work)
        return _sound(done) if isinstance(done, httpx.Response) else done


KILL: Kinds = {"kill": (2, {})}


class RestHistories(StoredHistories):
    """What a model can be made to do: it changes no workflow, and ends in three ways."""

    product: Rest

    ENDS: ClassVar[dict[str | None, str]] = {"limit": "failed", "interrupted": "stopped"}

    @rule(command=commands(CORE | STORED | KILL))
    def carry_out(self, command: Command) -> None:
        super().carry_out(command)

    def kill(self) -> None:
        """Nothing that was told is lost; the runs that the server held were interrupted."""
        for id_, step in self.product.kill().items():
            session = self.oracle.sessions[id_]
            session.answer(step, "", session.document, "interrupted")

    def said(
        self, session: Session, document: str, end: str | None, much: int
    ) -> tuple[str, str, str | None, int, int]:
        text, _, _, _, tokens = super().said(session, document, end, much)
        end = self.ENDS.get(end, end)
        if end in ("stopped", "failed"):
            return text, session.document, end, 0, 0
        return text, session.document, end, 0 if end else 1 + much % 2, tokens

    def halt(self, session: Session) -> None:
        """A run that is stopped ends by itself."""
        if session.running is not None and not session.deleted:
            self._answer(session, "", "stopped", 0)
        else:
            super().halt(session)


def _sound(answer: httpx.Response) -> httpx.Response:
    """An answer that is none of the server's own faults. Raises `Refused`."""
    if answer.is_error:
        said = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.status_code, said["status"]) == (said["status"], answer.status_code)
        assert answer.status_code < 500, said
        raise Refused(said["code"])
    return answer


def _told(message: dict[str, Any]) -> str:
    """What a message to the model says."""
    content = message["content"]
    return content if isinstance(content, str) else json.dumps(content)


def _unmarked(text: str) -> str:
    return MARK.sub("", text)


def _origin(lineage: dict[str, Any] | None) -> Origin | None:
    if lineage is None:
        return None
    boundary = lineage["boundary"] or {"turn_id": None, "position": None}
    return Origin(
        parent=lineage["parent_id"],
        turn=boundary["turn_id"],
        side=boundary["position"],
        inherited=lineage["inherited_turn_count"],
        depth=lineage["depth"],
    )


def _sum(counts: dict[str, int]) -> Sum:
    return Sum(
        turns=counts["turns"],
        steps=counts["steps"],
        model_calls=counts["model_calls"],
        tool_calls=counts["tool_calls"],
        tokens=counts["input_tokens"],
    )
