"""Steps over REST: pages of them, where lines part, what differs."""

from __future__ import annotations

from rest import ADD_SCAN, idle, problem, prompted, send
from serving import Server


async def test_the_steps_are_paged_back_and_a_cursor_stays_good_when_head_moves(
    standing: Server,
) -> None:
    session, turn = await prompted(standing)
    url = f"/sessions/{session}/steps"
    whole = (await standing.http.get(url)).json()
    assert whole["next_cursor"] is None
    contents = [step["content"] for step in whole["steps"]]
    assert contents[0] == ADD_SCAN["content"]
    assert [step["record_index"] for step in whole["steps"]] == list(range(len(contents)))
    assert {step["turn_id"] for step in whole["steps"]} == {turn}
    assert "tool_call_id" in whole["steps"][1]["tool_results"][0]
    assert "operatorId" in whole["steps"][1]["tool_calls"][0]["input"]
    newest = (await standing.http.get(f"{url}?limit=1")).json()
    assert [step["content"] for step in newest["steps"]] == contents[-1:]
    await send(standing, session, {"type": "WsClientRevertCommand", "messageId": turn})
    assert (await standing.http.get(url)).json() == {"steps": [], "next_cursor": None}
    older = (await standing.http.get(f"{url}?before={newest['next_cursor']}")).json()
    assert [step["content"] for step in older["steps"]] == contents[:-1]
    every = (await standing.http.get(f"{url}?all=true")).json()
    assert every["steps"] == whole["steps"]


async def test_branches_name_the_lines_that_part_and_which_is_shown(standing: Server) -> None:
    session, turn = await prompted(standing)
    url = f"/sessions/{session}/branches"
    assert (await standing.http.get(url)).json() == {"branches": [], "next_cursor": None}
    tip = (await standing.http.get(f"/sessions/{session}")).json()["head_id"]
    await send(standing, session, {"type": "WsClientRevertCommand", "messageId": turn})
    other = ADD_SCAN | {"content": "add a TextInput"}
    await send(standing, session, other)
    head = (await idle(standing, session))["head_id"]
    found = (await standing.http.get(url)).json()["branches"]
    assert [(b["parent_id"], b["content"], b["tip"], b["on_path"]) for b in found] == [
        ("step-initial", ADD_SCAN["content"], tip, False),
        ("step-initial", other["content"], head, True),
    ]
    assert [branch["turns"] for branch in found] == [1, 1]
    first = (await standing.http.get(f"{url}?limit=1")).json()
    assert first == {"branches": found[:1], "next_cursor": found[0]["step_id"]}
    rest = (await standing.http.get(f"{url}?limit=1&cursor={first['next_cursor']}")).json()
    assert rest == {"branches": found[1:], "next_cursor": None}
    problem(await standing.http.get(f"{url}?cursor=nothing"), 422, "bad_cursor")
    problem(await standing.http.get(f"{url}?limit=501"), 422, "bad_input")


async def test_the_path_to_any_step_can_be_read(standing: Server) -> None:
    session, turn = await prompted(standing)
    url = f"/sessions/{session}/steps"
    tip = (await standing.http.get(url)).json()["steps"][-1]["id"]
    await send(standing, session, {"type": "WsClientRevertCommand", "messageId": turn})
    there = (await standing.http.get(url, params={"at": tip})).json()["steps"]
    assert there[0]["content"] == ADD_SCAN["content"]
    assert there[-1]["id"] == tip
    assert (await standing.http.get(url, params={"at": "step-initial"})).json()["steps"] == []
    assert (await standing.http.get(url, params={"at": "none"})).status_code == 404


async def test_the_diff_of_two_steps_names_what_differs(standing: Server) -> None:
    session, _ = await prompted(standing)
    head = (await standing.http.get(f"/sessions/{session}")).json()["head_id"]
    url = f"/sessions/{session}/diff"
    built = (await standing.http.get(url, params={"from": "step-initial", "to": head})).json()
    assert list(built["operators"]["added"]) == ["op1"]
    back = (await standing.http.get(url, params={"from": head, "to": "step-initial"})).json()
    assert list(back["operators"]["removed"]) == ["op1"]
    same = (await standing.http.get(url, params={"from": head, "to": head})).json()
    assert same["touched"] == []
    assert not same["operators"]["changed"]
