"""How far one read goes, and what it tells of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log, read_values

LOG_END = FetchIsolation.LOG_END
HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
SIZE = len(batch(b"v"))


def fill(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(batch(b"v"), 0, NOW_MS)


def reopened_after(directory: Path, count: int) -> Log:
    """A log that was stopped cleanly with `count` batches in its only segment."""
    log = open_log(directory)
    fill(log, count)
    log.close()
    return open_log(directory, recovery_point=count)


def test_a_read_goes_on_from_what_was_found_to_what_was_appended_since(tmp_path: Path) -> None:
    log = reopened_after(tmp_path, 3)
    log.append_as_leader(batch(b"new"), 0, NOW_MS)

    read = log.read(0, 1 << 20, LOG_END).records.read()

    assert read_values(read) == [b"v", b"v", b"v", b"new"]


@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("limit", [SIZE, 2 * SIZE, 3 * SIZE + 10, 100 * SIZE])
def test_a_read_ends_at_its_limit_wherever_the_log_was_reopened(
    tmp_path: Path, offset: int, limit: int
) -> None:
    log = reopened_after(tmp_path, 3)
    fill(log, 3)

    assert len(log.read(offset, limit, LOG_END).records) == min(limit, (6 - offset) * SIZE)


def test_damage_behind_it_ends_a_read_before_what_was_appended_since(tmp_path: Path) -> None:
    reopened_after(tmp_path, 3).close()
    path = tmp_path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    log = open_log(tmp_path, recovery_point=3)
    fill(log, 1)

    assert len(log.read(0, 1 << 20, LOG_END).records) == 2 * SIZE
    assert len(log.read(3, 1 << 20, LOG_END).records) == SIZE


@pytest.mark.parametrize("limit", [1, SIZE, 1 << 20])
def test_a_read_tells_what_there_is_whatever_its_limit(tmp_path: Path, limit: int) -> None:
    log = open_log(tmp_path)
    fill(log, 5)
    log.update_high_watermark(4)

    to_the_end = log.read(1, limit, LOG_END, True)
    committed = log.read(1, limit, HIGH_WATERMARK, True)

    assert (to_the_end.available_bytes, committed.available_bytes) == (4 * SIZE, 3 * SIZE)
    assert not to_the_end.on_older_segment


def test_a_read_at_the_end_tells_of_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 1)

    read = log.read(1, 1 << 20, LOG_END)

    assert (read.available_bytes, read.on_older_segment) == (0, False)


@pytest.mark.parametrize(
    ("high_watermark", "offset", "is_older"),
    [(6, 0, True), (6, 1, True), (6, 3, True), (6, 4, False), (3, 0, True), (3, 2, False)],
)
def test_a_read_tells_that_a_later_segment_has_more(
    tmp_path: Path, high_watermark: int, offset: int, is_older: bool
) -> None:
    log = open_log(tmp_path, segment_bytes=2 * SIZE)
    fill(log, 6)
    log.update_high_watermark(high_watermark)

    assert log.read(offset, 1 << 20, HIGH_WATERMARK).on_older_segment == is_older
