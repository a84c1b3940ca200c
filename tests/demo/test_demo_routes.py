"""The demo world over REST: there while the demo is, for who may make sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from people import peopled
from rest import problem
from serving import Server, serving


@pytest.fixture(scope="module")
async def demo(
    standing_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Server]:
    folder: Path = tmp_path_factory.mktemp("demo")
    async with serving(standing_database, demo=True, data_dir=folder) as running:
        yield running


async def test_a_person_looks_changes_deletes_and_makes_again(demo: Server) -> None:
    found = (await demo.http.get("/demo/contact")).json()
    assert [thing["id"] for thing in found["things"]] == ["ada", "ben", "cara"]
    assert found["more"] is False
    ada = next(thing for thing in found["things"] if thing["id"] == "ada")
    changed = await demo.http.patch(
        "/demo/contact/ada", json={"changes": {"phone": "1", "email": None}}
    )
    assert changed.json() == {"id": "ada", "fields": {"name": ada["fields"]["name"], "phone": "1"}}
    assert (await demo.http.delete("/demo/contact/ada")).status_code == 204
    problem(await demo.http.delete("/demo/contact/ada"), 404, "thing_not_found")
    problem(
        await demo.http.patch("/demo/contact/ada", json={"changes": {}}), 404, "thing_not_found"
    )
    again = await demo.http.put("/demo/contact/ada", json={"fields": ada["fields"]})
    assert again.json() == ada
    assert (await demo.http.get("/demo/contact")).json() == found


async def test_what_has_reached_a_person_stays(demo: Server) -> None:
    assert (await demo.http.get("/demo/delivery")).json() == {"things": [], "more": False}
    assert (await demo.http.delete("/demo/delivery/delivery-000001")).status_code == 422
    assert (await demo.http.get("/demo/secret")).status_code == 422


async def test_without_the_demo_there_are_no_such_routes(standing: Server) -> None:
    assert (await standing.http.get("/demo/contact")).status_code == 404


async def test_a_viewer_neither_looks_nor_changes(fresh_database: str, tmp_path: Path) -> None:
    async with peopled(fresh_database, demo=True, data_dir=tmp_path) as world:
        http = world.server.http
        for who, allowed in (
            ("owner", True),
            ("editor", True),
            ("viewer", False),
            ("guest", False),
        ):
            headers = {"Authorization": f"Bearer {world.keys[who]}"}
            looked = await http.get("/demo/contact", headers=headers)
            changed = await http.put(f"/demo/contact/{who}", json={"fields": {}}, headers=headers)
            assert {looked.status_code, changed.status_code} == {200 if allowed else 403}
        assert (await http.get("/demo/contact")).status_code == 401
