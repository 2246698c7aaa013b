"""The time of a record of a batch, as consumers are told it."""

from __future__ import annotations

import pytest

from kbroker.pipeline.archiving.evidence.same_source import time_at
from kbroker.record.default_record import Record
from kbroker.record.record_batch import (
    BatchOptions,
    ControlRecord,
    assign_log_append_time,
    build,
    build_marker,
    read_header,
)

MS = 1_795_300_000_000
RECORDS = [Record(at, MS + at, None, b"v") for at in (5, 6, 8)]


@pytest.mark.parametrize(("offset", "at_ms"), [(5, MS + 5), (7, None), (8, MS + 8), (9, None)])
def test_a_record_has_its_own_time_and_a_hole_has_none(offset: int, at_ms: int | None) -> None:
    batch = build(RECORDS, base_offset=5, options=BatchOptions(last_offset=8))

    assert time_at(read_header(batch), batch, offset) == at_ms


def test_the_time_of_the_append_counts_for_all_records() -> None:
    batch = bytearray(build(RECORDS, base_offset=5, options=BatchOptions(last_offset=8)))
    assign_log_append_time(read_header(batch), batch, 0, MS + 99)

    assert time_at(read_header(batch), bytes(batch), 6) == MS + 99


def test_markers_and_batches_that_cannot_be_read_have_no_time() -> None:
    marker = build_marker(ControlRecord(True, 0), MS, base_offset=4, options=BatchOptions())
    batch = build(RECORDS, base_offset=5, options=BatchOptions(last_offset=8))
    damaged = batch[:61] + b"\xff" * (len(batch) - 61)

    assert time_at(read_header(marker), marker, 4) is None
    assert time_at(read_header(batch), damaged, 6) is None
