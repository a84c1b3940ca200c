"""Files attached to a session: uploaded, listed, removed, named in prompts; and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest
from attaching import CSV, PNG, attached, files, upload
from processes import eventually
from rest import command, get, problem, state
from serving import Server, serving


async def test_a_file_is_kept_under_its_hash_and_known_by_what_its_bytes_say(
    server: Server,
) -> None:
    session = await server.session()
    answer = await upload(server, session, PNG, name="../../etc/invoice.pdf")
    assert answer.status_code == 201
    made = answer.json()
    hash_ = hashlib.sha256(PNG).hexdigest()
    assert {name: made[name] for name in ("name", "type", "size", "sha256", "state", "by")} == {
        "name": "invoice.pdf",
        "type": "image/png",
        "size": len(PNG),
        "sha256": hash_,
        "state": "ready",
        "by": "local",
    }
    assert made["session_id"] == session
    assert answer.headers["location"] == f"/sessions/{session}/attachments/{made['id']}"
    assert await get(server, answer.headers["location"]) == made
    assert files(server) == [server.settings.attachments_folder / "local" / hash_]


async def test_no_name_is_bad_input_and_a_content_type_means_nothing(server: Server) -> None:
    session = await server.session()
    path = f"/sessions/{session}/attachments"
    problem(await server.http.post(path, content=CSV), 422, "bad_input")
    said = {"content-type": "text/html"}
    page = b"<html><script>alert(1)</script>"
    answer = await server.http.post(f"{path}?name=x.html", content=page, headers=said)
    assert answer.json()["type"] == "text/plain"


@pytest.mark.parametrize(
    ("content", "type_"),
    [
        (b"", "text/plain"),
        ("größe\n".encode(), "text/plain"),
        (b"a" * (2**20 - 1) + "ß".encode() + b"z" * 9, "text/plain"),  # over the end of a block
        ("größe\n".encode("latin-1"), "application/octet-stream"),
        (b"text and then\0", "application/octet-stream"),
        (b"a" * 2**20 + b"\xff", "application/octet-stream"),
        (b"a" * 2**20 + "ß".encode()[:1], "application/octet-stream"),
        (b"%PDF-1.7\n", "application/pdf"),
    ],
)
async def test_text_is_text_to_its_last_byte(standing: Server, content: bytes, type_: str) -> None:
    made = await attached(standing, await standing.session(), content)
    assert (made["type"], made["size"]) == (type_, len(content))


async def test_files_are_listed_newest_first_in_pages(server: Server) -> None:
    session = await server.session()
    made = [await attached(server, session, b"%d" % n, name=f"{n}.txt") for n in range(5)][::-1]
    path = f"/sessions/{session}/attachments"
    assert await get(server, path) == {"attachments": made, "next_cursor": None}
    first = await get(server, path, limit=2)
    assert first == {"attachments": made[:2], "next_cursor": made[1]["id"]}
    rest = await get(server, path, cursor=first["next_cursor"])
    assert rest == {"attachments": made[2:], "next_cursor": None}
    problem(await server.http.get(path, params={"cursor": "nope"}), 422, "bad_cursor")
    await server.http.delete(f"{path}/{made[2]['id']}")
    assert (await get(server, path))["attachments"] == [*made[:2], *made[3:]]


async def test_the_same_bytes_lie_on_the_disk_once_and_go_with_the_last_name(
    server: Server,
) -> None:
    session, other = await server.session(), await server.session()
    both = await asyncio.gather(attached(server, session), attached(server, other, name="b.csv"))
    assert len({made["id"] for made in both}) == 2
    [file] = files(server)
    await server.http.delete(f"/sessions/{session}/attachments/{both[0]['id']}")
    path = f"/sessions/{other}/attachments/{both[1]['id']}/content"
    assert (await server.http.get(path)).content == CSV
    assert file.read_bytes() == CSV


async def test_what_is_not_the_sessions_own_is_unknown_in_it(server: Server) -> None:
    session, other = await server.session(), await server.session()
    made = await attached(server, session)
    for id_ in (made["id"], "nope", "01a22c85-0a7e-7279-bc8c-0d1651bfb53a"):
        path = f"/sessions/{other}/attachments/{id_}"
        for answer in (
            await server.http.get(path),
            await server.http.get(f"{path}/content"),
            await server.http.delete(path),
            await command(server, other, "Prompt", content="x", attachmentIds=[id_]),
        ):
            said = problem(answer, 404, "attachment_not_found")
            assert said["data"] == {"attachment_id": id_}
    await server.http.delete(f"/sessions/{session}")
    path = f"/sessions/{session}/attachments"
    for asked in (path, f"{path}/{made['id']}", f"{path}/{made['id']}/content"):
        problem(await server.http.get(asked), 404, "session_not_found")
    problem(await upload(server, session), 404, "session_not_found")


async def test_a_file_that_is_too_large_or_one_too_many_is_refused_and_leaves_nothing(
    fresh_database: str,
) -> None:
    limits = {
        "max_attachment_bytes": 100,
        "max_session_attachments": 3,
        "max_session_attachment_bytes": 250,
    }
    async with serving(fresh_database, **limits) as server:
        session = await server.session()
        said = problem(await upload(server, session, b"x" * 101), 413, "too_large")
        assert said["data"] == {"limit": "max_attachment_bytes", "value": 100}

        async def pieces() -> AsyncIterator[bytes]:  # of which nothing says how many there are
            for _ in range(11):
                yield b"x" * 10

        path = f"/sessions/{session}/attachments?name=x"
        problem(await server.http.post(path, content=pieces()), 413, "too_large")
        assert files(server) == []

        kept = [await attached(server, session, bytes([n]) * 100) for n in range(2)]
        said = problem(await upload(server, session, b"y" * 51), 413, "too_large")
        assert said["data"]["limit"] == "max_session_attachment_bytes"
        await attached(server, session, b"y" * 50)
        said = problem(await upload(server, session, b""), 413, "too_large")
        assert said["data"]["limit"] == "max_session_attachments"
        await server.http.delete(f"/sessions/{session}/attachments/{kept[0]['id']}")
        await attached(server, session, b"")
        other = await server.session()
        await attached(server, other, b"z" * 100)  # each has room of its own


async def test_of_many_at_once_no_more_are_kept_than_there_is_room_for(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, max_session_attachments=3) as server:
        session = await server.session()
        uploads = [upload(server, session, b"%d" % n) for n in range(12)]
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*uploads))
        assert statuses == [201] * 3 + [413] * 9
        assert len((await get(server, f"/sessions/{session}/attachments"))["attachments"]) == 3


async def test_no_more_come_at_once_than_are_allowed(fresh_database: str) -> None:
    async with serving(fresh_database, max_uploads=1) as server:
        session, first, go_on = await server.session(), asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"first "
            first.set()
            await go_on.wait()
            yield b"second"

        path = f"/sessions/{session}/attachments?name=x"
        coming = asyncio.create_task(server.http.post(path, content=slowly()))
        await first.wait()
        await eventually(lambda: getattr(server.app.state, "uploads", 0) == 1)
        problem(await upload(server, session), 429, "queue_full")
        go_on.set()
        assert (await coming).json()["size"] == 12
        await attached(server, session)


async def test_the_same_key_makes_one_file_and_another_body_or_name_is_refused(
    server: Server,
) -> None:
    session = await server.session()
    first = await upload(server, session, key="k")
    again = await upload(server, session, key="k")
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert len((await get(server, f"/sessions/{session}/attachments"))["attachments"]) == 1
    problem(await upload(server, session, b"other", key="k"), 422, "idempotency_conflict")
    problem(await upload(server, session, name="b.csv", key="k"), 422, "idempotency_conflict")
    assert len(files(server)) == 1


async def test_an_archived_session_takes_no_file_and_gives_up_none(server: Server) -> None:
    session = await server.session()
    made = await attached(server, session)
    await server.http.patch(f"/sessions/{session}", json={"archived": True})
    problem(await upload(server, session), 409, "archived")
    path = f"/sessions/{session}/attachments/{made['id']}"
    problem(await server.http.delete(path), 409, "archived")
    assert (await server.http.get(f"{path}/content")).content == CSV


async def test_a_removed_file_is_a_placeholder_from_the_next_request_on(server: Server) -> None:
    session = await server.session()
    made = await attached(server, session)
    turn = await command(
        server, session, "Prompt", content="hello", attachmentIds=[made["id"]], wait=True
    )
    said = {name: made[name] for name in ("id", "name", "type", "size")}
    before = await server.http.get(f"/sessions/{session}/transcript")
    assert before.json()["records"][0]["attachments"] == [said]
    assert turn.json()["events"][1]["step"]["attachments"] == [said]
    path = f"/sessions/{session}/attachments/{made['id']}"
    for _ in range(2):
        assert (await server.http.delete(path)).status_code == 204
    gone = problem(await server.http.get(f"{path}/content"), 410, "attachment_gone")
    assert gone["data"] == {"attachment_id": made["id"]}
    assert await get(server, path) == made | {"state": "removed"}
    asked = await command(server, session, "Prompt", content="x", attachmentIds=[made["id"]])
    problem(asked, 410, "attachment_gone")
    after = await server.http.get(f"/sessions/{session}/transcript")
    assert after.content == before.content
    assert (await get(server, f"/sessions/{session}/attachments"))["attachments"] == []


@pytest.mark.lineage(16)
async def test_an_inherited_file_is_downloaded_through_the_child_while_there_is_one(
    server: Server,
) -> None:
    parent = await server.session()
    made = await attached(server, parent)
    turn = {"content": "hello", "attachmentIds": [made["id"]], "wait": True}
    await command(server, parent, "Prompt", **turn)
    answer = await server.http.post(f"/sessions/{parent}/fork", json={})
    child = answer.json()["session"]["id"]
    transcript = await server.http.get(f"/sessions/{child}/transcript")
    [file] = transcript.json()["records"][0]["attachments"]
    path = f"/sessions/{child}/attachments/{file['id']}"
    assert (await server.http.get(f"{path}/content")).content == CSV
    await server.http.delete(f"/sessions/{parent}")
    assert (await server.http.get(f"{path}/content")).content == CSV
    files(server)[0].unlink()
    problem(await server.http.get(f"{path}/content"), 410, "attachment_gone")
    again = await server.http.get(f"/sessions/{child}/transcript")
    assert (again.status_code, again.content) == (200, transcript.content)


@pytest.mark.lineage(16)
async def test_a_file_that_was_removed_before_a_fork_is_a_placeholder_in_it(
    server: Server,
) -> None:
    session = await server.session()
    made = await attached(server, session)
    turn = {"content": "hello", "attachmentIds": [made["id"]], "wait": True}
    await command(server, session, "Prompt", **turn)
    await server.http.delete(f"/sessions/{session}/attachments/{made['id']}")
    for _ in range(2):  # a fork of the fork as well
        answer = await server.http.post(f"/sessions/{session}/fork", json={})
        session = answer.json()["session"]["id"]
        records = (await get(server, f"/sessions/{session}/transcript"))["records"]
        path = f"/sessions/{session}/attachments/{records[0]['attachments'][0]['id']}"
        assert await get(server, path) == made | {"state": "removed"}
        problem(await server.http.get(f"{path}/content"), 410, "attachment_gone")
        assert (await get(server, f"/sessions/{session}/attachments"))["attachments"] == []


async def test_a_file_that_is_lost_from_the_disk_is_a_placeholder_too(server: Server) -> None:
    session = await server.session()
    made = await attached(server, session)
    files(server)[0].unlink()
    path = f"/sessions/{session}/attachments/{made['id']}/content"
    problem(await server.http.get(path), 410, "attachment_gone")
    asked = await command(
        server, session, "Prompt", content="hi", attachmentIds=[made["id"]], wait=True
    )
    assert "is no longer there" in asked.json()["events"][-2]["step"]["content"]
    await attached(server, session)  # the same bytes again are good for both
    assert (await server.http.get(path)).content == CSV


async def test_a_prompt_names_files_once_each_and_a_retry_is_the_same_turn(
    server: Server,
) -> None:
    session = await server.session()
    one, two = await attached(server, session), await attached(server, session, PNG, name="a.png")
    asked = {"content": "hi", "attachmentIds": [two["id"], one["id"], two["id"]], "turnKey": "t"}
    first = await command(server, session, "Prompt", **asked)
    await state(server, session, "AVAILABLE")
    await server.http.delete(f"/sessions/{session}/attachments/{one['id']}")
    again = await command(server, session, "Prompt", **asked)  # though one is gone by now
    assert again.json()["turnId"] == first.json()["turnId"]
    steps = (await get(server, f"/sessions/{session}/steps"))["steps"]
    assert [[file["id"] for file in step.get("attachments", [])] for step in steps] == [
        [two["id"], one["id"]],
        [],
    ]


async def test_a_prompt_that_names_too_many_or_unknown_files_begins_nothing(
    fresh_database: str,
) -> None:
    async with serving(fresh_database, max_prompt_attachments=1) as server:
        session = await server.session()
        made = [await attached(server, session, b"%d" % n) for n in range(2)]
        async with server.connect(session) as client:
            await client.snapshot()
            ids = [file["id"] for file in made]
            refused = await client.ask("Prompt", content="x", attachmentIds=ids)
            assert refused["code"] == "too_large"
            assert refused["data"]["limit"] == "max_prompt_attachments"
            refused = await client.ask("Prompt", content="x", attachmentIds=["nope"])
            assert refused["code"] == "attachment_not_found"
            frames = await client.prompt("x", attachmentIds=ids[:1])
            steps = [frame["step"] for frame in frames if "step" in frame]
            assert [file["id"] for file in steps[0]["attachments"]] == ids[:1]
        assert len((await get(server, f"/sessions/{session}/steps"))["steps"]) == 2


async def test_a_base_client_is_told_of_no_file(server: Server) -> None:
    session = await server.session()
    made = await attached(server, session)
    async with server.connect(session, v1=False) as client:
        await client.snapshot()
        await command(
            server, session, "Prompt", content="hi", attachmentIds=[made["id"]], wait=True
        )
        step = await client.wait(lambda frame: frame["type"] == "WsServerStepEvent")
        assert "attachments" not in step["step"]
        mine = await client.prompt("more", attachmentIds=["nope"])  # means nothing there
        assert any(frame["type"] == "WsServerStepEvent" for frame in mine)
