"""A wrong member is named by the place at which its sender wrote it, and by nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from serving import Server

from turnback.api.frames import Unparsed, parse
from turnback.core.errors import InvalidFormat
from turnback.core.principal import LOCAL

MOVE = {"op": "moveOperator", "operatorID": "op1", "position": {"x": 1, "y": 1}}


def edits(*items: Any) -> dict[str, Any]:
    return {"type": "WsClientEditWorkflowCommand", "baseHeadId": "h", "edits": list(items)}


@pytest.mark.parametrize(
    ("frame", "path"),
    [
        (edits(MOVE | {"more": 1}), "/edits/0/more"),
        (edits(MOVE, MOVE | {"position": {"x": "far", "y": 1}}), "/edits/1/position/x"),
        (edits(MOVE | {"position": {"x": 1}}), "/edits/0/position/y"),
        (edits({"op": "moveOperator", "operatorID": "op1"}), "/edits/0/position"),
        (edits(MOVE | {"a/b": 1}), "/edits/0/a~1b"),
        (edits({"op": "dance"}), "/edits/0"),
        (edits({"operatorID": "op1"}), "/edits/0"),
        (edits(5), "/edits/0"),
        (edits(), "/edits"),
        (edits() | {"edits": {}}, "/edits"),
        ({"type": "WsClientCheckoutCommand"}, "/stepId"),
        ({"type": "WsClientRedoCommand", "all": "x"}, "/all"),
        ({"type": "WsClientStopCommand", "requestId": ""}, "/requestId"),
    ],
)
def test_a_wrong_member_of_a_command_is_named_by_its_path(frame: dict[str, Any], path: str) -> None:
    with pytest.raises(Unparsed) as raised:
        parse(json.dumps(frame), principal=LOCAL, v1=True, max_edits=1000)
    error = raised.value.error
    assert isinstance(error, InvalidFormat)
    assert error.data["path"] == path
    assert error.data["reason"]


async def test_a_wrong_member_of_a_body_is_named_by_its_path(standing: Server) -> None:
    answer = await standing.http.post("/sessions", json={"bogus": 1})
    assert answer.json()["data"] == {"path": "/bogus"}
    assert answer.json()["detail"].startswith("`bogus`: ")
