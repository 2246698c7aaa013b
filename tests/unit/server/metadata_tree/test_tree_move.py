"""Wherever a move breaks off, one tree at most can be started, and repeating it ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from kbroker.log.disk.checkpoint import MetaProperties, write_meta_properties
from kbroker.log.disk.format import LOCK_FILE
from kbroker.server.metadata_tree.tree_location import (
    LOCATION_FILE,
    check_copied,
    check_ensemble_tree,
    check_own_tree,
)
from kbroker.server.metadata_tree.tree_move import Move, MoveOptions, TreeHome, locked_home
from kbroker.server.start_error import StartError
from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.embedded.tree_directory import TreeDirectory
from kbroker.zk.tree import Op, OpResult, TreeError, TreeUnavailableError
from kbroker.zk.tree_copy import CopyRefusedError
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.trees.memory_tree_files import FixedClock

DATA, CONNECT = "/data", "zk:2181/kafka"
NODES = {
    "/cluster/id": b'{"version":"1","id":"C"}',
    "/brokers/topics/orders": b'{"version":1,"partitions":{"0":[1],"1":[2]}}',
    "/brokers/topics/orders/partitions/0/state": b"{}",
    "/config/topics/orders": b'{"version":1,"config":{}}',
}


@pytest.fixture
def disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.make_directory(DATA)
    write_meta_properties(disk, DATA, MetaProperties(0, "C", 1), 0)
    return disk


async def put(session: TreeSession, path: str, data: bytes) -> None:
    await session.create(path, make_parents=True)
    await session.set(path, data)


async def fill(session: TreeSession) -> None:
    for path, data in NODES.items():
        await put(session, path, data)


async def make_own_tree(disk: MemoryFileSystem) -> None:
    store = EmbeddedTree(FixedClock(), TreeDirectory(disk, DATA))
    await fill(store.session())
    store.close()


def nodes_of(store: EmbeddedTree) -> dict[str, bytes | None]:
    return {path: data for path, data, _ in store.dump() if path in NODES}


def own_nodes(disk: MemoryFileSystem) -> dict[str, bytes | None]:
    store = EmbeddedTree(FixedClock(), TreeDirectory(disk, DATA))
    store.close()
    return nodes_of(store)


@pytest.fixture
def store() -> EmbeddedTree:
    """An empty tree that stands for an ensemble's."""
    return EmbeddedTree(FixedClock())


@pytest.fixture
def ensemble(store: EmbeddedTree) -> TreeSession:
    return store.session()


async def move(
    disk: MemoryFileSystem,
    ensemble: TreeSession,
    how: Callable[[TreeHome, TreeSession, str, MoveOptions], Awaitable[Move]],
    *,
    replace: bool = False,
    dry_run: bool = False,
) -> Move:
    with locked_home(disk, f"{DATA}/") as home:
        return await how(home, ensemble, CONNECT, MoveOptions(replace=replace, dry_run=dry_run))


async def startable(disk: MemoryFileSystem, ensemble: TreeSession) -> list[str]:
    """Where a start is not refused."""
    found = []
    try:
        check_own_tree(disk, [DATA])
        await check_copied(EmbeddedTree(FixedClock(), TreeDirectory(disk, DATA)).session(), "own")
        found.append("own")
    except StartError:
        pass
    try:
        check_ensemble_tree(disk, [DATA], CONNECT)
        await check_copied(ensemble, "ensemble")
        found.append("ensemble")
    except StartError:
        pass
    return found


