from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import TIME_INDEX_ENTRY
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.time_index import TimeIndex


def open_index(directory: Path, max_size_bytes: int = 1000) -> TimeIndex:
    return TimeIndex(RealFileSystem(), str(directory / "i.timeindex"), 100, max_size_bytes)


def test_only_growing_timestamps_are_entered(tmp_path: Path) -> None:
    index = open_index(tmp_path)

    index.maybe_append(50, 103)
    index.maybe_append(50, 105)
    index.maybe_append(60, 107)
    index.close()

    data = (tmp_path / "i.timeindex").read_bytes()
    assert list(TIME_INDEX_ENTRY.iter_unpack(data)) == [(50, 3), (60, 7)]


def test_lookup_finds_the_last_entry_not_after_the_timestamp(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    index.maybe_append(50, 103)
    index.maybe_append(60, 107)

    assert [index.lookup(at) for at in (49, 50, 59, 60)] == [
        (-1, 100),
        (50, 103),
        (50, 103),
        (60, 107),
    ]


def test_the_last_place_is_kept_for_the_roll(tmp_path: Path) -> None:
    index = open_index(tmp_path, max_size_bytes=24)
    index.maybe_append(50, 103)
    assert index.is_full

    index.maybe_append(60, 107, closing=True)

    assert index.last_entry == (60, 107)


def test_truncation_goes_by_offset(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    index.maybe_append(50, 103)
    index.maybe_append(60, 107)

    index.truncate_to(107)

    assert index.last_entry == (50, 103)


@pytest.mark.parametrize(
    "content",
    [
        TIME_INDEX_ENTRY.pack(60, 3) + TIME_INDEX_ENTRY.pack(50, 7),
        TIME_INDEX_ENTRY.pack(60, -3),
        b"12345",
    ],
)
def test_a_spoiled_file_is_corrupt(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "i.timeindex").write_bytes(content)

    with pytest.raises(CorruptIndexError):
        open_index(tmp_path).sanity_check()
