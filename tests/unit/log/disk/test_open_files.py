from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFile, RealFileSystem, StorageError
from kbroker.log.disk.open_files import OpenFiles, open_files_of
from kbroker.log.segments.file_records import FileRecords
from tests.fakes.disks.descriptors import open_files_below


def made(disk: RealFileSystem, directory: Path, count: int) -> list[FileRecords]:
    files = [FileRecords(disk, f"{directory}/{number}.log") for number in range(count)]
    for number, records in enumerate(files):
        records.append(b"%06d" % number)
    return files


def test_no_more_files_than_allowed_are_open_and_all_can_be_used(tmp_path: Path) -> None:
    disk = RealFileSystem()
    open_files_of(disk).limit = 10

    files = made(disk, tmp_path, 300)

    assert open_files_below(tmp_path) == 10
    for number, records in enumerate(files):
        assert records.read(0, 6) == b"%06d" % number
        records.append(b"more")
    assert open_files_below(tmp_path) == 10
    assert [records.read(6, 9) for records in files] == [b"more"] * 300


def test_the_file_opened_longest_ago_goes_first(tmp_path: Path) -> None:
    disk = RealFileSystem()
    open_files_of(disk).limit = 2
    first, second, third = made(disk, tmp_path, 3)
    numbers = second.fileno(), third.fileno()

    assert (second.fileno(), third.fileno()) == numbers
    first.read(0, 1)

    assert third.fileno() == numbers[1]


def test_closed_files_do_not_count(tmp_path: Path) -> None:
    disk = RealFileSystem()
    files = made(disk, tmp_path, 5)

    for records in files:
        records.close()

    assert len(open_files_of(disk)) == 0


def test_a_dropped_log_does_not_keep_its_file(tmp_path: Path) -> None:
    disk = RealFileSystem()
    made(disk, tmp_path, 5)

    assert len(open_files_of(disk)) == 0
    assert open_files_below(tmp_path) == 0


def test_a_read_on_another_thread_keeps_the_descriptor_until_it_is_done(tmp_path: Path) -> None:
    disk = RealFileSystem()
    (records,) = made(disk, tmp_path, 1)
    in_use = records.create()

    records.let_go()

    assert in_use.pread(6, 0) == b"000000"


def test_where_no_descriptor_is_free_half_of_the_files_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealFileSystem()
    made_files = made(disk, tmp_path, 8)
    real_open = RealFileSystem.open

    def limited(self: RealFileSystem, path: str, **options: bool) -> RealFile:
        if len(open_files_of(self)) >= 8:
            raise StorageError(path, "open", errno.EMFILE)
        return real_open(self, path, **options)

    monkeypatch.setattr(RealFileSystem, "open", limited)

    made_files.append(FileRecords(disk, f"{tmp_path}/one-more.log"))
    made_files[-1].append(b"x")

    assert len(open_files_of(disk)) == 5


def test_a_file_that_was_let_go_of_is_still_trimmed(tmp_path: Path) -> None:
    disk = RealFileSystem()
    (records,) = made(disk, tmp_path, 1)
    records.preallocate(1_000)
    records.let_go()

    records.trim()

    assert (tmp_path / "0.log").stat().st_size == 6


class Holder:
    def let_go(self) -> None:
        pass


@pytest.fixture
def busy_threads() -> Iterator[ThreadPoolExecutor]:
    """Four threads that interrupt each other as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as threads:
        yield threads
    sys.setswitchinterval(before)


def test_threads_that_open_files_at_once_let_go_of_others_in_peace(
    busy_threads: ThreadPoolExecutor,
) -> None:
    open_files = OpenFiles(limit=1)
    holders = [Holder() for _ in range(25_000)]

    for _ in busy_threads.map(open_files.opened, holders):
        pass

    assert len(open_files) <= 1  # two at once may each let go of one
