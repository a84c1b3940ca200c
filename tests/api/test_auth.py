"""Who is let in: keys, cookies, tickets; when they end; and what is never said of them."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from flaky import SOCKET, flaky
from people import World
from processes import eventually, process
from rest import problem
from serving import Server, serving
from starlette.types import Message, Receive, Scope, Send
from wire import Client, is_error

from turnback.api.guard import Guard
from turnback.core.principal import ProjectRole, service_of
from turnback.store.ids import new_id

OWNER, EDITOR = ProjectRole.OWNER, ProjectRole.EDITOR


async def alice(server: Server, role: ProjectRole | None = OWNER, **more: Any) -> str:
    """A key of `alice`, on a server where keys count from now on."""
    world = World(server)
    key = await world.key("alice", role, project="local", **more)
    await eventually(lambda: not server.app.state.sessions.local)
    return key


def shown(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def ticket(server: Server, session: str, headers: dict[str, str]) -> str:
    """A ticket, as the subprotocol to offer."""
    answer = await server.http.post("/ws-tickets", json={"session_id": session}, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return str(answer.json()["protocol"])


async def turned_away(client: Client, code: int = 4401) -> None:
    async with client:
        assert is_error(await client.next())
        assert await client.until_closed() == code


# -- before the first key, and after it


async def test_without_keys_nobody_is_asked_who_they_are(server: Server) -> None:
    session = await server.session()
    for headers in ({}, {"authorization": "Basic eDp5"}, shown("x"), {"cookie": "turnback=x"}):
        answer = await server.http.get("/whoami", headers=headers)
        assert answer.json() | {"decides": None} == {
            "principal": "local", "project": "local", "role": "owner", "key_id": None,
            "decides": None,
        }  # fmt: skip
        async with server.connect(session, additional_headers=headers) as client:
            await client.snapshot()


async def test_the_first_key_ends_that_at_once_and_its_end_does_not_bring_it_back(
    server: Server,
) -> None:
    session = await server.session(name="before")
    async with server.connect(session) as client:
        await client.snapshot()
        asked = {"principal": "alice", "role": "owner"}
        made = await server.http.post("/keys", json=asked)
        assert made.status_code == 201, made.text
        assert made.headers["cache-control"] == "no-store"
        problem(await server.http.get("/whoami"), 401, "unauthenticated")
        assert await client.until_closed() == 4401
    await turned_away(server.connect(session))
    headers = shown(made.json()["key"])
    listed = (await server.http.get("/keys", headers=headers)).json()["keys"]
    assert listed == [{name: made.json()[name] for name in made.json() if name != "key"}]
    before = (await server.http.get("/sessions", headers=headers)).json()["sessions"]
    assert [one["name"] for one in before] == ["before"]
    gone = await server.http.delete(f"/keys/{made.json()['id']}", headers=headers)
    assert gone.status_code == 204
    for more in (headers, {}):
        problem(await server.http.get("/whoami", headers=more), 401, "unauthenticated")


async def test_another_process_hears_of_the_first_key(fresh_database: str) -> None:
    async with serving(fresh_database) as one, serving(fresh_database) as other:
        assert (await other.http.get("/whoami")).status_code == 200
        await alice(one)
        await eventually(lambda: not other.app.state.sessions.local)
        problem(await other.http.get("/whoami"), 401, "unauthenticated")


async def test_a_database_without_keys_opens_nothing_off_loopback(server: Server) -> None:
    answers: list[Message] = []

    async def send(message: Message) -> None:
        answers.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    for address, status in (("127.0.0.1", 200), ("::ffff:127.0.0.1", 200), ("10.0.0.7", 401)):
        host = f"[{address}]" if ":" in address else address
        scope: Scope = {
            "type": "http", "method": "GET", "path": "/whoami", "raw_path": b"/whoami",
            "query_string": b"", "headers": [(b"host", host.encode())], "http_version": "1.1",
            "server": (address, 80), "client": ("10.0.0.9", 1), "scheme": "http",
        }  # fmt: skip
        answers.clear()
        await server.app(scope, receive, send)
        assert answers[0]["status"] == status, address


# -- keys


@pytest.mark.parametrize(
    "value", ["", "Bearer", "bearer {}x", "Basic {}", "{}", "Bearer {} {}", "Bearer x{}"]
)
async def test_what_is_no_key_is_none(server: Server, value: str) -> None:
    key = await alice(server)
    answer = await server.http.get("/whoami", headers={"authorization": value.format(key, key)})
    problem(answer, 401, "unauthenticated")


async def test_two_keys_are_none_and_none_is_taken_from_the_address(server: Server) -> None:
    key = await alice(server)
    twice = [("authorization", f"Bearer {key}")] * 2
    problem(await server.http.get("/whoami", headers=twice), 401, "unauthenticated")
    for query in ("key", "token", "access_token", "authorization", "ticket"):
        answer = await server.http.get("/whoami", params={query: key})
        problem(answer, 401, "unauthenticated")
    await turned_away(server.connect(new_id(), query=f"?key={key}&ticket={key}"))


async def test_a_whole_key_in_an_address_is_refused_and_not_said_again(server: Server) -> None:
    key = await alice(server)
    for whole in (key, f"tb_{'0' * 12}_{'0' * 64}"):
        answer = await server.http.delete(f"/keys/{whole}", headers=shown(key))
        assert "by its `id` or `prefix`" in problem(answer, 422, "bad_input")["detail"]
        assert whole.rpartition("_")[2] not in answer.text
    assert (await server.http.get("/whoami", headers=shown(key))).status_code == 200
    prefix = key.split("_")[1]
    answer = await server.http.delete(f"/keys/{prefix}", headers=shown(key))
    assert answer.status_code == 204


async def test_while_the_database_is_away_nobodys_key_is_taken_on_trust(
    fresh_database: str, tmp_path: Path
) -> None:
    async with flaky(fresh_database, tmp_path) as wire, serving(wire.url) as server:
        key = await alice(server)
        assert (await server.http.get("/metrics", headers=shown(key))).status_code == 200
        socket, aside = tmp_path / SOCKET, tmp_path / "aside"
        socket.rename(aside)
        wire.cut()
        for path in ("/metrics", "/whoami", "/sessions"):
            answer = await server.http.get(path, headers=shown(key))
            said = problem(answer, 503, "database_unavailable")
            assert "`/healthz` and `/readyz`, which need no key" in said["detail"]
        assert (await server.http.get("/healthz")).status_code == 200
        assert (await server.http.get("/readyz")).status_code == 503
        aside.rename(socket)


@pytest.mark.parametrize(
    "time",
    [0, 1.5, True, "0", "1700000000", "2030-01-01", "2030-01-01T00:00:00", "tomorrow", "",
     "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2030-02-30T00:00:00Z", []],
)  # fmt: skip
async def test_a_time_that_a_key_expires_at_is_whole_and_has_an_offset(
    standing: Server, time: Any
) -> None:
    asked = {"principal": "alice", "role": "owner", "expires_at": time}
    refused = problem(await standing.http.post("/keys", json=asked), 422, "bad_input")
    assert refused["data"]["path"] == "/expires_at"
    assert (await standing.http.get("/keys")).json()["keys"] == []


async def test_keys_and_roles_come_in_pages_of_one_project(server: Server) -> None:
    world, owner = World(server), shown(await alice(server))
    await world.key("alice", OWNER, project="other")
    made = {"principal": "bob", "role": "viewer", "expires_at": "2030-01-01T00:00:00+02:00"}
    for n in range(4):
        answer = await server.http.post("/keys", json=made | {"name": str(n)}, headers=owner)
        assert answer.json()["expires_at"] == "2029-12-31T22:00:00+00:00"
        await server.http.put(f"/roles/p{n}", json={"role": "editor"}, headers=owner)
    for path, member, expected in (
        ("/keys", "name", ["3", "2", "1", "0", ""]),
        ("/roles", "principal", ["alice", "bob", "p0", "p1", "p2", "p3"]),
    ):
        seen, cursor = [], {}
        while True:
            page = await server.http.get(path, params={"limit": 2} | cursor, headers=owner)
            rows = page.json()[path[1:]]
            assert 0 < len(rows) <= 2
            seen += [row[member] for row in rows]
            if page.json()["next_cursor"] is None:
                break
            cursor = {"cursor": page.json()["next_cursor"]}
        assert seen == expected
        bad = await server.http.get(path, params={"cursor": "-"}, headers=owner)
        problem(bad, 422, "bad_cursor")
    for name in ("agent", "a b", "é", "x" * 201):
        answer = await server.http.put(f"/roles/{name}", json={"role": "viewer"}, headers=owner)
        problem(answer, 422, "bad_input")


async def test_a_key_that_expires_closes_its_sockets(server: Server) -> None:
    lasting = await alice(server)
    soon = datetime.now(UTC) + timedelta(seconds=2.5)
    key = await World(server).key("bob", OWNER, project="local", expires_at=soon)
    answer = await server.http.post("/sessions", headers=shown(lasting))
    session = answer.json()["id"]
    async with (
        server.connect(session, additional_headers=shown(key)) as client,
        server.connect(session, additional_headers=shown(lasting)) as other,
    ):
        await client.snapshot()
        await other.snapshot()
        assert await client.until_closed() == 4401
        assert (await other.ask("Redo"))["code"] == "nothing_to_redo"
    problem(await server.http.get("/whoami", headers=shown(key)), 401, "unauthenticated")


@pytest.mark.parametrize("how", ["grant", "role", "visibility", "key", "session"])
async def test_who_loses_the_right_to_read_is_told_by_a_close_code(
    server: Server, how: str
) -> None:
    owner = shown(await alice(server))
    world = World(server)
    guest = await world.key("bob", None if how == "grant" else EDITOR, project="local")
    session = (await server.http.post("/sessions", headers=owner)).json()["id"]
    path = f"/sessions/{session}"
    if how == "grant":
        await server.http.put(f"{path}/grants/bob", json={"rights": ["read"]}, headers=owner)
    async with server.connect(session, additional_headers=shown(guest)) as client:
        await client.snapshot()
        method, url, body, code = {
            "grant": ("DELETE", f"{path}/grants/bob", None, 4403),
            "role": ("DELETE", "/roles/bob", None, 4403),
            "visibility": ("PATCH", path, {"visibility": "private"}, 4403),
            "key": ("DELETE", f"/keys/{guest.split('_')[1]}", None, 4401),
            "session": ("DELETE", path, None, 4410),
        }[how]
        answer = await server.http.request(method, url, json=body, headers=owner)
        assert answer.is_success, answer.text
        assert await client.until_closed() == code
    after = await server.http.get(path, headers=shown(guest))
    assert after.status_code == (401 if how == "key" else 404)


async def test_a_command_is_refused_as_soon_as_its_right_is_gone(server: Server) -> None:
    owner = shown(await alice(server))
    bob = await World(server).key("bob", EDITOR, project="local")
    session = (await server.http.post("/sessions", headers=owner)).json()["id"]
    async with server.connect(session, additional_headers=shown(bob)) as client:
        await client.snapshot()
        assert (await client.ask("Redo"))["code"] == "nothing_to_redo"
        await server.http.put("/roles/bob", json={"role": "viewer"}, headers=owner)
        assert (await client.ask("Redo"))["code"] == "not_allowed"
        assert client.closed is None


# -- the page: signing in, and tickets


async def signed_in(server: Server, key: str, **headers: str) -> httpx.Response:
    answer = await server.http.post("/sign-in", json={"key": key}, headers=headers)
    server.http.cookies.clear()
    return answer


async def test_a_page_signs_in_for_a_cookie_and_out_again(server: Server) -> None:
    key = await alice(server)
    answer = await signed_in(server, key)
    assert answer.json()["principal"] == "alice"
    said = answer.headers["set-cookie"]
    assert {"HttpOnly", "Path=/", "SameSite=strict", "Max-Age=43200"} <= set(said.split("; "))
    assert "Secure" not in said
    cookie = {"cookie": said.split(";")[0]}
    assert key not in said
    who = await server.http.get("/whoami", headers=cookie)
    assert (who.json()["principal"], who.json()["role"]) == ("alice", "owner")
    out = await server.http.post("/sign-out", headers=cookie)
    assert out.status_code == 204
    assert "Max-Age=0" in out.headers["set-cookie"]
    problem(await server.http.get("/whoami", headers=cookie), 401, "unauthenticated")
    assert (await server.http.get("/whoami", headers=shown(key))).status_code == 200


async def test_off_loopback_the_cookie_is_for_https_alone(fresh_database: str) -> None:
    async with serving(fresh_database, allowed_hosts=("Turnback.example",)) as server:
        key = await alice(server)
        answer = await signed_in(server, key, host="turnback.example")
        assert "Secure" in answer.headers["set-cookie"].split("; ")


async def test_a_cookie_ends_with_its_time_and_with_its_key(fresh_database: str) -> None:
    async with serving(fresh_database, sign_in_ttl=0.3) as server:
        key = await alice(server)
        short = {"cookie": (await signed_in(server, key)).headers["set-cookie"].split(";")[0]}
        assert (await server.http.get("/whoami", headers=short)).status_code == 200

        async def over() -> bool:
            return (await server.http.get("/whoami", headers=short)).status_code == 401

        await eventually(over)
    async with serving(fresh_database) as server:
        cookie = {"cookie": (await signed_in(server, key)).headers["set-cookie"].split(";")[0]}
        await World(server).identities.revoke_key(service_of("local"), key.split("_")[1])
        problem(await server.http.get("/whoami", headers=cookie), 401, "unauthenticated")


async def test_a_socket_takes_no_cookie(server: Server) -> None:
    key = await alice(server)
    session = (await server.http.post("/sessions", headers=shown(key))).json()["id"]
    cookie = (await signed_in(server, key)).headers["set-cookie"].split(";")[0]
    await turned_away(server.connect(session, additional_headers={"cookie": cookie}))
    # But a ticket that was asked for with it.
    offered = await ticket(server, session, {"cookie": cookie})
    async with server.connect(session, offers=["turnback.v1", offered]) as client:
        await client.snapshot()


@pytest.mark.parametrize("beside", ["turnback.v1", "turnback.base"])
async def test_a_ticket_opens_one_socket_and_is_never_said_again(
    server: Server, beside: str
) -> None:
    headers = shown(await alice(server))
    session = (await server.http.post("/sessions", headers=headers)).json()["id"]
    origin = {"origin": server.url}
    offered = await ticket(server, session, headers | origin)
    client = server.connect(
        session,
        v1=beside == "turnback.v1",
        offers=[offered, beside],
        additional_headers=origin,
    )
    async with client:
        await client.snapshot()
        assert client.took == beside
        assert offered not in str(client.texts)
        if beside == "turnback.v1":
            assert (await client.ask("Redo"))["code"] == "nothing_to_redo"
    again = server.connect(session, offers=["turnback.v1", offered], additional_headers=origin)
    await turned_away(again)


async def test_a_ticket_alone_is_not_taken_as_a_subprotocol(server: Server) -> None:
    headers = shown(await alice(server))
    session = (await server.http.post("/sessions", headers=headers)).json()["id"]
    offered = await ticket(server, session, headers)
    async with server.connect(session, v1=False, offers=[offered]) as client:
        await client.snapshot()
        assert client.took is None


async def test_a_ticket_is_for_its_session_its_origin_and_its_time(fresh_database: str) -> None:
    allowed = ("https://app.example",)
    async with serving(fresh_database, ticket_ttl=0.4, allowed_origins=allowed) as server:
        headers = shown(await alice(server))
        session = (await server.http.post("/sessions", headers=headers)).json()["id"]
        other = (await server.http.post("/sessions", headers=headers)).json()["id"]
        origin = {"origin": server.url}

        async def opened(at: str, offered: str, more: dict[str, str]) -> None:
            offers = ["turnback.v1", offered]
            await turned_away(server.connect(at, offers=offers, additional_headers=more))

        await opened(other, await ticket(server, session, headers | origin), origin)
        await opened(session, await ticket(server, session, headers | origin), {})
        elsewhere = {"origin": allowed[0]}
        await opened(session, await ticket(server, session, headers | origin), elsewhere)
        late = await ticket(server, session, headers | origin)
        await asyncio.sleep(0.5)
        await opened(session, late, origin)
        two = [await ticket(server, session, headers | origin) for _ in range(2)]
        offers = ["turnback.v1", *two]
        await turned_away(server.connect(session, offers=offers, additional_headers=origin))


async def test_a_ticket_ends_with_its_key(server: Server) -> None:
    owner = shown(await alice(server))
    bob = await World(server).key("bob", EDITOR, project="local")
    session = (await server.http.post("/sessions", headers=owner)).json()["id"]
    offered = await ticket(server, session, shown(bob))
    await server.http.delete(f"/keys/{bob.split('_')[1]}", headers=owner)
    await turned_away(server.connect(session, offers=["turnback.v1", offered]))


# -- tries, hosts


async def test_who_shows_too_many_bad_keys_is_not_looked_at_for_a_while(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, bad_credentials_per_minute=3) as server:
        key = await alice(server)
        bob = await World(server).key("bob", OWNER, project="local")
        assert (await server.http.get("/whoami", headers=shown(key))).status_code == 200
        bad = shown(f"tb_{'0' * 12}_{'0' * 64}")
        for _ in range(3):
            problem(await server.http.get("/whoami", headers=bad), 401, "unauthenticated")
        for ask in (
            server.http.get("/whoami", headers=bad),
            server.http.get("/whoami", headers={"cookie": "turnback=x"}),
            server.http.post("/sign-in", json={"key": "x"}),
            server.http.get("/whoami", headers=shown(bob)),
        ):
            answer = await ask
            limited = problem(answer, 429, "rate_limited")
            assert limited["data"]["limit"] == "bad_credentials_per_minute"
            assert 0 < int(answer.headers["retry-after"]) <= 20
        await turned_away(server.connect("x", additional_headers=bad), 1013)
        # Who was in before, is; and who shows nothing is told what to show.
        assert (await server.http.get("/whoami", headers=shown(key))).status_code == 200
        problem(await server.http.get("/whoami"), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("host", "address", "allowed"),
    [
        ("turnback.example", "10.0.0.7", True),
        ("TURNBACK.example.:443", "127.0.0.1", True),
        ("10.0.0.7:8700", "10.0.0.7", True),
        ("10.0.0.7", "::ffff:10.0.0.7", True),
        ("[fd00:0::7]:8700", "fd00::7", True),
        ("localhost", "10.0.0.7", True),
        ("10.0.0.8", "10.0.0.7", False),
        ("sub.turnback.example", "10.0.0.7", False),
        ("10.0.0.7.evil.example", "10.0.0.7", False),
        ("evil.example", "10.0.0.7", False),
    ],
)
async def test_a_host_is_loopback_the_address_that_was_reached_or_an_allowed_name(
    host: str, address: str, allowed: bool
) -> None:
    reached: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append("app")

    async def send(message: Message) -> None:
        reached.append(str(message.get("status", "")))

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    guard = Guard(app, allowed_hosts=("turnback.example",), allowed_origins=())
    headers = [(b"host", host.encode())]
    scope = {"type": "http", "path": "/", "headers": headers, "server": (address, 8700)}
    await guard(scope, receive, send)
    assert reached[0] == ("app" if allowed else "421")


# -- what is never said


def logged(folder: Path) -> list[str]:
    return [path.read_text() for path in folder.glob("*.log")]


async def test_no_secret_is_in_a_log_an_error_a_metric_or_the_database(
    fresh_database: str, tmp_path: Path
) -> None:
    async with process(tmp_path, fresh_database, log_level="debug") as server:
        made = await server.http.post("/keys", json={"principal": "alice", "role": "owner"})
        key = made.json()["key"]
        headers = shown(key)
        session = (await server.http.post("/sessions", headers=headers)).json()["id"]
        cookie = (await server.http.post("/sign-in", json={"key": key})).headers["set-cookie"]
        server.http.cookies.clear()
        secrets = {key, key.split("_")[2], cookie.split(";")[0].partition("=")[2]}
        told = []
        for wrong in (key + "0", key[:-1] + "g"):
            secrets.add(wrong)
            told.append((await server.http.get("/whoami", headers=shown(wrong))).text)
            told.append((await server.http.post("/sign-in", json={"key": wrong})).text)
            told.append((await server.http.post("/sign-in", json={"key": [wrong]})).text)
            gone = await server.http.delete(f"/keys/{wrong}", headers=headers)
            told.append(gone.text)
        asked = {"session_id": session}
        answer = await server.http.post("/ws-tickets", json=asked, headers=headers)
        offered = answer.json()["protocol"]
        secrets.add(offered.rpartition(".")[2])
        for _ in range(2):
            client = server.connect(session, offers=["turnback.v1", offered])
            async with client:
                told.append(json.dumps(await client.next()))
        told.append((await server.http.get("/metrics", headers=headers)).text)
        told.append((await server.http.get("/keys", headers=headers)).text)
    told += logged(tmp_path)
    connection = await asyncpg.connect(fresh_database)
    for table in ("api_keys", "tickets", "sign_ins", "idempotency_keys", "session_requests"):
        told += [str(dict(row)) for row in await connection.fetch(f"select * from {table}")]
    await connection.close()
    assert len(told) > 12
    for secret in secrets:
        assert not [text for text in told if secret in text]


async def test_what_is_told_to_one_is_taken_from_no_cache_by_another(server: Server) -> None:
    headers = shown(await alice(server))
    session = (await server.http.post("/sessions", headers=headers)).json()["id"]
    for path in ("", "/transcript", "/workflow", "/steps", "/steps/step-initial/workflow"):
        answer = await server.http.get(f"/sessions/{session}{path}", headers=headers)
        assert answer.headers["cache-control"] == "private, no-cache", path
    assert (await server.http.get("/capabilities")).headers.get("cache-control") is None
