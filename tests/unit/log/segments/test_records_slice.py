"""Slices on their way to a socket: the bytes they were made for, or a clean failure."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import LogAppendInfo
from kbroker.log.segments.file_records import RecordsSlice
from tests.fakes.disks.descriptors import DESCRIPTORS, open_files_below
from tests.fakes.logs.log_maker import (
    NOW_MS,
    batch,
    delete_old_segments,
    open_log,
    remove_deleted_files,
)

has_proc = pytest.mark.skipif(not DESCRIPTORS.exists(), reason="counts descriptors in /proc")


def append(log: Log, value: bytes) -> LogAppendInfo:
    info = log.append_as_leader(batch(value * 1000), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return info


def two_segments(directory: Path) -> tuple[Log, RecordsSlice, bytes]:
    """A log, a slice of its first segment and the bytes of the slice."""
    log = open_log(directory)
    append(log, b"a")
    append(log, b"b")
    log.roll(NOW_MS)
    append(log, b"c")
    records = log.read(0, 10_000).records
    return log, records, records.read()


def sent(records: RecordsSlice) -> bytes:
    """Return what `sendfile` takes from the slice."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.sendfile(ours.fileno(), records.fileno(), records.position, len(records))
        return theirs.recv(len(records))


@contextmanager
def taken_over(descriptor: int) -> Iterator[None]:
    """Give the number to another file, as the system does with one that was closed."""
    try:
        os.fstat(descriptor)
    except OSError:
        with TemporaryFile() as other:
            other.write(b"x" * 10_000)
            other.flush()
            os.dup2(other.fileno(), descriptor)
        yield
        os.close(descriptor)
    else:
        yield


def roll(log: Log) -> None:
    log.roll(NOW_MS)


def rename_first_segment(log: Log) -> None:
    log.maybe_increment_log_start_offset(2)
    assert delete_old_segments(log, NOW_MS) == 1


def rename_directory(log: Log) -> None:
    target = log.directory + "-delete"
    Path(log.directory).rename(target)
    log.move_to(target)


def rename_both(log: Log) -> None:
    rename_first_segment(log)
    rename_directory(log)


@pytest.mark.parametrize(
    "change", [roll, Log.close, rename_first_segment, rename_directory, rename_both]
)
def test_a_slice_outlives_what_does_not_remove_its_file(
    change: Callable[[Log], None], tmp_path: Path
) -> None:
    log, records, content = two_segments(tmp_path / "t-0")
    old_descriptor = records.fileno()

    change(log)
    with taken_over(old_descriptor):
        assert sent(records) == content
        assert records.read() == content


def remove_files(log: Log) -> None:
    rename_first_segment(log)
    assert remove_deleted_files(log, NOW_MS + 100_000) == 1


def start_again_at_the_same_offset(log: Log) -> None:
    log.truncate_fully_and_start_at(0)
    append(log, b"x")


def cut_and_append(log: Log) -> None:
    log.truncate_to(1)
    append(log, b"x")


def make_the_topic_again(log: Log) -> None:
    directory = Path(log.directory)
    rename_both(log)
    RealFileSystem().remove_tree(log.directory)
    again = open_log(directory)
    append(again, b"x")
    append(again, b"y")
    again.roll(NOW_MS)
    rename_first_segment(again)


@pytest.mark.parametrize(
    "change", [remove_files, start_again_at_the_same_offset, cut_and_append, make_the_topic_again]
)
def test_a_slice_fails_once_its_bytes_are_gone(
    change: Callable[[Log], None], tmp_path: Path
) -> None:
    log, records, _ = two_segments(tmp_path / "t-0")

    change(log)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(OSError, match=r"read|open"):
        records.fileno()
    with pytest.raises(StorageError):
        records.read()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_ends_early_is_not_read_as_if_it_were_whole(tmp_path: Path) -> None:
    _log, records, _ = two_segments(tmp_path / "t-0")
    os.truncate(records.records.path, len(records) - 1)

    with pytest.raises(StorageError, match="ends before"):
        records.read()


@has_proc
def test_two_hundred_logs_leave_no_descriptor_behind(tmp_path: Path) -> None:
    logs = [open_log(tmp_path / f"t-{number}") for number in range(200)]
    assert open_files_below(tmp_path) == 0

    for log in logs:
        append(log, b"a")
        log.roll(NOW_MS)
        append(log, b"b")
        log.read(0, 10_000).records.read()
        log.maybe_increment_log_start_offset(1)
        delete_old_segments(log, NOW_MS)
    late = [log.read(1, 10_000).records for log in logs]
    for log in logs[:100]:
        log.close()
    for log in logs[100:]:
        log.move_to(log.directory)
    assert open_files_below(tmp_path) == 0

    assert {records.read()[61:].count(b"b") for records in late} == {1000}
    del late, logs, log
    gc.collect()
    assert open_files_below(tmp_path) == 0
