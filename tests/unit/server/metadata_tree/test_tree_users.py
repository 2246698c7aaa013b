"""Users in a data directory are written only where a start would take its tree for its own."""

from __future__ import annotations

import pytest

from kbroker.client.scram_users import with_password, without
from kbroker.log.disk.checkpoint import MetaProperties, write_meta_properties
from kbroker.log.disk.format import LOCK_FILE
from kbroker.server.metadata_tree.tree_location import TreeLocation, has_tree, write_location
from kbroker.server.metadata_tree.tree_users import alter_users_in, users_in
from kbroker.server.start_error import StartError
from tests.fakes.disks.memory_file_system import MemoryFileSystem

DATA = "/data"
ADD_ANN = with_password("ann", "secret", ["SCRAM-SHA-256", "SCRAM-SHA-512"], 4096)


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


async def test_users_are_kept_by_a_directory_that_was_not_there(disk: MemoryFileSystem) -> None:
    assert await users_in(disk, DATA) == {}
    assert not disk.is_directory(DATA)

    assert await alter_users_in(disk, DATA, ADD_ANN) == {"ann": None}

    assert await users_in(disk, DATA) == {"ann": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}
    removal = without({"ann": {"SCRAM-SHA-256": 4096}, "bo": {"SCRAM-SHA-256": 4096}})
    outcomes = await alter_users_in(disk, DATA, removal)
    assert outcomes.pop("ann") is None
    assert "does not exist" in str(outcomes.pop("bo"))
    assert await users_in(disk, DATA) == {"ann": {"SCRAM-SHA-512": 4096}}


@pytest.mark.parametrize("has_records", [True, False])
async def test_a_directory_to_be_taken_over_stays_as_it_is(
    disk: MemoryFileSystem, has_records: bool
) -> None:
    disk.make_directory(f"{DATA}/orders-0" if has_records else DATA)
    if not has_records:
        write_meta_properties(disk, DATA, MetaProperties(0, "C", 1), 0)
    with pytest.raises(StartError, match="holds data without metadata"):
        await alter_users_in(disk, DATA, ADD_ANN)
    assert not has_tree(disk, DATA)


async def test_a_directory_in_use_and_one_of_an_ensemble_are_refused(
    disk: MemoryFileSystem,
) -> None:
    disk.make_directory(DATA)
    lock = disk.lock(f"{DATA}/{LOCK_FILE}")
    assert lock is not None
    with pytest.raises(StartError, match="in use by a running broker"):
        await alter_users_in(disk, DATA, ADD_ANN)
    lock.release()

    write_location(disk, DATA, TreeLocation("zk:2181", "C"))
    with pytest.raises(StartError, match="is in ZooKeeper at zk:2181"):
        await alter_users_in(disk, DATA, ADD_ANN)
    assert not has_tree(disk, DATA)
