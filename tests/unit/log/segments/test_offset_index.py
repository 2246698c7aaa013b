from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFile, RealFileSystem
from kbroker.log.disk.format import OFFSET_INDEX_ENTRY
from kbroker.log.segments.index_file import CorruptIndexError, floor_slot
from kbroker.log.segments.offset_index import OffsetIndex

LITERAL = bytes.fromhex("00000002 00000010  00000005 00000020  00000009 00000030")


def open_index(directory: Path, max_size_bytes: int = 100_000) -> OffsetIndex:
    return OffsetIndex(RealFileSystem(), str(directory / "i.index"), 100, max_size_bytes)


@pytest.mark.parametrize(("target", "slot"), [(1, -1), (2, 0), (4, 0), (5, 1), (9, 2), (99, 2)])
def test_search_finds_the_last_entry_not_after_the_target(target: int, slot: int) -> None:
    assert floor_slot(memoryview(LITERAL), OFFSET_INDEX_ENTRY, 3, 0, target) == slot


def test_lookup_below_the_first_entry_gives_the_start(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    index.append(105, 50)

    assert index.lookup(104) == (100, 0)
    assert index.lookup(105) == (105, 50)


def test_entries_old_and_new_are_found(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    for number in range(3000):
        index.append(101 + 2 * number, number)

    found = [index.lookup(102 + 2 * number) for number in range(0, 3000, 7)]

    assert found == [(101 + 2 * number, number) for number in range(0, 3000, 7)]
    assert index.entry_count == 3000


class CountingFileSystem(RealFileSystem):
    """Files of the disk, and how often one was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        self.opened += 1
        return super().open(path, create=create, read_only=read_only)


def test_searches_that_jump_between_pages_read_each_of_them_once(tmp_path: Path) -> None:
    files = CountingFileSystem()
    index = OffsetIndex(files, str(tmp_path / "i.index"), 100, 100_000)
    for number in range(5000):
        index.append(101 + number, number)
    index.lookup(151)  # and learn where pages begin
    before = files.opened

    for offset in (151, 1151, 2151, 152, 1152, 2152, 153):
        assert index.lookup(offset) == (offset, offset - 101)
    assert files.opened - before == 2

    index.truncate_to(2000)
    for number in range(4000):
        index.append(2000 + number, 9000 + number)
    assert index.lookup(2151) == (2151, 9151)


def test_a_closed_index_holds_its_entries_and_nothing_else(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    index.preallocate()
    for relative_offset, position in OFFSET_INDEX_ENTRY.iter_unpack(LITERAL):
        index.append(100 + relative_offset, position)
    assert (tmp_path / "i.index").stat().st_size == 100_000

    index.close()

    assert (tmp_path / "i.index").read_bytes() == LITERAL
    assert open_index(tmp_path).lookup(106) == (105, 32)


@pytest.mark.parametrize(("offset", "kept"), [(102, 0), (103, 1), (109, 2), (110, 3)])
def test_truncation_drops_the_offset_and_all_after(offset: int, kept: int, tmp_path: Path) -> None:
    (tmp_path / "i.index").write_bytes(LITERAL)
    index = open_index(tmp_path)

    index.truncate_to(offset)

    assert index.entry_count == kept
    assert (tmp_path / "i.index").stat().st_size == 8 * kept


def test_after_a_truncation_entries_go_where_the_old_ones_were(tmp_path: Path) -> None:
    (tmp_path / "i.index").write_bytes(LITERAL)
    index = open_index(tmp_path)
    index.truncate_to(105)

    index.append(107, 64)
    index.close()

    assert (tmp_path / "i.index").read_bytes() == LITERAL[:8] + OFFSET_INDEX_ENTRY.pack(7, 64)


def test_an_index_is_full_when_no_entry_fits(tmp_path: Path) -> None:
    index = open_index(tmp_path, max_size_bytes=17)
    index.append(101, 0)
    assert not index.is_full

    index.append(102, 1)

    assert index.is_full


def test_offsets_must_rise(tmp_path: Path) -> None:
    index = open_index(tmp_path)
    index.append(105, 0)

    with pytest.raises(AssertionError):
        index.append(105, 9)


@pytest.mark.parametrize("content", [b"\xff" * 16, b"1234567"])
def test_a_spoiled_file_is_corrupt(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "i.index").write_bytes(content)

    with pytest.raises(CorruptIndexError):
        open_index(tmp_path).sanity_check()
