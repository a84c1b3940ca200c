"""Settings out of their bounds: refused when the service starts, not found out in the middle."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from turnback import settings_table
from turnback.settings import Settings


@pytest.mark.parametrize("value", [0, -1, "nan", "inf", "-inf", 1e300])
def test_a_time_is_some_seconds_that_a_clock_can_count(value: object) -> None:
    for name in ("drain_timeout", "request_ttl", "db_statement_timeout", "poll_interval"):
        with pytest.raises(ValidationError, match=name):
            Settings.model_validate({name: value})


@pytest.mark.case(31)
@pytest.mark.parametrize("value", [0, -1, 2**31, 10**30, "many"])
def test_a_limit_is_a_number_that_the_database_takes(value: object) -> None:
    for name in (
        "max_steps",
        "max_redo_depth",
        "events_kept",
        "events_kept_days",
        "max_json_depth",
    ):
        with pytest.raises(ValidationError, match=name):
            Settings.model_validate({name: value})


def test_a_log_level_is_one_of_four_in_any_case() -> None:
    assert Settings.model_validate({"log_level": "WARNING"}).log_level == "warning"
    with pytest.raises(ValidationError, match="log_level"):
        Settings.model_validate({"log_level": "loud"})


def test_a_lease_outlives_the_heartbeats_that_keep_it() -> None:
    with pytest.raises(ValidationError, match="TURNBACK_LEASE_HEARTBEAT"):
        Settings(lease_heartbeat=5.0, lease_expiry=5.0)
    assert Settings(lease_heartbeat=1.0, lease_expiry=1.5).lease_expiry == 1.5


def test_each_setting_says_what_it_is() -> None:
    for name, field in Settings.model_fields.items():
        assert (field.description or "").endswith("."), name


def test_the_table_has_a_row_for_each_setting_with_its_default_and_unit() -> None:
    rows = [line for line in settings_table.render().splitlines() if line.startswith("| `")]
    assert len(rows) == len(Settings.model_fields)
    assert rows[0].startswith("| `TURNBACK_HOST` | `127.0.0.1` |  | ")
    (timeout,) = (row for row in rows if "TURNBACK_LEASE_EXPIRY" in row)
    assert timeout.startswith("| `TURNBACK_LEASE_EXPIRY` | `15` | s | ")
    for name, field in Settings.model_fields.items():
        if name.endswith(("_timeout", "_interval", "_ttl")):
            assert "s" in field.metadata, f"`{name}` is a time: give it the type `Seconds`"
