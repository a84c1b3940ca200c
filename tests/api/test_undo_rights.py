"""Who may not see or do what an undo is: no plan, name, value or id of it reaches them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import eventually
from scripted_provider import ScriptedProvider, call
from undoing import Place, place, undo_frames
from wire import Client

from turnback.core.principal import ProjectRole, service_of
from turnback.store.ids import new_id

ROLES: dict[str, tuple[str, ProjectRole | None]] = {
    "owner": ("p", ProjectRole.OWNER),
    "maker": ("p", ProjectRole.EDITOR),
    "editor": ("p", ProjectRole.EDITOR),
    "viewer": ("p", ProjectRole.VIEWER),
    "guest": ("p", None),
    "reads": ("p", None),
    "runs": ("p", None),
    "stranger": ("q", ProjectRole.OWNER),
}
MAY = ("owner", "maker", "editor", "runs")
READS = ("viewer", "reads")
NEITHER = ("guest", "stranger")
PRIVATE = ("ann-the-contact", "mailbox-of-ben", "555-0199", "555-0100")
"""Names of what was touched, and values, which only who may run the session is told."""


@dataclass
class Shared:
    """A session of `maker`'s in which things were done and partly undone, and everybody's keys."""

    w: Place
    keys: Mapping[str, str]
    session: str
    turn: str
    ids: dict[str, str]

    def shown(self, who: str) -> dict[str, str]:
        key = self.keys.get(who)
        return {} if key is None else {"authorization": f"Bearer {key}"}

    async def ask(self, who: str, method: str, path: str, **more: Any) -> httpx.Response:
        url = f"/sessions/{self.session}{path}"
        return await self.w.server.http.request(method, url, headers=self.shown(who), **more)

    def connect(self, who: str) -> Client:
        return self.w.server.connect(self.session, additional_headers=self.shown(who))

    def leaks(self, said: str, *, ids: bool = True) -> list[str]:
        """What of the undo is in a text."""
        return [mark for mark in (*PRIVATE, *(self.ids.values() if ids else ())) if mark in said]


@asynccontextmanager
async def shared(
    url: str, folder: Path, provider: ScriptedProvider, **settings: Any
) -> AsyncIterator[Shared]:
    async with place(url, folder, provider, bad_credentials_per_minute=99_999, **settings) as w:
        identities = w.server.app.state.sessions.dao.identities
        keys: dict[str, str] = {}
        for who, (project, role) in ROLES.items():
            _, keys[who] = await identities.make_key(
                service_of(project), who, name="", role=role, expires_at=None
            )
        await eventually(lambda: not w.server.app.state.sessions.local)
        s = Shared(w, keys, "", "", {})
        made = await w.server.http.post("/sessions", json={}, headers=s.shown("maker"))
        s.session = made.json()["id"]
        for who, rights in (("reads", ["read"]), ("runs", ["read", "run"])):
            body = {"rights": rights}
            assert (await s.ask("maker", "PUT", f"/grants/{who}", json=body)).is_success
        async with s.connect("maker") as client:
            await client.snapshot()
            args = {"id": w.contact("ann-the-contact"), "phone": "555-0199"}
            mail = {"to": str(folder / "mailbox-of-ben"), "text": "hello"}
            s.turn = await w.turn(
                client,
                call("python__set_phone", args, id="c1"),
                call("python__send_mail", mail, id="c2", index=1),
            )
        yield s


async def planned(s: Shared, who: str = "maker") -> str:
    plan = await s.ask(who, "POST", "/undo-plan", json={"turn_ids": [s.turn]})
    assert plan.status_code == 201, plan.text
    s.ids["plan"] = plan.json()["plan_id"]
    return s.ids["plan"]


async def ended(s: Shared, undo_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def over() -> bool:
        found.update((await s.ask("owner", "GET", f"/undos/{undo_id}")).json())
        return bool(found["status"] == "ended")

    await eventually(over)
    return found


def acts(s: Shared) -> list[tuple[str, str, dict[str, Any]]]:
    """Everything that takes the right to run, with the real ids."""
    at = f"/residues/{s.ids['residue']}"
    said = {"Undo": {"planId": s.ids["plan"]}, "Acknowledge": {"residueId": s.ids["residue"]}}
    said["Revert"] = {"messageId": s.turn, "effects": "undo", "planId": s.ids["plan"]}
    return [
        ("GET", f"/undos/{s.ids['undo']}", {}),
        ("GET", "/residues", {}),
        ("POST", "/undo-plan", {"json": {"turn_ids": [s.turn]}}),
        ("POST", "/undo-plan", {"json": {"undo_id": s.ids["undo"]}}),
        ("POST", "/undos", {"json": {"plan_id": s.ids["plan"]}}),
        ("POST", f"{at}/acknowledge", {}),
        ("POST", f"{at}/overwrite", {}),
        *(
            ("POST", "/commands", {"json": {"type": f"WsClient{name}Command", **fields}})
            for name, fields in said.items()
        ),
    ]


@pytest.mark.undo(35)
async def test_nothing_of_an_undo_reaches_who_may_not_run_the_session(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with shared(fresh_database, tmp_path, provider) as s:
        async with s.connect("viewer") as viewer, s.connect("runs") as runs:
            await viewer.snapshot()
            await runs.snapshot()
            s.w.person_sets("555-0100", "ann-the-contact")
            started = await s.ask("maker", "POST", "/undos", json={"plan_id": await planned(s)})
            s.ids["undo"] = started.json()["undo_id"]
            report = await ended(s, s.ids["undo"])
            assert {i["state"] for i in report["items"]} == {"needs_review", "needs_you"}
            s.ids["residue"] = report["residues"][0]["residue_id"]
            await eventually(lambda: undo_frames(viewer, "ended"))
            assert undo_frames(viewer, "plan") == []  # a plan's checks are its asker's
            assert undo_frames(runs, "plan") == []
            # Who reads is told states and counts, and of nobody and nothing by name.
            assert s.leaks(str(undo_frames(viewer)), ids=False) == []
            for name, fields in (
                ("Undo", {"planId": s.ids["plan"]}),
                ("Acknowledge", {"residueId": s.ids["residue"]}),
                ("Revert", {"messageId": s.turn, "effects": "undo", "planId": s.ids["plan"]}),
                ("Revert", {"messageId": s.turn, "effects": "undo"}),
            ):
                error = await viewer.ask(name, **fields)
                assert (error["code"], error["data"]) == ("not_allowed", {"right": "run"})
                assert s.leaks(str(error)) == []
        arrived = s.w.calls("set_phone")
        for who in READS:
            listed = await s.ask(who, "GET", "/undos")
            assert listed.json()["undos"][0]["open_residues"] == 2
            effects = await s.ask(who, "GET", "/effects")
            assert {e["what"] for e in effects.json()["effects"]} == {""}
            assert s.leaks(listed.text + effects.text, ids=False) == []
            for method, path, more in acts(s):
                answer = await s.ask(who, method, path, **more)
                assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), path
                assert answer.json()["data"] == {"right": "run"}
                assert s.leaks(answer.text) == []
        none = Shared(s.w, s.keys, new_id(), s.turn, s.ids)
        for who in (*NEITHER, "nobody"):
            for method, path, more in [*acts(s), ("GET", "/undos", {}), ("GET", "/effects", {})]:
                answer = await s.ask(who, method, path, **more)
                assert answer.status_code == (401 if who == "nobody" else 404)
                same = await none.ask(who, method, path, **more)
                assert (answer.status_code, answer.content) == (same.status_code, same.content)
                assert s.leaks(answer.text) == []
        assert s.w.calls("set_phone") == arrived
        assert (await s.ask("owner", "GET", "/undos")).json()["undos"][0]["open_residues"] == 2


async def test_who_may_run_undoes_what_others_did_by_a_plan_of_their_own(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with shared(fresh_database, tmp_path, provider) as s:
        makers = await planned(s)
        for who in MAY[1:]:
            if who != "maker":
                answer = await s.ask(who, "POST", "/undos", json={"plan_id": makers})
                assert (answer.status_code, answer.json()["code"]) == (404, "unknown_plan")
        started = await s.ask("runs", "POST", "/undos", json={"plan_id": await planned(s, "runs")})
        report = await ended(s, started.json()["undo_id"])
        assert (report["by"], s.w.phone("ann-the-contact")) == ("runs", "1")
        # Whose click it was that comes second, it is the same run.
        joined = await s.ask("editor", "POST", "/undos", json={"plan_id": s.ids["plan"]})
        assert joined.json()["undo_id"] == report["undo_id"]


async def test_a_right_that_goes_while_an_undo_runs_ends_what_one_sees_and_not_the_run(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with shared(fresh_database, tmp_path, provider) as s:
        async with s.connect("runs") as runs:
            await runs.snapshot()
            plan_id = await planned(s, "runs")
            await eventually(lambda: undo_frames(runs, "plan"))
            (tmp_path / "hang").touch()
            arrived = s.w.calls("set_phone")
            started = await s.ask("runs", "POST", "/undos", json={"plan_id": plan_id})
            undo_id = s.ids["undo"] = started.json()["undo_id"]
            await eventually(lambda: s.w.calls("set_phone") == arrived + 1)
            assert (await s.ask("maker", "DELETE", "/grants/runs")).is_success
            assert await runs.until_closed() == 4403
            (tmp_path / "hang").unlink()
        report = await ended(s, undo_id)
        assert (report["by"], report["outcome"]) == ("runs", "partially_reverted")
        assert s.w.phone("ann-the-contact") == "1"
        for path in (f"/undos/{undo_id}", "/undos", "/residues"):
            answer = await s.ask("runs", "GET", path)
            assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
            assert s.leaks(answer.text) == []


@pytest.mark.undo(44)
async def test_a_forks_member_who_may_not_run_its_parent_is_told_who_can_and_no_value(
    fresh_database: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    async with shared(fresh_database, tmp_path, provider) as s:
        forked = await s.ask("editor", "POST", "/fork", json={})
        child = Shared(s.w, s.keys, forked.json()["session"]["id"], s.turn, {})
        hidden = await s.ask("maker", "PATCH", "", json={"visibility": "project"})
        assert hidden.is_success
        grant = {"rights": ["read", "run"]}
        assert (await child.ask("editor", "PUT", "/grants/reads", json=grant)).is_success
        for asked in ({"turn_ids": [s.turn]}, {"revert": {"turn_id": s.turn}}):
            plan = await child.ask("reads", "POST", "/undo-plan", json=asked)
            assert plan.status_code == 201, plan.text
            assert plan.json()["members"] == []
            for one in plan.json()["inherited"]:
                assert set(one) == {"effect_id", "session_id", "turn_id", "standing"}
                assert one["session_id"] == s.session
            assert len(plan.json()["inherited"]) == 2
            assert s.leaks(plan.text) == []
        effects = await child.ask("reads", "GET", "/effects")
        assert effects.json()["effects"] == []
