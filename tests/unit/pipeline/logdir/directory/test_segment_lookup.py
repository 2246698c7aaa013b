from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.fakes.logs.log_maker import NOW_MS

SIZE = 70  # of each batch below


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """40 batches of one record, an index entry for every third or so."""
    with written(tmp_path, index_interval_bytes=200) as directory:
        for _ in range(40):
            directory.append(b"v", timestamp=NOW_MS)
    return tmp_path


def lookup(path: Path) -> SegmentLookup:
    return SegmentLookup(RealFileSystem(), str(path / "t-0"), 0)


def index_file(path: Path, suffix: str = ".index") -> Path:
    return path / "t-0" / f"{0:020d}{suffix}"


def test_no_record_at_or_behind_an_offset_lies_before_its_floor(path: Path) -> None:
    found = lookup(path)
    floors = [found.floor(offset) for offset in range(40)]

    assert all(floor <= offset * SIZE and floor % SIZE == 0 for offset, floor in enumerate(floors))
    assert len(set(floors)) > 10


def test_the_end_of_an_offset_is_behind_the_batch_before_it(path: Path) -> None:
    found = lookup(path)

    assert [found.end_position(end) for end in range(1, 41)] == [SIZE * n for n in range(1, 41)]


def test_a_log_that_breaks_off_before_the_offset_ends_with_its_file(path: Path) -> None:
    log = path / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-5])

    assert lookup(path).end_position(39) == 39 * SIZE
    assert lookup(path).end_position(40) == 40 * SIZE - 5


def test_a_batch_that_is_torn_behind_the_offset_is_not_part_of_it(path: Path) -> None:
    log = path / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + b"\0\0")

    assert lookup(path).end_position(40) == 40 * SIZE


@pytest.mark.parametrize("zeros", [8, 800, 64 * 1024, 10 * 1024 * 1024])
def test_zeros_behind_the_entries_are_no_entries(path: Path, zeros: int) -> None:
    before = [lookup(path).floor(offset) for offset in range(40)]
    with index_file(path).open("ab") as file:
        file.write(bytes(zeros))

    assert [lookup(path).floor(offset) for offset in range(40)] == before


def test_an_entry_that_leads_elsewhere_is_not_followed(path: Path) -> None:
    index_file(path).write_bytes(OFFSET_INDEX_ENTRY.pack(20, 20 * SIZE + 1))

    assert lookup(path).floor(30) == 0
    assert list(lookup(path).cuts(0, 40 * SIZE, SIZE)) == []


def test_cuts_are_where_batches_begin_about_so_far_apart(path: Path) -> None:
    cuts = list(lookup(path).cuts(0, 40 * SIZE, 10 * SIZE))

    assert [cut.position for cut in cuts] == [cut.offset * SIZE for cut in cuts]
    assert 2 <= len(cuts) <= 4


def test_the_largest_time_is_that_of_the_last_entry_if_its_batch_says_so(path: Path) -> None:
    assert lookup(path).largest_timestamp() == NOW_MS

    index_file(path, ".timeindex").write_bytes(TIME_INDEX_ENTRY.pack(NOW_MS - 5, 0))
    assert lookup(path).largest_timestamp() is None
    index_file(path, ".timeindex").write_bytes(b"")
    assert lookup(path).largest_timestamp() is None


def test_the_index_that_a_running_broker_keeps_in_memory_is_done_without(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, index_interval_bytes=200)
    for _ in range(40):
        directory.append(b"v")

    found = lookup(tmp_path).end_position(33)
    directory.kill()

    assert found == 33 * SIZE
