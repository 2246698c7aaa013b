"""How many partitions `__consumer_offsets` has: groups are shared out by it."""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.model import GROUP_METADATA_TOPIC, ReplicaAssignment, TopicPartition
from kbroker.replication.metadata_cache import FULL_UPDATE, MetadataCache
from kbroker.server.broker.topic_size import TopicSize
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.topic_nodes import NewTopicNodes
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.clusters.replication_cluster import (
    partition_metadata,
    topic_id_of,
    update_metadata,
)
from tests.fakes.trees.memory_tree_files import FixedClock

ORDERED = [TopicPartition(GROUP_METADATA_TOPIC, 0)]


class Broker:
    """What its tree has of the topic, and what it is told."""

    def __init__(self) -> None:
        clock = FixedClock()
        self._zk = ZkUtils(EmbeddedTree(clock).session(), clock)
        self._metadata = MetadataCache(0)
        self.size = TopicSize(GROUP_METADATA_TOPIC, self._zk, self._metadata)

    async def create(self, partitions: int) -> None:
        """Have the topic made."""
        await self._zk.create_persistent_paths()
        assigned = {number: ReplicaAssignment(replicas=(0,)) for number in range(partitions)}
        topic_id = topic_id_of(GROUP_METADATA_TOPIC)
        nodes = TopicAssignment(topic_id=topic_id, partitions=assigned)
        (error,) = await self._zk.create_topics([NewTopicNodes(GROUP_METADATA_TOPIC, nodes, {})])
        assert error is None

    def is_told(self, *partitions: int, topic_id: UUID | None = None) -> None:
        """Hear of these partitions, and that there are no others."""
        states = [partition_metadata(number) for number in partitions]
        request = update_metadata(*((GROUP_METADATA_TOPIC, s) for s in states), kind=FULL_UPDATE)
        for topic in request.topic_states:
            topic.topic_id = topic_id or topic.topic_id
        self._metadata.update(request)


@pytest.mark.parametrize("told", [(), (0, 1), (0, 2), (0, 1, 2)])
async def test_partitions_that_nobody_leads_yet_count(told: tuple[int, ...]) -> None:
    broker = Broker()
    await broker.create(3)

    await broker.size.look(ORDERED)
    broker.is_told(*told)

    assert broker.size.partitions() == 3


async def test_a_broker_that_holds_none_goes_by_what_it_is_told() -> None:
    broker = Broker()
    await broker.create(3)
    nothing = broker.size.partitions()

    await broker.size.look([TopicPartition("t", 0)])
    broker.is_told(0, 1)

    assert (nothing, broker.size.partitions()) == (0, 2)


async def test_partitions_that_are_added_and_led_elsewhere_count() -> None:
    broker = Broker()
    await broker.create(3)
    await broker.size.look(ORDERED)

    broker.is_told(0, 1, 2, 3)

    assert broker.size.partitions() == 4


async def test_a_topic_that_was_made_anew_has_its_own_size() -> None:
    broker = Broker()
    await broker.create(3)
    await broker.size.look(ORDERED)

    broker.is_told(0, topic_id=UUID(int=9))

    assert broker.size.partitions() == 1
