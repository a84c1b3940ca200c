"""The contracts as files are what the code says, are well formed, and hold for real frames."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from turnback import schema
from turnback.api.definitions import frames

ROOT = Path(__file__).parents[1]
FILES = schema.files()
CHECKER = ROOT / "tests/contracts/check-asyncapi.mjs"
RECORDED = ROOT / "tests/data/recorded.jsonl"


@pytest.mark.parametrize("path", sorted(FILES), ids=str)
def test_a_committed_contract_is_what_the_code_says(path: Path) -> None:
    committed = (ROOT / path).read_bytes() if (ROOT / path).exists() else b""
    assert committed == FILES[path], "run `turnback schema .`"


def test_the_frames_schema_is_a_schema_and_its_tags_are_required() -> None:
    document = frames()
    Draft202012Validator.check_schema(document)
    for name, definition in document["$defs"].items():
        if name.startswith(("Ws", "Base")) and name.endswith(("Command", "Event")):
            assert "type" in definition["required"], name


def test_what_is_written_is_the_same_every_time(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path): path.read_bytes() for path in schema.write(tmp_path)}
    assert written == FILES


@pytest.mark.parametrize(("direction", "union"), [
    ("client->server", "BaseClientFrame"),
    ("server->client", "BaseServerFrame"),
])  # fmt: skip
def test_recorded_frames_of_the_public_proposal_are_base_frames(direction: str, union: str) -> None:
    definitions = frames()["$defs"]
    validator = Draft202012Validator({"$ref": f"#/$defs/{union}", "$defs": definitions})
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    recorded = [line["frame"] for line in lines if line["dir"] == direction]
    # The recording has commands that are wrong on purpose: what they lack, the schema asks for.
    wrong = [frame for frame in recorded if not validator.is_valid(frame)]
    assert len(recorded) - len(wrong) > 5
    for frame in wrong:
        assert direction == "client->server"
        assert not isinstance(frame, dict) or (
            not frame.get("content") and "messageId" not in frame
        )


def asyncapi_check(document: Any, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """What AsyncAPI's own parser says of a document."""
    path = tmp_path / "asyncapi.json"
    path.write_text(json.dumps(document))
    node = shutil.which("node")
    assert node, "the tests need Node.js"
    return subprocess.run([node, CHECKER, path], capture_output=True, text=True, timeout=60)


def test_asyncapis_own_parser_finds_nothing_and_sees_every_frame(tmp_path: Path) -> None:
    definitions = frames()["$defs"]
    checked = asyncapi_check(json.loads(FILES[schema.ASYNCAPI]), tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    unions = ("ClientFrame", "ServerFrame", "BaseClientFrame", "BaseServerFrame")
    members = [member["$ref"] for union in unions for member in definitions[union]["oneOf"]]
    assert sorted(checked.stdout.split()) == sorted(ref.rsplit("/", 1)[-1] for ref in members)


def test_the_check_of_the_asyncapi_document_sees_what_is_wrong(tmp_path: Path) -> None:
    document = json.loads(FILES[schema.ASYNCAPI])
    document["operations"]["session.v1.tell"]["messages"].append({"$ref": "#/channels/nowhere"})
    checked = asyncapi_check(document, tmp_path)
    assert checked.returncode == 1
    assert "nowhere" in checked.stderr


def test_the_asyncapi_documents_schemas_are_the_frames_schemas() -> None:
    document = json.loads(FILES[schema.ASYNCAPI])
    schemas = document["components"]["schemas"]
    Draft202012Validator.check_schema({"$defs": schemas})
    definitions = frames()["$defs"]
    for name, held in schemas.items():
        assert held.get("required") == definitions[name].get("required"), name
        assert list(held.get("properties", {})) == list(definitions[name].get("properties", {}))
