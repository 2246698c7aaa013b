"""The tree's files share the fate of the directory they lie in."""

from __future__ import annotations

import errno

import pytest

from kbroker.errors import Trouble, trouble_of
from kbroker.log.disk.file_system import StorageError
from kbroker.server.system_clock import SystemClock
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.tree import TreeStorageError
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem


@pytest.fixture
def disk() -> FailingFileSystem:
    disk = FailingFileSystem(MemoryFileSystem())
    disk.make_directory("/data")
    return disk


def test_what_was_written_is_read(disk: FailingFileSystem) -> None:
    files = TreeDirectory(disk, "/data")
    file = files.open_append("journal")
    file.write(b"one")
    file.write(b"two")
    file.fsync()
    file.close()

    assert files.read("journal") == b"onetwo"
    assert files.read("snapshot") is None
    assert disk.list("/data") == ["kbroker-journal"]


def test_after_a_failed_sync_nothing_more_is_written_and_the_directory_hears_of_it(
    disk: FailingFileSystem,
) -> None:
    files = TreeDirectory(disk, "/data")
    heard: list[StorageError] = []
    files.on_failure = heard.append
    file = files.open_append("journal")
    file.write(b"one")
    disk.fail("fsync", "*journal")

    for access in (file.fsync, file.fsync, lambda: file.write(b"two"), lambda: file.truncate(0)):
        with pytest.raises(OSError, match="Input/output error"):
            access()

    assert len(heard) == 1
    assert disk.read_bytes("/data/kbroker-journal") == b"one"


def test_a_full_disk_passes(disk: FailingFileSystem) -> None:
    files = TreeDirectory(disk, "/data")
    heard: list[StorageError] = []
    files.on_failure = heard.append
    file = files.open_append("journal")
    disk.fail("write", "*journal", number=errno.ENOSPC)

    with pytest.raises(OSError, match="No space left on device: free some space"):
        file.write(b"one")
    file.write(b"one")

    assert heard == []


@pytest.mark.parametrize(
    ("number", "trouble", "said"),
    [
        (
            errno.ENOSPC,
            Trouble.DISK_FULL,
            "the metadata cannot be kept: write /data/kbroker-tree.journal: "
            "No space left on device: free some space",
        ),
        (
            errno.EIO,
            Trouble.DIRECTORY_UNUSABLE,
            "the metadata cannot be kept: write /data/kbroker-tree.journal: Input/output error",
        ),
    ],
)
def test_a_start_that_cannot_keep_its_metadata_says_why_and_where_more_is_said(
    disk: FailingFileSystem, number: int, trouble: Trouble, said: str
) -> None:
    disk.fail("write", "*journal", number=number)

    with pytest.raises(TreeStorageError) as refused:
        EmbeddedTree(SystemClock(), TreeDirectory(disk, "/data"))

    assert (str(refused.value), trouble_of(refused.value)) == (said, trouble)


def test_when_the_directory_has_failed_the_tree_takes_no_changes(disk: FailingFileSystem) -> None:
    files = TreeDirectory(disk, "/data")
    file = files.open_append("journal")

    files.refuse(StorageError("/data", "fsync", errno.EIO))

    with pytest.raises(OSError, match="fsync /data"):
        file.write(b"one")
