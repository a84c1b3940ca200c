"""The same members have the same names: in frames camelCase, in REST snake_case."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel

from turnback.api import members
from turnback.api.rest import records
from turnback.api.rest.answer import snake
from turnback.api.rest.settings import RunSettingsBody


@pytest.mark.parametrize(
    ("body", "frame", "other_words"),
    [
        (records.ToolCallBody, members.ToolCallFrame, {}),
        (records.ToolResultBody, members.ToolResultFrame, {}),
        (records.UsageBody, members.UsageFrame, {}),
        (records.AttachedBody, members.AttachedFrame, {}),
        (records.RecordBody, members.StepFrame, {"messageId": "turn_id", "stepId": "record_index"}),
        (RunSettingsBody, members.RunSettingsFrame, {}),
    ],
)
def test_what_a_frame_says_in_camel_case_rest_says_in_snake_case(
    body: type[BaseModel], frame: type[BaseModel], other_words: dict[str, str]
) -> None:
    said = {
        other_words.get(name) or next(iter(snake({name: {}}))): str(field.annotation)
        for name, field in frame.model_fields.items()
    }
    bodies = {name: str(field.annotation) for name, field in body.model_fields.items()}
    of_members = re.compile(r"turnback\.api\.members\.(\w+)Frame")
    for name, annotation in said.items():
        assert of_members.sub(r"turnback.api.rest.records.\1Body", annotation) == bodies[name]
    assert bodies.keys() - said.keys() <= {"session_id", "seq"}
