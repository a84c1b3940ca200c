"""Who may ask at all: hosts and origins."""

from __future__ import annotations

import pytest
from rest import problem, routes
from serving import Server, serving


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80",
        "0.0.0.0", "", "a:b:c", "[", "@", "evil@127.0.0.1", "localhost/x",
    ],
)  # fmt: skip
async def test_a_foreign_host_is_refused(standing: Server, host: str) -> None:
    answer = await standing.http.get("/sessions", headers={"host": host})
    if answer.status_code == 400:
        return  # no `Host` at all for the web server itself
    problem(answer, 421, "host_refused")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.1:9", "[::1]:5"]
)
async def test_a_loopback_host_is_served(standing: Server, host: str) -> None:
    assert (await standing.http.get("/sessions", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://",
                                    "http://localhost.evil.example", ""])  # fmt: skip
async def test_a_page_of_another_origin_reads_and_writes_nothing(
    standing: Server, origin: str
) -> None:
    session = await standing.session()
    for method, path in routes(standing):
        url = path.replace("{session_id}", session).replace("{step_id}", "step-initial")
        answer = await standing.http.request(method, url, headers={"origin": origin})
        problem(answer, 403, "origin_refused")
    assert (await standing.http.get(f"/sessions/{session}")).json()["revision"] == 0


async def test_a_browser_is_told_that_an_allowed_origin_may_read_and_no_other(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, allowed_origins=("https://app.example/",)) as server:
        asks = {
            "origin": "https://app.example",
            "access-control-request-method": "PUT",
            "access-control-request-headers": "if-match",
        }
        before = await server.http.options("/sessions/x/workflow", headers=asks)
        assert before.headers["access-control-allow-origin"] == "https://app.example"
        assert "PUT" in before.headers["access-control-allow-methods"]
        assert before.headers["access-control-allow-headers"] == "if-match"
        read = await server.http.get("/sessions", headers={"origin": "https://app.example"})
        assert read.headers["access-control-allow-origin"] == "https://app.example"
        assert "etag" in read.headers["access-control-expose-headers"].lower()
        other = await server.http.get("/sessions", headers={"origin": "https://evil.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers


async def test_the_servers_own_page_and_allowed_origins_are_served(fresh_database: str) -> None:
    async with serving(fresh_database, allowed_origins=("https://app.example/",)) as server:
        for origin in (server.url, server.url.upper(), "https://app.example"):
            answer = await server.http.post("/sessions", headers={"origin": origin})
            assert answer.status_code == 201
