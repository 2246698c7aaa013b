"""A replica whose topic was deleted unheard, and the one that has its name now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.replication.controller_requests import controller_requests
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.zk.tree import TreeUnavailableError
from tests.fakes.clusters.replication_cluster import (
    ReplicationCluster,
    leader_and_isr,
    topic_id_of,
)
from tests.fakes.logs.log_maker import manager

TP = TopicPartition("t", 0)
OLD, NEW = topic_id_of("t"), topic_id_of("new")


class Setting:
    """A broker that led t-0 of the old topic, and the id that the tree has for the name."""

    def __init__(self, logs: LogManager) -> None:
        self.cluster = ReplicationCluster(logs)
        self.replicas = self.cluster.replicas
        self.stopped: list[TopicPartition] = []
        self.in_tree: list[UUID | None] = [NEW]
        self.control = ControlRequests(
            self.replicas.leadership,
            self.replicas.logs,
            MetadataWaiter(),
            self._nothing,
            lambda: -1,
            self._topic_id,
        )
        self.cluster.lead("t")
        self.cluster.append(self.replicas.hosted.get(TP), b"a", b"b")
        self.replicas.leadership.add_leadership_listener(
            lambda _, followed: self.stopped.extend(each.topic_partition for each in followed)
        )

    async def _nothing(self, _partitions: object) -> None:
        return None

    async def _topic_id(self, topic: str) -> UUID | None:
        assert topic == "t"
        found = self.in_tree.pop(0)
        if found is None:
            raise TreeUnavailableError("/brokers/topics/t")
        return found

    async def order(self, topic_id: UUID, leader_epoch: int = 0) -> ErrorCode:
        order = leader_and_isr("t", leader_epoch=leader_epoch, topic_id=topic_id)
        answer = await self.control.leader_and_isr(order)
        return ErrorCode(answer.partition_errors[0].error_code)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Setting]:
    logs = manager(tmp_path)
    logs.load("cluster", 0)
    setting = Setting(logs)
    yield setting
    setting.cluster.close()
    logs.shutdown()


async def test_it_is_set_aside_once_the_tree_has_another_topic_of_the_name(
    broker: Setting, tmp_path: Path
) -> None:
    assert await broker.order(NEW) is ErrorCode.NONE

    partition = broker.replicas.hosted.get(TP)
    assert (partition.topic_id, partition.is_leader) == (NEW, True)
    assert (partition.log_end_offset, partition.high_watermark) == (0, 0)
    assert broker.stopped == [TP]
    (aside,) = tmp_path.glob("t-0.*-stray")
    assert (aside / "00000000000000000000.log").stat().st_size > 0
    assert not list(tmp_path.glob("*-delete"))


async def test_of_many_partitions_a_few_are_set_aside_in_a_turn_of_the_loop(
    broker: Setting, tmp_path: Path
) -> None:
    count = 10
    for partition in range(1, count):
        broker.cluster.lead("t", partition)
    order = leader_and_isr("t", topic_id=NEW)
    others = (leader_and_isr("t", each, topic_id=NEW) for each in range(1, count))
    order.topic_states[0].partition_states += (
        state for other in others for state in other.topic_states[0].partition_states
    )
    asked = asyncio.ensure_future(broker.control.leader_and_isr(order))
    left = [count]
    while not asked.done():
        await asyncio.sleep(0)
        left.append(count - len(broker.stopped))

    assert max(before - after for before, after in pairwise(left)) <= 4
    assert {each.error_code for each in (await asked).partition_errors} == {ErrorCode.NONE}
    assert len(list(tmp_path.glob("t-*-stray"))) == count


async def test_it_stays_as_long_as_the_tree_has_its_topic(broker: Setting) -> None:
    broker.in_tree = [OLD]

    assert await broker.order(NEW, leader_epoch=1) is ErrorCode.INCONSISTENT_TOPIC_ID

    assert broker.replicas.hosted.get(TP).log_end_offset == 2
    assert broker.stopped == []


async def test_a_tree_that_cannot_be_read_is_waited_for(
    broker: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_requests, "TREE_BACKOFF_S", 0)
    broker.in_tree = [None, None, NEW]

    assert await broker.order(NEW) is ErrorCode.NONE


async def test_the_tree_is_not_asked_about_the_topic_that_is_held(broker: Setting) -> None:
    broker.in_tree = []

    assert await broker.order(OLD, leader_epoch=1) is ErrorCode.NONE


async def test_a_log_that_was_only_found_is_left_alone(broker: Setting, tmp_path: Path) -> None:
    """Its id may be what is wrong: somebody may have brought it from elsewhere."""
    broker.replicas.hosted.remove(TP)

    assert await broker.order(NEW) is ErrorCode.INCONSISTENT_TOPIC_ID

    assert broker.in_tree == [NEW], "the tree was asked"
    assert not list(tmp_path.glob("*-stray"))
