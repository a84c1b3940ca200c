"""Principals with every role and grant, and sessions of every kind, on a server with keys.

Whatever a session holds has `MARK` in it, so that a byte of it can be found wherever it went.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import httpx
from processes import eventually
from rest import ADD_SCAN
from serving import Server, serving
from wire import Client

from turnback.core.lineage import Fork
from turnback.core.principal import ProjectRole, service_of
from turnback.store.identities import Identities
from turnback.store.ids import new_id

MARK = "zanzibar"

Who = Literal[
    "owner", "maker", "editor", "viewer", "guest",
    "reads", "runs", "forks", "runs-unread", "stranger",
    "revoked", "expired", "unknown", "nobody",
]  # fmt: skip
"""`owner` is the project's, `maker` made the sessions (an editor), `stranger` owns another project.
The next four are guests with grants on each session; the last four have no good key."""

ROLES: dict[Who, ProjectRole] = {
    "owner": ProjectRole.OWNER,
    "maker": ProjectRole.EDITOR,
    "editor": ProjectRole.EDITOR,
    "viewer": ProjectRole.VIEWER,
    "stranger": ProjectRole.OWNER,
}
GRANTS: dict[Who, list[str]] = {
    "reads": ["read"],
    "runs": ["read", "run"],
    "forks": ["read", "fork"],
    "runs-unread": ["run", "fork"],
}
DEAD: frozenset[Who] = frozenset({"revoked", "expired", "unknown", "nobody"})

Kind = Literal["project", "private", "deleted", "child", "missing"]
"""`child`: made from a private session of somebody else, which only the project's owner and that
one may read now. `missing`: there never was one."""


@dataclass
class Made:
    """A session, and what is in it."""

    id: str
    turn: str = ""
    step: str = "step-initial"
    attachment: str = field(default_factory=new_id)


@dataclass
class World:
    """See the module."""

    server: Server
    keys: dict[Who, str] = field(default_factory=dict)
    made: dict[Kind, Made] = field(default_factory=dict)

    @property
    def identities(self) -> Identities:
        """Where the server has its principals."""
        found: Identities = self.server.app.state.sessions.dao.identities
        return found

    def headers(self, who: Who) -> dict[str, str]:
        """What shows who asks."""
        return {"authorization": f"Bearer {self.keys[who]}"} if who != "nobody" else {}

    async def ask(
        self, who: Who, method: str, url: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        """What the server answers."""
        shown = self.headers(who) | (headers or {})
        return await self.server.http.request(method, url, headers=shown, **more)

    def connect(self, who: Who, session: str, **more: Any) -> Client:
        """A client of a session's socket."""
        return self.server.connect(session, additional_headers=self.headers(who), **more)

    async def key(
        self, name: str, role: ProjectRole | None, project: str = "p", **more: Any
    ) -> str:
        """A new key's text."""
        made = {"name": "", "expires_at": None} | more
        _, text = await self.identities.make_key(service_of(project), name, role=role, **made)
        return text

    async def session(self, who: Who = "maker") -> Made:
        """A session of this principal's, with a turn and a file, `MARK` in all of it."""
        made = Made(await self._made(who, "POST", "/sessions", json={"name": MARK}))
        made.attachment = await self._attached(who, made)
        frame = ADD_SCAN | {"content": f"add a CSVFileScan {MARK}"}
        frame |= {"attachmentIds": [made.attachment]}
        url = f"/sessions/{made.id}/commands?wait=end"
        answer = await self.ask(who, "POST", url, json=frame)
        assert answer.status_code == 200, answer.text
        made.turn, made.step = answer.json()["turnId"], answer.json()["headId"]
        return made

    async def renew(self, kind: Kind) -> Made:
        """A new session of this kind."""
        if kind == "missing":
            self.made[kind] = Made(new_id())
            return self.made[kind]
        made = await (self._child() if kind == "child" else self.session())
        if kind == "private":
            await self._done("maker", "PATCH", f"/sessions/{made.id}", json={"visibility": kind})
        await self._grant(made.id)
        if kind == "deleted":
            await self._done("maker", "DELETE", f"/sessions/{made.id}")
        self.made[kind] = made
        return made

    async def _child(self) -> Made:
        source = await self.session("editor")
        dao = self.server.app.state.sessions.dao
        maker = await self.identities.by_key(self.keys["maker"])
        asked = Fork(source.id, new_id())
        now = self.server.app.state.sessions.now()
        await dao.fork(maker, asked, now=now, max_depth=10)
        hidden = {"visibility": "private"}
        await self._done("editor", "PATCH", f"/sessions/{source.id}", json=hidden)
        made = Made(asked.child_id, source.turn, source.step)
        made.attachment = await self._attached("editor", made)
        return made

    async def _attached(self, who: Who, made: Made) -> str:
        url, params = f"/sessions/{made.id}/attachments", {"name": f"{MARK}.txt"}
        return await self._made(who, "POST", url, params=params, content=MARK.encode())

    async def _grant(self, session: str) -> None:
        # Some are given that the API refuses to give: they must mean nothing.
        key = await self.server.app.state.sessions.dao.key(service_of("p"), session)
        async with self.identities._db.connection() as connection:
            for who, rights in GRANTS.items():
                await connection.execute(
                    "insert into session_grants"
                    " values ($1, $2, 'p', $3, $4, 'maker', now(), now())",
                    session,
                    who,
                    key.root_id,
                    rights,
                )

    async def _made(self, who: Who, method: str, url: str, **more: Any) -> str:
        return str((await self._done(who, method, url, **more)).json()["id"])

    async def _done(self, who: Who, method: str, url: str, **more: Any) -> httpx.Response:
        answer = await self.ask(who, method, url, **more)
        assert answer.is_success, answer.text
        return answer


@asynccontextmanager
async def peopled(database_url: str, **settings: Any) -> AsyncIterator[World]:
    """A server with keys, and everyone and everything in it."""
    many = {"bad_credentials_per_minute": 1_000_000}
    async with serving(database_url, **(many | settings)) as server:
        world = World(server)
        for who in ("owner", "maker", "editor", "viewer", "guest", *GRANTS):
            world.keys[who] = await world.key(who, ROLES.get(who))
        world.keys["stranger"] = await world.key("stranger", ROLES["stranger"], project="q")
        world.keys["unknown"] = f"tb_{'0' * 12}_{'0' * 64}"
        world.keys["revoked"] = revoked = await world.key("revoked", ProjectRole.OWNER)
        await world.identities.revoke_key(service_of("p"), revoked.split("_")[1])
        past = datetime.now(UTC) - timedelta(seconds=1)
        world.keys["expired"] = await world.key("expired", ProjectRole.OWNER, expires_at=past)
        await eventually(lambda: not server.app.state.sessions.local)
        for kind in ("project", "private", "deleted", "child", "missing"):
            await world.renew(kind)
        yield world
