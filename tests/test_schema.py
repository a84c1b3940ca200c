"""The contracts as files are what the code says; the frames' schema holds for real frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from turnback import schema

ROOT = Path(__file__).parents[1]
FILES = schema.files()


@pytest.mark.parametrize("path", sorted(FILES), ids=str)
def test_a_committed_contract_is_what_the_code_says(path: Path) -> None:
    committed = (ROOT / path).read_bytes() if (ROOT / path).exists() else b""
    assert committed == FILES[path], "run `turnback schema .`"


def test_the_frames_schema_is_a_schema_and_its_tags_are_required() -> None:
    frames = schema.frames()
    Draft202012Validator.check_schema(frames)
    for name, definition in frames["$defs"].items():
        if name.startswith("Ws"):
            assert "type" in definition["required"], name


def test_what_is_written_is_the_same_every_time(tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path): path.read_bytes() for path in schema.write(tmp_path)}
    assert written == FILES
