"""Files attached to a session: uploaded, listed, downloaded, removed, named in prompts."""

from __future__ import annotations

from rest import problem
from serving import Server


async def test_a_file_comes_back_as_it_was_sent(server: Server) -> None:
    session = await server.session()
    answer = await server.http.post(
        f"/sessions/{session}/attachments",
        params={"name": "orders.csv"},
        content=b"id,total\n1,2\n",
    )
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["name"], made["type"], made["size"]) == ("orders.csv", "text/plain", 13)
    assert made["state"] == "ready"
    listed = (await server.http.get(f"/sessions/{session}/attachments")).json()
    assert listed == {"attachments": [made], "next_cursor": None}
    at = answer.headers["location"]
    assert (await server.http.get(at)).json() == made
    sent = await server.http.get(f"{at}/content")
    assert sent.content == b"id,total\n1,2\n"
    assert sent.headers["content-disposition"] == 'attachment; filename="orders.csv"'
    assert (await server.http.delete(at)).status_code == 204
    problem(await server.http.get(f"{at}/content"), 410, "attachment_gone")