def breaking_off(session: TreeSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets a session write so many transactions and then none."""
    left = 0
    multi_all, multi = session.multi_all, session.multi

    def allow(count: int) -> None:
        nonlocal left
        left = count

    async def some(transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | TreeError]:
        nonlocal left
        done = await multi_all(transactions[:left])
        left -= len(done)
        if len(done) < len(transactions):
            raise TreeUnavailableError("/")
        return done

    async def one(ops: Sequence[Op]) -> list[OpResult]:
        nonlocal left
        if left <= 0:
            raise TreeUnavailableError("/")
        left -= 1
        return await multi(ops)

    monkeypatch.setattr(session, "multi_all", some)
    monkeypatch.setattr(session, "multi", one)
    return allow


async def test_an_export_that_breaks_off_anywhere_leaves_one_tree_at_most(
    disk: MemoryFileSystem,
    monkeypatch: pytest.MonkeyPatch,
    ensemble: TreeSession,
    store: EmbeddedTree,
) -> None:
    await make_own_tree(disk)
    allow = breaking_off(ensemble, monkeypatch)
    seen = [await startable(disk, ensemble)]
    for _ in range(40):
        allow(1)
        try:
            await move(disk, ensemble, TreeHome.export_to)
            break
        except TreeUnavailableError:
            seen.append(await startable(disk, ensemble))
    seen.append(await startable(disk, ensemble))
    assert seen[0] == ["own"]
    assert seen[-1] == ["ensemble"]
    assert [] in seen  # between the word in the directory and the end of the copy
    assert all(len(places) <= 1 for places in seen)
    assert nodes_of(store) == NODES


async def test_an_import_that_breaks_off_leaves_the_ensembles_tree(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, ensemble: TreeSession
) -> None:
    await fill(ensemble)
    with monkeypatch.context() as patch:
        patch.setattr(TreeSession, "multi_all", _fail)
        with pytest.raises(TreeUnavailableError):
            await move(disk, ensemble, TreeHome.import_from)
    assert await startable(disk, ensemble) == ["ensemble"]
    with monkeypatch.context() as patch:
        patch.setattr(TreeSession, "multi", _fail)
        with pytest.raises(TreeUnavailableError):
            await move(disk, ensemble, TreeHome.import_from)
    assert await startable(disk, ensemble) == ["ensemble"]
    await move(disk, ensemble, TreeHome.import_from)
    assert await startable(disk, ensemble) == ["own"]
    assert own_nodes(disk) == NODES


async def _fail(_session: TreeSession, _writes: object) -> list[OpResult]:
    raise TreeUnavailableError("/")


async def test_there_and_back_takes_over_what_changed_there(
    disk: MemoryFileSystem, ensemble: TreeSession
) -> None:
    await make_own_tree(disk)
    exported = await move(disk, ensemble, TreeHome.export_to)
    await ensemble.set("/config/topics/orders", b'{"version":1,"config":{"a":"1"}}')
    imported = await move(disk, ensemble, TreeHome.import_from)
    assert (exported.image.topics, exported.partitions_elsewhere) == (["orders"], 1)
    assert imported.plan.changed == 1
    assert own_nodes(disk)["/config/topics/orders"] == b'{"version":1,"config":{"a":"1"}}'
    assert LOCATION_FILE not in disk.list(DATA)


async def test_a_tree_that_went_on_here_is_not_given_up_without_a_word(
    disk: MemoryFileSystem, ensemble: TreeSession
) -> None:
    await make_own_tree(disk)
    await fill(ensemble)
    await ensemble.set("/config/topics/orders", b'{"version":1,"config":{"a":"1"}}')
    with pytest.raises(CopyRefusedError, match="--replace"):
        await move(disk, ensemble, TreeHome.import_from)
    with pytest.raises(CopyRefusedError, match="--replace"):
        await move(disk, ensemble, TreeHome.export_to)
    assert own_nodes(disk) == NODES
    await move(disk, ensemble, TreeHome.import_from, replace=True)
    assert own_nodes(disk)["/config/topics/orders"] == b'{"version":1,"config":{"a":"1"}}'


async def test_a_dry_run_changes_nothing_at_all(
    disk: MemoryFileSystem, ensemble: TreeSession, store: EmbeddedTree
) -> None:
    def files() -> dict[str, bytes]:
        names = [name for name in disk.list(DATA) if name != LOCK_FILE]
        return {name: disk.read_bytes(f"{DATA}/{name}") for name in names}

    await make_own_tree(disk)
    before = files()
    move_there = await move(disk, ensemble, TreeHome.export_to, dry_run=True)
    assert move_there.plan.created > len(NODES)
    assert (files(), store.dump()[1:]) == (before, [])
    await fill(ensemble)
    await ensemble.set("/config/topics/orders", b"{}")
    move_here = await move(disk, ensemble, TreeHome.import_from, dry_run=True, replace=True)
    assert move_here.plan.changed == 1
    assert files() == before


async def test_the_tree_of_another_cluster_is_not_imported(
    disk: MemoryFileSystem, ensemble: TreeSession
) -> None:
    await fill(ensemble)
    await ensemble.set("/cluster/id", b'{"version":"1","id":"D"}')
    with pytest.raises(StartError, match="belongs to cluster C, the ensemble has cluster D"):
        await move(disk, ensemble, TreeHome.import_from)
    assert LOCATION_FILE not in disk.list(DATA)


async def test_partitions_of_a_topic_named_broker_are_left_alone(
    disk: MemoryFileSystem, ensemble: TreeSession
) -> None:
    await make_own_tree(disk)
    disk.make_directory(f"{DATA}/broker-0")
    await move(disk, ensemble, TreeHome.export_to)
    assert disk.list(f"{DATA}/broker-0") == []


async def test_the_directories_of_several_brokers_are_locked_and_told(
    disk: MemoryFileSystem, ensemble: TreeSession
) -> None:
    await make_own_tree(disk)
    disk.unlink(f"{DATA}/meta.properties")
    for broker_id in (1, 2):
        disk.make_directory(f"{DATA}/broker-{broker_id}")
        meta = MetaProperties(0, "C", broker_id)
        write_meta_properties(disk, f"{DATA}/broker-{broker_id}", meta, 0)
    lock = disk.lock(f"{DATA}/broker-2/{LOCK_FILE}")
    assert lock is not None
    with pytest.raises(StartError, match="/data/broker-2 is in use by a running broker"):
        await move(disk, ensemble, TreeHome.export_to)
    lock.release()
    moved = await move(disk, ensemble, TreeHome.export_to)
    assert moved.partitions_elsewhere == 0
    for path in (DATA, f"{DATA}/broker-1", f"{DATA}/broker-2"):
        with pytest.raises(StartError, match="is in ZooKeeper at"):
            check_own_tree(disk, [path])
    await move(disk, ensemble, TreeHome.import_from)
    check_own_tree(disk, [DATA])
