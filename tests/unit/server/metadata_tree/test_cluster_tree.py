"""Where a broker's tree comes from."""

from __future__ import annotations

from kbroker.config.kafka_config import KafkaConfig
from kbroker.server.broker.tree_opening import tree_of
from kbroker.server.metadata_tree.cluster_tree import OwnTree, SharedTree, close_store
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.trees.memory_tree_files import FixedClock


def test_the_settings_say_which_tree_it_is() -> None:
    disk, clock = MemoryFileSystem(), FixedClock()
    own = tree_of(KafkaConfig.for_profile("dev", {"log.dirs": "/a,/b"}), clock, disk)
    ensemble = tree_of(
        KafkaConfig.for_profile("dev", {"zookeeper.connect": "zk:2181/k"}), clock, disk
    )

    assert (str(own), own.own_directory, own.is_ensemble) == ("the tree in /a", "/a", False)
    assert str(ensemble) == "ZooKeeper at zk:2181/k"
    assert (ensemble.own_directory, ensemble.is_ensemble) == (None, True)


async def test_an_own_tree_keeps_what_was_written() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/a")
    first = OwnTree(FixedClock(), disk, "/a")
    await (await first.open()).create("/node", b"data")
    await first.close()
    await first.close()

    second = OwnTree(FixedClock(), disk, "/a")
    data, _ = await (await second.open()).get("/node")
    await second.close()

    assert data == b"data"


async def test_closing_a_shared_tree_ends_one_session_and_no_other() -> None:
    store = EmbeddedTree(FixedClock())
    one, two = SharedTree(store, "t"), SharedTree(store, "t")
    await (await one.open()).create("/one", ephemeral=True)
    session = await two.open()
    await session.create("/two", ephemeral=True)

    await one.close()

    assert await session.children("/") == ["two"]
    close_store(store)
