"""What the service says of itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rest import ADD_SCAN, problem, send
from serving import Server, serving

from turnback.store.embedded import Embedded
from turnback.store.migrate import migrate


async def test_capabilities_name_what_is_offered_and_the_limits(standing: Server) -> None:
    body = (await standing.http.get("/capabilities")).json()
    assert body["protocols"] == ["turnback.base", "turnback.v1"]
    assert body["model"] == "offline"
    for name, value in body["limits"].items():
        assert value == getattr(standing.settings, name)
    session = await standing.session()
    for type_ in body["commands"]:
        answer = await send(standing, session, {"type": type_})
        assert answer.json().get("code") != "not_available"


async def test_operator_types_have_ports_and_schemas(standing: Server) -> None:
    types = (await standing.http.get("/operator-types")).json()["types"]
    known = {kind["type"]: kind for kind in types}
    assert {"CSVFileScan", "Filter", "HashJoin", "PythonUDFV2"} <= set(known)
    assert len(known["HashJoin"]["input_ports"]) == 2
    assert all(kind["properties"]["type"] == "object" for kind in types)


async def test_it_is_alive_and_ready(standing: Server) -> None:
    assert (await standing.http.get("/healthz")).json() == {"status": "ok"}
    assert (await standing.http.get("/readyz")).json() == {"status": "ready"}


async def test_without_its_database_it_is_alive_and_not_ready(tmp_path: Path) -> None:
    with Embedded.start(tmp_path) as embedded:
        await asyncio.to_thread(migrate, embedded.url)
        async with serving(embedded.url, db_connect_timeout=1.0) as server:
            session = await server.session()
            assert (await server.http.get("/readyz")).status_code == 200
            await asyncio.to_thread(embedded.stop)
            assert (await server.http.get("/healthz")).status_code == 200
            for answer in (
                await server.http.get("/readyz"),
                await server.http.get("/sessions"),
                await server.http.post("/sessions"),
                await server.http.get(f"/sessions/{session}"),
                await send(server, session, ADD_SCAN),
            ):
                problem(answer, 503, "database_unavailable")
                assert answer.headers["retry-after"] == "1"
