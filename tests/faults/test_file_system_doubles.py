"""The doubles that stand in for a disk do what the other fault tests believe of them."""

from __future__ import annotations

import errno
from random import Random

import pytest

from kbroker.log.disk.file_system import StorageError
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.disks.recording_file_system import FailedSyncs, RecordingFileSystem

IMAGES = 300


def images(disk: RecordingFileSystem, mode: str | None = None) -> list[RecordingFileSystem]:
    return [disk.image(Random(seed), mode) for seed in range(IMAGES)]


def contents(disk: RecordingFileSystem, path: str = "/d/f") -> bytes | None:
    return disk.read_bytes(path) if disk.exists(path) else None


@pytest.fixture
def disk() -> RecordingFileSystem:
    files = RecordingFileSystem()
    files.make_directory("/d")
    files.sync_directory("/")
    return files


def test_what_was_synced_with_its_name_is_in_every_image(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"safe", sync=True)
    disk.sync_directory("/d")

    assert {contents(image) for image in images(disk)} == {b"safe"}
    assert disk.pending_changes() == 0


def test_a_synced_file_without_its_directory_may_be_missing(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"safe", sync=True)

    assert {contents(image) for image in images(disk)} == {None, b"safe"}


def test_a_synced_name_may_hold_nothing_or_anything(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"x" * 700)
    disk.sync_directory("/d")

    found = {contents(image) for image in images(disk)}

    assert {b"", b"x" * 700, bytes(700), b"x" * 512 + bytes(188)} <= found
    assert None not in found


def test_a_torn_write_ends_anywhere(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"", sync=True)
    disk.sync_directory("/d")
    disk.open("/d/f").pwrite(b"x" * 40, 0)

    sizes = {len(contents(image) or b"") for image in images(disk, "ordered")}

    assert len(sizes) > 20
    assert max(sizes) == 40


def test_a_rename_gives_the_old_file_or_the_new_one(disk: RecordingFileSystem) -> None:
    for name in ("f", "g"):
        disk.write_bytes(f"/d/{name}", name.encode(), sync=True)
    disk.sync_directory("/d")
    disk.rename("/d/g", "/d/f")

    found = {(contents(image), contents(image, "/d/g")) for image in images(disk)}

    assert found == {(b"f", b"g"), (b"g", None)}


def test_names_are_lost_one_by_one(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"", sync=True)
    disk.write_bytes("/d/g", b"", sync=True)

    found = {tuple(image.list("/d")) for image in images(disk)}

    assert found == {(), ("f",), ("g",), ("f", "g")}


def test_a_removed_file_may_be_back(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"x", sync=True)
    disk.sync_directory("/d")
    disk.unlink("/d/f")

    assert {contents(image) for image in images(disk)} == {None, b"x"}


def test_what_a_failed_sync_has_dropped_no_later_one_saves(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"old", sync=True)
    disk.sync_directory("/d")
    disk.before_change = FailedSyncs(1)
    file = disk.open("/d/f")
    file.pwrite(b"new", 0)

    with pytest.raises(StorageError):
        file.sync()
    file.pwrite(b"+", 3)
    file.sync()

    assert file.pread(9, 0) == b"new+"
    assert {contents(image) for image in images(disk)} == {b"old+"}


def test_an_image_of_an_image_loses_nothing_more(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"x" * 2000)
    disk.sync_directory("/d")
    image = disk.image(Random(5), "random")

    assert {contents(again) for again in images(image)} == {contents(image)}


def test_the_same_seed_makes_the_same_image(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"x" * 3000)

    first, second = (disk.image(Random(7), "sizes only") for _ in range(2))

    assert contents(first) == contents(second)


def test_a_change_to_an_image_leaves_the_disk_alone(disk: RecordingFileSystem) -> None:
    disk.write_bytes("/d/f", b"x", sync=True)

    image = disk.image(Random(1), "killed")
    image.open("/d/f").pwrite(b"y", 0)

    assert (contents(disk), contents(image)) == (b"x", b"y")


def test_a_small_disk_takes_what_fits() -> None:
    disk = MemoryFileSystem(capacity_bytes=10)
    disk.write_bytes("/f", b"12345678")

    with pytest.raises(StorageError) as full:
        disk.open("/g", create=True).pwrite(b"abc", 0)

    assert (full.value.operation, full.value.errno) == ("write", errno.ENOSPC)
    assert (disk.read_bytes("/g"), disk.free_bytes("/")) == (b"ab", 0)
    disk.open("/f").pwrite(b"X", 0)
    disk.unlink("/f")
    assert disk.free_bytes("/") == 8


def test_the_nth_call_fails_and_the_next_works() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    fault = disk.fail("fsync", "*.log", at=2)
    file = disk.open("/a.log", create=True)
    other = disk.open("/b", create=True)

    file.sync()
    other.sync()
    with pytest.raises(StorageError) as failed:
        file.sync()
    file.sync()

    assert (failed.value.operation, failed.value.errno) == ("fsync", errno.EIO)
    assert fault.hits == ["/a.log"]


def test_a_short_write_leaves_its_first_bytes() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    disk.fail("write", number=errno.ENOSPC, after_bytes=3, times=None)

    with pytest.raises(StorageError) as failed:
        disk.write_bytes("/f", b"hello")

    assert (failed.value.operation, failed.value.errno) == ("write", errno.ENOSPC)
    disk.heal()
    assert disk.read_bytes("/f") == b"hel"
