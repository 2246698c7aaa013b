from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.log.file_system import RealFileSystem, StorageError

FILES = RealFileSystem()


def test_written_bytes_are_read_back_from_their_position(tmp_path: Path) -> None:
    file = FILES.open(str(tmp_path / "f"), create=True)

    file.pwrite(memoryview(b"hello"), 3)

    assert (file.size(), file.pread(5, 3), file.pread(100, 6)) == (8, b"hello", b"lo")
    file.sync()
    file.close()
    file.close()


def test_a_closed_file_refuses_instead_of_reaching_another_one(tmp_path: Path) -> None:
    file = FILES.open(str(tmp_path / "f"), create=True)
    file.close()

    with pytest.raises(StorageError):
        file.pwrite(b"x", 0)


def test_a_mapping_shows_the_file_while_it_is_open(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"hello")
    (tmp_path / "empty").touch()

    with FILES.map(str(tmp_path / "f")) as view, FILES.map(str(tmp_path / "empty")) as empty:
        assert (bytes(view), bytes(empty)) == (b"hello", b"")


def test_replacing_content_leaves_nothing_of_the_old(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    FILES.write_bytes(path, b"a long text")

    FILES.write_bytes(path, b"short", sync=True)

    assert FILES.read_bytes(path) == b"short"


def test_directories_are_made_listed_and_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    FILES.make_directory(path)
    FILES.make_directory(path)
    FILES.truncate(f"{path}/z", 100)
    FILES.truncate(f"{path}/y", 0)
    FILES.sync_directory(path)

    assert FILES.list(path) == ["y", "z"]
    assert FILES.size(f"{path}/z") == 100
    FILES.remove_tree(str(tmp_path / "a"))
    FILES.remove_tree(str(tmp_path / "a"))
    assert not FILES.exists(path)


def test_rename_replaces_and_unlink_says_whether_there_was_a_file(tmp_path: Path) -> None:
    source, target = str(tmp_path / "s"), str(tmp_path / "t")
    FILES.write_bytes(source, b"new")
    FILES.write_bytes(target, b"old")

    FILES.rename(source, target)

    assert FILES.read_bytes(target) == b"new"
    assert (FILES.unlink(source), FILES.unlink(target)) == (False, True)


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    first = FILES.lock(path)
    assert first is not None
    assert FILES.lock(path) is None

    first.release()

    again = FILES.lock(path)
    assert again is not None
    again.release()


def test_a_volume_has_room(tmp_path: Path) -> None:
    assert 0 < FILES.free_bytes(str(tmp_path)) <= FILES.total_bytes(str(tmp_path))


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("open", FILES.open),
        ("open", FILES.map),
        ("open", FILES.read_bytes),
        ("stat", FILES.size),
        ("stat", FILES.modified_ms),
        ("list", FILES.list),
        ("open", FILES.sync),
        ("stat volume", FILES.free_bytes),
    ],
)
def test_the_systems_errors_become_storage_errors(
    operation: str, call: Callable[[str], object], tmp_path: Path
) -> None:
    path = str(tmp_path / "missing")

    with pytest.raises(StorageError) as refused:
        call(path)

    error = refused.value
    assert (error.path, error.operation, error.errno) == (path, operation, errno.ENOENT)
    assert path in str(error)
