from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.log.partition.segment_roll import RollParams, should_roll
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.segment_files import SegmentConfig
from kbroker.record.record_batch import Record, build


def open_segment(directory: Path) -> LogSegment:
    config = SegmentConfig(index_interval_bytes=100, segment_index_bytes=120)
    segment = LogSegment(RealFileSystem(), str(directory), 0, config, created_ms=0)
    segment.activate()
    return segment


def append(segment: LogSegment, offset: int, timestamp: int) -> None:
    batch = build([Record(offset, timestamp, None, b"x" * 50)], base_offset=offset)
    segment.append(offset, timestamp, offset, batch)


def roll(**changes: int) -> RollParams:
    calm = RollParams(
        max_segment_ms=1000,
        max_segment_bytes=10_000,
        max_timestamp=500,
        max_offset=10,
        size_bytes=100,
        now_ms=500,
    )
    return calm._replace(**changes)


def test_a_young_small_segment_does_not_roll(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 0)

    assert not should_roll(segment, roll())


@pytest.mark.parametrize(
    "change",
    [
        {"size_bytes": 9_999},
        {"max_timestamp": 1001},
        {"max_offset": MAX_RELATIVE_OFFSET + 1},
        {"max_offset": -1},
    ],
    ids=str,
)
def test_a_segment_rolls_for_size_age_and_far_offsets(
    change: dict[str, int], tmp_path: Path
) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 0)

    assert should_roll(segment, roll(**change))


def test_jitter_brings_the_roll_forward(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, 0)

    segment.roll_jitter_ms = 501

    assert should_roll(segment, roll())


def test_without_timestamps_the_age_counts_from_the_creation(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    append(segment, 0, -1)

    assert not should_roll(segment, roll(max_timestamp=5_000, now_ms=1000))
    assert should_roll(segment, roll(now_ms=1001))


def test_an_empty_segment_does_not_roll_for_its_age(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)

    assert not should_roll(segment, roll(now_ms=99_999))


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    segment = open_segment(tmp_path)
    offset = 0
    while not segment.offset_index.is_full and not segment.time_index.is_full:
        append(segment, offset, offset)
        offset += 1

    assert should_roll(segment, roll(max_segment_bytes=1_000_000))
