from __future__ import annotations

import pytest

from kbroker.inspection.index_check import OffsetIndexCheck, TimeIndexCheck, used_entries
from kbroker.inspection.segment_scan import ScannedBatch
from kbroker.log.disk.format import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kbroker.record.record_batch import read_header
from tests.unit.inspection.test_segment_scan import batch

BASE = 100
# Batches of two records at positions 0, 100, 200 ...: 100-101, 102-103, 104-105, 106-107
TIMES = (1000, 3000, 2000, 4000)


def walk() -> list[ScannedBatch]:
    found = []
    for index, timestamp in enumerate(TIMES):
        header = read_header(batch(BASE + 2 * index, 2, max_timestamp=timestamp))
        found.append(ScannedBatch(100 * index, header, True))
    return found


def offset_problems(*entries: tuple[int, int], tail: bytes = b"") -> list[str]:
    data = b"".join(OFFSET_INDEX_ENTRY.pack(*entry) for entry in entries) + tail
    check = OffsetIndexCheck(data, BASE)
    found = []
    last_offset = -1
    for scanned in walk():
        found += check.batch(scanned, last_offset)
        last_offset = scanned.header.last_offset
    found += check.end(400, last_offset)
    return [problem.code for problem in found]


def time_problems(*entries: tuple[int, int], is_closed: bool = False) -> list[str]:
    data = b"".join(TIME_INDEX_ENTRY.pack(*entry) for entry in entries)
    check = TimeIndexCheck(data, BASE)
    found = [problem for scanned in walk() for problem in check.batch(scanned)]
    found += check.end(107, is_closed=is_closed)
    return [problem.code for problem in found]


@pytest.mark.parametrize(
    "entries",
    [
        (),
        ((3, 100),),
        ((3, 100), (7, 300)),
        ((5, 100), (7, 300)),  # a follower appended two batches at once
        ((7, 100),),
    ],
)
def test_entries_that_appends_write_are_fine(entries) -> None:
    assert offset_problems(*entries) == []
    assert offset_problems(*entries, tail=b"\0" * 80) == []


@pytest.mark.parametrize(
    ("entries", "codes"),
    [
        (((3, 101),), ["index-entry"]),  # points into a batch
        (((3, 200),), ["index-entry"]),  # look-ups for 103 pass over its batch
        (((2, 100),), ["index-entry"]),  # no last offset of any batch
        (((9, 100),), ["index-beyond"]),
        (((9, 500),), ["index-beyond"]),
        (((7, 300), (3, 100)), ["index-order", "index-entry"]),
        (((-1, -1),), ["index-order", "index-entry"]),
    ],
)
def test_entries_that_mislead_are_found(entries, codes: list[str]) -> None:
    assert offset_problems(*entries) == codes


@pytest.mark.parametrize(
    "entries", [(), ((1000, 1),), ((1000, 1), (3000, 3)), ((3000, 3), (4000, 7)), ((3000, 2),)]
)
def test_times_that_appends_write_are_fine(entries) -> None:
    assert time_problems(*entries) == []


@pytest.mark.parametrize(
    ("entries", "codes"),
    [
        (((2999, 3),), ["timeindex-entry"]),  # a look-up for 3000 would begin after it
        (((3001, 3),), ["timeindex-entry"]),
        (((2000, 5),), ["timeindex-entry"]),  # 3000 came before
        (((4000, 9),), ["timeindex-beyond"]),
        (((3000, 3), (1000, 1)), ["timeindex-order"]),
    ],
)
def test_times_that_mislead_are_found(entries, codes: list[str]) -> None:
    assert time_problems(*entries) == codes


def test_the_index_of_a_closed_segment_names_its_newest_time() -> None:
    assert time_problems((3000, 3), is_closed=True) == ["timeindex-short"]
    assert time_problems((3000, 3), (4000, 7), is_closed=True) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"\0" * 64, 0),
        (OFFSET_INDEX_ENTRY.pack(1, 256) + b"\0" * 64, 1),
        (OFFSET_INDEX_ENTRY.pack(256, 0) + b"\0" * 64, 1),
        (OFFSET_INDEX_ENTRY.pack(1, 2) + b"\0" * 3, 1),
    ],
)
def test_zeros_at_the_end_are_no_entries(data: bytes, expected: int) -> None:
    assert used_entries(data, OFFSET_INDEX_ENTRY) == expected
