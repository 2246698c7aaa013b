"""Requests under /admin are read with a watch, rewritten while they are worked, and removed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kbroker.model import TopicPartition
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.nodes.admin_znodes import encode_reassignment
from kbroker.zk.nodes.zk_admin_requests import ZkAdminRequests
from kbroker.zk.tree import EventType, WatchEvent
from kbroker.zk.zk_paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from kbroker.zk.zk_utils import ControllerMovedError, ZkUtils
from tests.fakes.trees.memory_tree_files import FixedClock
from tests.fakes.trees.preferred_election import preferred_election

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
async def zk() -> ZkUtils:
    zk = ZkUtils(EmbeddedTree(FixedClock()).session(), FixedClock())
    await zk.create_persistent_paths()
    return zk


@pytest.fixture(autouse=True)
async def version(zk: ZkUtils) -> int:
    """Of the controller epoch's node."""
    _, version = await zk.register_controller_and_raise_epoch(1)
    return version


@pytest.fixture
def requests(zk: ZkUtils) -> ZkAdminRequests:
    return ZkAdminRequests(zk)


async def test_a_reassignment_is_seen_when_it_comes_rewritten_and_gone_with_its_last_partition(
    requests: ZkAdminRequests, zk: ZkUtils, version: int
) -> None:
    events: list[WatchEvent] = []
    assert await requests.reassignment(events.append) is None
    await zk.tree.create(REASSIGN_PARTITIONS, encode_reassignment({T0: (1, 2), T1: (2,)}))
    await asyncio.sleep(0)
    assert [event.type for event in events] == [EventType.CREATED]
    assert await requests.reassignment() == {T0: (1, 2), T1: (2,)}
    await requests.set_reassignment({T1: (2,)}, version)
    assert await requests.reassignment() == {T1: (2,)}
    await requests.set_reassignment({}, version)
    assert await requests.reassignment() is None
    await requests.set_reassignment({}, version)
    await requests.set_reassignment({T0: (3,)}, version)
    assert await requests.reassignment() == {T0: (3,)}


async def test_a_preferred_election_is_seen_when_it_comes_and_removed(
    requests: ZkAdminRequests, zk: ZkUtils, version: int
) -> None:
    events: list[WatchEvent] = []
    assert await requests.preferred_election(events.append) is None
    await zk.tree.create(PREFERRED_REPLICA_ELECTION, preferred_election([T0]))
    await asyncio.sleep(0)
    assert [event.type for event in events] == [EventType.CREATED]
    assert await requests.preferred_election() == frozenset({T0})
    await requests.delete_preferred_election(version)
    assert await requests.preferred_election() is None
    await requests.delete_preferred_election(version)


async def test_a_request_that_is_none_counts_as_empty_and_is_reported_once(
    caplog: pytest.LogCaptureFixture, requests: ZkAdminRequests, zk: ZkUtils
) -> None:
    with caplog.at_level(logging.ERROR):
        await zk.tree.create(REASSIGN_PARTITIONS, b"{")
        await zk.tree.create(PREFERRED_REPLICA_ELECTION)
        for _ in range(2):
            assert await requests.reassignment() == {}
            assert await requests.preferred_election() == frozenset()

    assert [
        sum(path in message for message in caplog.messages)
        for path in (REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION)
    ] == [1, 1]


async def test_only_the_controller_changes_requests(
    requests: ZkAdminRequests, zk: ZkUtils, version: int
) -> None:
    await zk.tree.create(PREFERRED_REPLICA_ELECTION, preferred_election([T0]))
    with pytest.raises(ControllerMovedError):
        await requests.delete_preferred_election(version - 1)
    with pytest.raises(ControllerMovedError):
        await requests.set_reassignment({T0: (1,)}, version - 1)
    assert await requests.preferred_election() == frozenset({T0})
    assert await requests.reassignment() is None
