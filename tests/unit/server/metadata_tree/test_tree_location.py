"""A directory is started only where its metadata is."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kbroker.errors import Trouble
from kbroker.server.metadata_tree.tree_location import (
    LOCATION_FILE,
    TreeLocation,
    brokers_in,
    check_copied,
    check_ensemble_tree,
    check_own_tree,
    check_single_broker,
    read_location,
    remember_ensemble,
    remove_location,
)
from kbroker.server.start_error import StartError
from kbroker.zk.copy_mark import UNFINISHED_COPY
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.embedded.tree_directory import TreeDirectory
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.trees.memory_tree_files import FixedClock

ENSEMBLE = TreeLocation("zk:2181/kafka", "C")
DATA = "/data"


@pytest.fixture
def disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    for path in (DATA, "/data/broker-1"):
        disk.make_directory(path)
    return disk


async def make_tree(disk: MemoryFileSystem, directory: str, *nodes: str) -> None:
    tree = EmbeddedTree(FixedClock(), TreeDirectory(disk, directory))
    for node in nodes:
        await tree.session().create(node, make_parents=True)
    tree.close()


def all_bytes(disk: MemoryFileSystem, directory: str) -> dict[str, bytes]:
    return {
        name: disk.read_bytes(f"{directory}/{name}")
        for name in disk.list(directory)
        if not disk.is_directory(f"{directory}/{name}")
    }


def test_an_empty_directory_starts_anywhere(disk: MemoryFileSystem) -> None:
    check_own_tree(disk, [DATA, "/not-made-yet"])
    check_ensemble_tree(disk, [DATA, "/not-made-yet"], "zk:2181")


async def test_a_directory_with_its_own_tree_starts_without_an_ensemble_only(
    disk: MemoryFileSystem,
) -> None:
    await make_tree(disk, DATA, "/brokers/topics/orders/partitions/0")
    before = all_bytes(disk, DATA)
    check_own_tree(disk, [DATA])
    with pytest.raises(StartError, match=r"orders.*cluster export --data /data --zookeeper zk:1/k"):
        check_ensemble_tree(disk, [DATA], "zk:1/k")
    assert all_bytes(disk, DATA) == before


async def test_a_tree_without_topics_is_nothing_to_lose(disk: MemoryFileSystem) -> None:
    await make_tree(disk, DATA, "/brokers/topics")
    check_ensemble_tree(disk, [DATA], "zk:2181")


async def test_a_directory_of_an_ensemble_starts_at_one_only(disk: MemoryFileSystem) -> None:
    await make_tree(disk, DATA, "/brokers/topics/orders")
    remember_ensemble(disk, [DATA, "/not-made-yet"], ENSEMBLE)
    assert read_location(disk, DATA) == ENSEMBLE
    check_ensemble_tree(disk, [DATA], "moved:2181/kafka")
    with pytest.raises(StartError, match=r"is in ZooKeeper at zk:2181/kafka \(cluster C\): start"):
        check_own_tree(disk, [DATA])
    remove_location(disk, DATA)
    remove_location(disk, DATA)
    check_own_tree(disk, [DATA])


def test_an_ensemble_that_has_moved_is_remembered(disk: MemoryFileSystem) -> None:
    remember_ensemble(disk, [DATA], ENSEMBLE)
    remember_ensemble(disk, [DATA], TreeLocation("other:1", "C"))
    assert read_location(disk, DATA) == TreeLocation("other:1", "C")


async def test_one_of_several_brokers_does_not_start_without_the_tree_they_share(
    disk: MemoryFileSystem,
) -> None:
    await make_tree(disk, DATA, "/brokers/topics/orders")
    with pytest.raises(StartError, match="start them together with --brokers N --data /data"):
        check_own_tree(disk, ["/data/broker-1"])
    with pytest.raises(StartError, match=r"/data has a tree of its own"):
        check_ensemble_tree(disk, ["/data/broker-1"], "zk:2181")
    remember_ensemble(disk, [DATA], ENSEMBLE)
    check_ensemble_tree(disk, ["/data/broker-1"], "zk:2181")


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff"])
def test_a_word_that_says_nothing_is_not_guessed_at(disk: MemoryFileSystem, text: bytes) -> None:
    disk.write_bytes(f"{DATA}/{LOCATION_FILE}", text, sync=False)
    with pytest.raises(StartError, match=LOCATION_FILE):
        check_own_tree(disk, [DATA])


async def test_nobody_starts_on_a_tree_that_is_half_copied() -> None:
    session = EmbeddedTree(FixedClock()).session()
    await check_copied(session, "the tree")
    await session.create(UNFINISHED_COPY)
    with pytest.raises(StartError, match="the copy into the tree was interrupted: repeat"):
        await check_copied(session, "the tree")


async def test_a_single_broker_does_not_start_where_several_have_their_tree(
    disk: MemoryFileSystem,
) -> None:
    await make_tree(disk, DATA)
    check_single_broker(disk, [DATA])  # broker-1 is a partition of a topic with that name
    disk.write_bytes("/data/broker-1/meta.properties", b"broker.id=1\n")

    with pytest.raises(StartError, match=r"/data belongs to several brokers \(broker-1\): start"):
        check_single_broker(disk, [DATA])


def test_a_single_broker_does_not_join_an_ensemble_where_several_have_their_data(
    disk: MemoryFileSystem,
) -> None:
    disk.write_bytes("/data/broker-1/meta.properties", b"broker.id=1\n")

    with pytest.raises(StartError, match=r"broker-1\): start them with --brokers 2"):
        check_single_broker(disk, [DATA])  # their tree was never here

    disk.write_bytes("/data/meta.properties", b"broker.id=7\n")
    check_single_broker(disk, [DATA, "/data/broker-1"])  # it has been here before


@pytest.mark.parametrize(
    ("number", "trouble"),
    [(errno.EACCES, Trouble.DIRECTORY_UNUSABLE), (errno.ENOSPC, Trouble.DISK_FULL)],
)
@pytest.mark.parametrize("look", [read_location, brokers_in])
def test_a_directory_that_cannot_be_read_says_where_more_is_said(
    disk: MemoryFileSystem, look: Callable[..., object], number: int, trouble: Trouble
) -> None:
    remember_ensemble(disk, [DATA], ENSEMBLE)
    failing = FailingFileSystem(disk)
    failing.fail("*", f"{DATA}*", number=number)

    with pytest.raises(StartError, match=f"^Data directory {DATA} ") as refused:
        look(failing, DATA)

    assert refused.value.trouble is trouble
