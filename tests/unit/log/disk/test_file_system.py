"""What a log may expect of a disk, held of the real one and of the doubles that stand in for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.disks.recording_file_system import RecordingFileSystem

Disk = tuple[FileSystem, str]


@pytest.fixture(params=["real", "memory", "recording", "failing", "failing real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """A file system, and a directory in it."""
    kind = request.param
    if kind == "real":
        return RealFileSystem(), str(tmp_path)
    if kind == "failing real":
        return FailingFileSystem(RealFileSystem()), str(tmp_path)
    files: FileSystem = RecordingFileSystem() if kind == "recording" else MemoryFileSystem()
    files.make_directory("/data")
    return FailingFileSystem(files) if kind == "failing" else files, "/data"


def test_written_bytes_are_read_back_from_their_position(disk: Disk) -> None:
    files, directory = disk
    file = files.open(f"{directory}/f", create=True)

    file.pwrite(memoryview(b"hello"), 3)

    assert (file.size(), file.pread(5, 3), file.pread(100, 6)) == (8, b"hello", b"lo")
    assert (file.pread(3, 0), file.pread(3, 8), file.pread(3, 100)) == (b"\0\0\0", b"", b"")
    file.sync()
    file.close()
    file.close()


def test_an_overwritten_stretch_holds_the_new_bytes(disk: Disk) -> None:
    files, directory = disk
    file = files.open(f"{directory}/f", create=True)
    file.pwrite(b"a long text", 0)

    file.pwrite(bytearray(b"LONG"), 2)

    assert files.read_bytes(f"{directory}/f") == b"a LONG text"


def test_a_file_can_be_cut_and_extended_with_zeros(disk: Disk) -> None:
    files, directory = disk
    file = files.open(f"{directory}/f", create=True)
    file.pwrite(b"hello", 0)

    file.truncate(2)
    file.truncate(4)
    file.pwrite(b"!", 5)

    assert (file.size(), file.pread(10, 0)) == (6, b"he\0\0\0!")
    files.truncate(f"{directory}/f", 1)
    assert file.pread(10, 0) == b"h"


def test_a_closed_file_refuses_instead_of_reaching_another_one(disk: Disk) -> None:
    files, directory = disk
    file = files.open(f"{directory}/f", create=True)
    file.close()

    with pytest.raises(StorageError):
        file.pwrite(b"x", 0)
    with pytest.raises(StorageError):
        file.pread(1, 0)


def test_a_file_opened_for_reading_cannot_be_changed(disk: Disk) -> None:
    files, directory = disk
    files.write_bytes(f"{directory}/f", b"hello")
    file = files.open(f"{directory}/f", read_only=True)

    with pytest.raises(StorageError) as written:
        file.pwrite(b"x", 0)
    with pytest.raises(StorageError) as cut:
        file.truncate(0)

    assert (written.value.errno, cut.value.errno) == (errno.EBADF, errno.EINVAL)
    assert file.pread(5, 0) == b"hello"
    file.close()


def test_an_open_file_stays_itself_when_its_name_goes(disk: Disk) -> None:
    files, directory = disk
    files.write_bytes(f"{directory}/f", b"old")
    files.write_bytes(f"{directory}/g", b"other")
    file = files.open(f"{directory}/f")

    files.rename(f"{directory}/g", f"{directory}/f")
    file.pwrite(b"O", 0)

    assert file.pread(9, 0) == b"Old"
    assert files.read_bytes(f"{directory}/f") == b"other"
    files.unlink(f"{directory}/f")
    assert file.pread(9, 0) == b"Old"
    file.close()


def test_a_descriptor_shows_what_the_file_holds(disk: Disk) -> None:
    files, directory = disk
    file = files.open(f"{directory}/f", create=True)
    file.pwrite(b"hello", 0)

    assert os.pread(file.fileno(), 9, 1) == b"ello"
    file.pwrite(b"J", 0)
    assert os.pread(file.fileno(), 9, 0) == b"Jello"
    file.close()


def test_a_mapping_shows_the_file_while_it_is_open(disk: Disk) -> None:
    files, directory = disk
    files.write_bytes(f"{directory}/f", b"hello")
    files.truncate(f"{directory}/empty", 0)

    with files.map(f"{directory}/f") as view, files.map(f"{directory}/empty") as empty:
        assert (bytes(view), bytes(empty)) == (b"hello", b"")
        assert view.readonly


def test_replacing_content_leaves_nothing_of_the_old(disk: Disk) -> None:
    files, directory = disk
    path = f"{directory}/f"
    files.write_bytes(path, b"a long text")

    files.write_bytes(path, b"short", sync=True)

    assert files.read_bytes(path) == b"short"


def test_directories_are_made_listed_and_removed(disk: Disk) -> None:
    files, directory = disk
    path = f"{directory}/a/b"
    files.make_directory(path)
    files.make_directory(path)
    files.truncate(f"{path}/z", 100)
    files.truncate(f"{path}/y", 0)
    files.sync_directory(path)

    assert files.list(path) == ["y", "z"]
    assert (files.size(f"{path}/z"), files.read_bytes(f"{path}/z")) == (100, bytes(100))
    assert (files.is_directory(path), files.is_directory(f"{path}/z")) == (True, False)
    files.remove_tree(f"{directory}/a")
    files.remove_tree(f"{directory}/a")
    assert not files.exists(path)


def test_rename_replaces_and_unlink_says_whether_there_was_a_file(disk: Disk) -> None:
    files, directory = disk
    source, target = f"{directory}/s", f"{directory}/t"
    files.write_bytes(source, b"new")
    files.write_bytes(target, b"old")

    files.rename(source, target)

    assert files.read_bytes(target) == b"new"
    assert (files.unlink(source), files.unlink(target)) == (False, True)


def test_a_directory_is_renamed_with_all_in_it(disk: Disk) -> None:
    files, directory = disk
    files.make_directory(f"{directory}/a")
    files.write_bytes(f"{directory}/a/f", b"x")

    files.rename(f"{directory}/a", f"{directory}/b")

    assert (files.list(directory), files.read_bytes(f"{directory}/b/f")) == (["b"], b"x")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("missing", "new", errno.ENOENT),
        ("file", "missing/new", errno.ENOENT),
        ("file", "full", errno.EISDIR),
        ("full", "file", errno.ENOTDIR),
        ("empty", "full", errno.ENOTEMPTY),
    ],
)
def test_a_rename_that_cannot_be_is_refused(
    disk: Disk, source: str, target: str, expected: int
) -> None:
    files, directory = disk
    files.write_bytes(f"{directory}/file", b"x")
    files.make_directory(f"{directory}/empty")
    files.make_directory(f"{directory}/full/of")

    with pytest.raises(StorageError) as refused:
        files.rename(f"{directory}/{source}", f"{directory}/{target}")

    assert refused.value.errno == expected
    assert refused.value.path == f"{directory}/{source}"


def test_a_lock_has_one_holder(disk: Disk) -> None:
    files, directory = disk
    path = f"{directory}/.lock"
    first = files.lock(path)
    assert first is not None
    assert files.lock(path) is None

    first.release()

    again = files.lock(path)
    assert again is not None
    again.release()


def test_a_volume_has_room(disk: Disk) -> None:
    files, directory = disk
    assert 0 < files.free_bytes(directory) <= files.total_bytes(directory)


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("open", "open"),
        ("open", "map"),
        ("open", "read_bytes"),
        ("stat", "size"),
        ("stat", "modified_ms"),
        ("list", "list"),
        ("open", "sync"),
        ("open", "sync_directory"),
        ("stat volume", "free_bytes"),
    ],
)
def test_the_systems_errors_become_storage_errors(operation: str, call: str, disk: Disk) -> None:
    files, directory = disk
    path = f"{directory}/missing"
    method: Callable[[str], object] = getattr(files, call)

    with pytest.raises(StorageError) as refused:
        method(path)

    error = refused.value
    assert (error.path, error.operation, error.errno) == (path, operation, errno.ENOENT)
    assert path in str(error)


@pytest.mark.parametrize(
    ("call", "operation", "expected"),
    [
        ("open", "open", errno.EISDIR),
        ("read_bytes", "read", errno.EISDIR),
        ("map", "map", errno.ENODEV),
        ("unlink", "remove", errno.EISDIR),
    ],
)
def test_a_directory_is_no_file(disk: Disk, call: str, operation: str, expected: int) -> None:
    files, directory = disk
    method: Callable[[str], object] = getattr(files, call)

    with pytest.raises(StorageError) as refused:
        method(directory)

    assert (refused.value.operation, refused.value.errno) == (operation, expected)


def test_a_file_is_no_directory(disk: Disk) -> None:
    files, directory = disk
    files.write_bytes(f"{directory}/f", b"")

    for call in (files.list, files.make_directory):
        with pytest.raises(StorageError) as refused:
            call(f"{directory}/f")
        assert refused.value.errno in (errno.ENOTDIR, errno.EEXIST)


@pytest.mark.parametrize("at", [None, 0, 5_000, (1 << 20) - 1])
def test_a_file_is_read_without_the_hole_at_its_end(disk: Disk, at: int | None) -> None:
    files, directory = disk
    path = f"{directory}/f"
    files.truncate(path, 1 << 20)
    if at is not None:
        file = files.open(path)
        file.pwrite(b"x", at)
        file.close()

    found = files.read_written(path)

    assert found + bytes((1 << 20) - len(found)) == files.read_bytes(path)


def test_a_hole_is_not_read(tmp_path: Path) -> None:
    files, path = RealFileSystem(), str(tmp_path / "f")
    files.write_bytes(path, b"x")
    files.truncate(path, 1 << 20)

    assert len(files.read_written(path)) < 1 << 17
