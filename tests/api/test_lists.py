"""Lists: every cursor is a place in an order that nothing moves; searching by name."""

from __future__ import annotations

from typing import Any

import pytest
from rest import NOBODYS, command, get, problem, turn
from serving import Server, serving

from turnback.settings import MOST


async def names(server: Server, **params: Any) -> list[str]:
    return [s["name"] for s in (await get(server, "/sessions", **params))["sessions"]]


async def test_a_listing_goes_on_while_sessions_come_go_and_change(server: Server) -> None:
    made = {n: await server.session(name=f"Order {n}") for n in range(9)}
    page = await get(server, "/sessions", q="order", limit=3)
    assert [s["name"] for s in page["sessions"]] == ["Order 8", "Order 7", "Order 6"]
    await server.session(name="Order newer")
    await server.http.delete(f"/sessions/{made[6]}")  # where the cursor points
    await server.http.delete(f"/sessions/{made[5]}")
    await server.http.patch(f"/sessions/{made[4]}", json={"name": "no longer one"})
    await server.http.patch(f"/sessions/{made[3]}", json={"archived": True})
    await turn(server, made[2], "hello")
    page = await get(server, "/sessions", q="order", limit=2, cursor=page["next_cursor"])
    assert [s["name"] for s in page["sessions"]] == ["Order 2", "Order 1"]
    page = await get(server, "/sessions", q="order", limit=2, cursor=page["next_cursor"])
    assert [s["name"] for s in page["sessions"]] == ["Order 0"]
    assert page["next_cursor"] is None


async def test_the_last_page_that_is_full_says_that_it_is_the_last(server: Server) -> None:
    for n in range(4):
        await server.session(name=str(n))
    page = await get(server, "/sessions", limit=2)
    page = await get(server, "/sessions", limit=2, cursor=page["next_cursor"])
    assert ([s["name"] for s in page["sessions"]], page["next_cursor"]) == (["1", "0"], None)


async def test_search_is_by_name_without_case_and_signs_are_letters(server: Server) -> None:
    for name in ("50% off", "50 off", "a_b", "AxB", "back\\slash", "STRASSE", "Ärger"):
        await server.session(name=name)
    assert await names(server, q="50%") == ["50% off"]
    assert await names(server, q="A_B") == ["a_b"]
    assert await names(server, q="%") == ["50% off"]
    assert await names(server, q="_") == ["a_b"]
    assert await names(server, q="\\") == ["back\\slash"]
    assert await names(server, q="strasse") == ["STRASSE"]
    assert await names(server, q="äRG") == ["Ärger"]
    assert await names(server, q=" off") == ["50 off", "50% off"]


CHOSEN = [
    "ffffffff-ffff-4fff-8fff-ffffffffffff",
    "00000000-0000-0000-0000-000000000000",
    "80000000-0000-4000-8000-000000000001",
    "00000000-0000-7000-8000-000000000001",
]
"""Ids of a client's own making, which say nothing of when; not in the order of their making."""


async def test_forks_under_ids_that_a_client_chose_are_listed_by_when_they_were_made(
    fresh_database: str,
) -> None:
    async with serving(fresh_database) as server:
        root, made = await server.session(), []
        for chosen in CHOSEN:
            body = {"target_session_id": chosen}
            answer = await server.http.post(f"/sessions/{root}/fork", json=body)
            assert answer.status_code == 201, answer.text
            made += [chosen, await server.session()]
        newest_first = [*made[::-1], root]
        agents = (await get(server, "/api/agents"))["agents"]
        assert [agent["id"] for agent in agents] == newest_first
        found, children = [], []
        more: dict[str, Any] = {}
        while not more or more["cursor"] is not None:
            page = await get(server, "/sessions", limit=1, **more)
            found += [session["id"] for session in page["sessions"]]
            more = {"cursor": page["next_cursor"]}
        assert found == newest_first
        more = {}
        while not more or more["cursor"] is not None:
            query = {"session_id": root, "limit": 1, **more}
            page = (await server.http.post("/sessions/lineage/query", json=query)).json()
            children += [child["session_id"] for child in page["children"]]
            more = {"cursor": page["next_cursor"]}
        assert children == CHOSEN[::-1]


@pytest.mark.parametrize(
    "cursor",
    [
        "nope",
        "",
        "\0",
        "é",
        "step-initial",
        NOBODYS,
        f"1.{NOBODYS.upper()}",
        f"{10**16}.{NOBODYS}",
        f"-1.{NOBODYS}",
    ],
)
async def test_what_is_no_cursor_of_the_sessions_is_refused(standing: Server, cursor: str) -> None:
    answer = await standing.http.get("/sessions", params={"cursor": cursor})
    problem(answer, 422, "bad_cursor")


async def test_pages_of_steps_go_on_along_the_path_that_they_began_on(server: Server) -> None:
    session = await server.session()
    first = await turn(server, session, "hello")
    second = await turn(server, session, "add a CSVFileScan")
    url = f"/sessions/{session}/steps"
    whole = (await get(server, url))["steps"]
    page = await get(server, url, limit=2)
    found = page["steps"]
    await command(server, session, "Revert", messageId=second["turnId"])
    await turn(server, session, "add a Limit")
    await command(server, session, "Revert", messageId=first["turnId"])
    await turn(server, session, "something else")
    while page["next_cursor"] is not None:
        page = await get(server, url, limit=2, before=page["next_cursor"])
        found = page["steps"] + found
    assert found == whole


async def test_a_cursor_of_another_sessions_steps_is_an_unknown_step(server: Server) -> None:
    mine, other = await server.session(), await server.session()
    for session in (mine, other):
        await turn(server, session, "hello")
    [_, theirs] = (await get(server, f"/sessions/{other}/steps"))["steps"]
    for all_ in ("false", "true"):
        for before in (theirs["id"], NOBODYS, "step-initial", "nonsense"):
            params = {"before": before, "all": all_}
            answer = await server.http.get(f"/sessions/{mine}/steps", params=params)
            problem(answer, 404, "unknown_step")


@pytest.mark.parametrize("most", [1, MOST])
async def test_a_page_without_a_limit_fits_whatever_a_page_may_have(
    fresh_database: str, most: int
) -> None:
    limits = {"page_limit": most, "transcript_limit": most}
    async with serving(fresh_database, **limits) as server:
        session = await server.session()
        await turn(server, session, "hello")
        await server.session()
        for url, rows, all_ in [
            ("/sessions", "sessions", 2),
            (f"/sessions/{session}/steps", "steps", 2),
            (f"/sessions/{session}/transcript", "records", 2),
        ]:
            for params in ({}, {"limit": most}):
                page = await get(server, url, **params)
                assert len(page[rows]) == min(most, all_)
                assert (page["next_cursor"] is None) is (most > 1)
            answer = await server.http.get(url, params={"limit": most + 1})
            problem(answer, 422, "bad_input")
