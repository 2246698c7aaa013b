from __future__ import annotations

import pytest

from kbroker.inspection.timestamp_check import AHEAD_MS, BEHIND_MS, TimestampCheck
from kbroker.record.record_batch import (
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    read_header,
)
from tests.unit.inspection.test_segment_scan import batch

NOW_MS = 1_700_000_000_000


def header(base: int, newest: int | None = None, attributes: int = 0) -> BatchHeader:
    newest = base if newest is None else newest
    return read_header(batch(0))._replace(
        base_timestamp=base, max_timestamp=newest, attributes=attributes
    )


def codes(*headers: BatchHeader, now_ms: int | None = NOW_MS) -> list[str]:
    check = TimestampCheck(now_ms)
    found = [None if check.is_plain(each) else check.batch(each) for each in headers]
    return [problem.code for problem in found if problem is not None]


@pytest.mark.parametrize(
    "headers",
    [
        [header(-1), header(-1)],
        [header(0), header(NOW_MS), header(NOW_MS - 5), header(NOW_MS + AHEAD_MS)],
        [header(NOW_MS, NOW_MS - 9, TIMESTAMP_TYPE_BIT)],
        [header(NOW_MS, NOW_MS - 9, DELETE_HORIZON_BIT)],
        [header(NOW_MS), header(-1)],
        [header(NOW_MS), header(NOW_MS - BEHIND_MS)],
    ],
    ids=["none", "rising", "stamped", "horizon", "one without", "late"],
)
def test_what_can_be_is_no_problem(headers: list[BatchHeader]) -> None:
    assert codes(*headers) == []


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([header(-7)], "timestamp-negative"),
        ([header(NOW_MS + AHEAD_MS + 1)], "timestamp-future"),
        ([header(NOW_MS, NOW_MS - 1)], "timestamp-order"),
        ([header(NOW_MS), header(NOW_MS - BEHIND_MS - 1)], "timestamp-behind"),
    ],
)
def test_what_cannot_be_is_told(headers: list[BatchHeader], code: str) -> None:
    assert codes(*headers) == [code]


def test_a_time_in_the_future_makes_nothing_else_late() -> None:
    assert codes(header(NOW_MS), header(NOW_MS * 2), header(NOW_MS)) == ["timestamp-future"]


def test_without_a_clock_nothing_is_in_the_future() -> None:
    assert codes(header(NOW_MS * 2), now_ms=None) == []
