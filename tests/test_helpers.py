"""What a helper asserts says what it compared when it fails, as a test's own assertion does."""

from __future__ import annotations

import pytest
from whole import told_once


def test_an_assertion_of_a_helper_that_fails_shows_what_it_compared() -> None:
    with pytest.raises(AssertionError, match=r"assert \[1, 3\] == \[1, 2\]"):
        told_once([{"eventSeq": 1}, {"eventSeq": 3}])
