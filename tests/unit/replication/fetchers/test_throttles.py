"""Throttled replication (KIP-73) between real brokers, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.model import TopicPartition
from kbroker.replication.replication_quota import FOLLOWER_RATE, LEADER_RATE
from tests.fakes.clusters.copying_cluster import CopyingCluster, T

pytestmark = pytest.mark.virtual_time

LISTS = TopicConfig(
    leader_replication_throttled_replicas=("0:1", "0:2"),
    follower_replication_throttled_replicas=("0:1", "0:2"),
)
FREE = TopicPartition("t", 1)
RATE = 2000
VALUE = b"v" * 400
BATCHES = 60
SECONDS = BATCHES * 400 / RATE


@pytest.fixture
async def cluster() -> AsyncIterator[CopyingCluster]:
    """Broker 1 leads two partitions of one topic, of which the first is throttled; broker 2 is to
    copy both and is in sync with neither. A request brings one or two batches of each.
    """
    async with CopyingCluster(1, 2, topic=LISTS, replica_fetch_max_bytes=1000) as cluster:
        for of in (T, FREE):
            cluster.order(1, 0, of=of, isr=(1,), to=(1,))
            for _ in range(BATCHES):
                cluster[1].append(VALUE, to=of)
        yield cluster


def throttle(cluster: CopyingCluster, broker_id: int, name: str, rate: int | None = RATE) -> None:
    overrides = {} if rate is None else {name: str(rate)}
    cluster[broker_id].replicas.quotas.configure({}, overrides)


def follow(cluster: CopyingCluster) -> None:
    for of in (T, FREE):
        cluster.tell(2, of)


def copied(cluster: CopyingCluster, of: TopicPartition = T) -> int:
    return len(cluster[2].content(of))


@pytest.mark.parametrize(("broker_id", "name"), [(1, LEADER_RATE), (2, FOLLOWER_RATE)])
async def test_what_is_throttled_is_copied_at_its_rate_and_the_rest_at_once(
    cluster: CopyingCluster, broker_id: int, name: str
) -> None:
    throttle(cluster, broker_id, name)
    follow(cluster)

    await cluster.settle(2)
    assert copied(cluster, FREE) == len(cluster[1].content(FREE))
    for seconds in (2, 4, 6):
        assert 0.5 * seconds * RATE < copied(cluster) < 1.25 * seconds * RATE + 2000
        await cluster.settle(2)
    await cluster.settle(SECONDS * 1.5)

    cluster.check_equal()
    assert cluster[1].partition().state.isr == (1,)  # nobody has asked for more


@pytest.mark.parametrize(("broker_id", "name"), [(1, LEADER_RATE), (2, FOLLOWER_RATE)])
async def test_nobody_asks_in_a_circle_meanwhile(
    cluster: CopyingCluster, broker_id: int, name: str
) -> None:
    throttle(cluster, broker_id, name, rate=1)
    follow(cluster)
    await cluster.settle(2)
    before, bytes_before = len(cluster.fetches(2)), copied(cluster)

    await cluster.settle(8)

    assert copied(cluster) == bytes_before
    assert len(cluster.fetches(2)) - before <= 2 * 8 + 8  # one per longest wait, one per look


@pytest.mark.parametrize(("broker_id", "name"), [(1, LEADER_RATE), (2, FOLLOWER_RATE)])
async def test_the_end_of_a_throttle_is_noticed(
    cluster: CopyingCluster, broker_id: int, name: str
) -> None:
    throttle(cluster, broker_id, name, rate=1)
    follow(cluster)
    await cluster.settle(2)
    assert copied(cluster) < len(cluster[1].content())

    throttle(cluster, broker_id, name, rate=None)
    await cluster.settle()

    cluster.check_equal()


@pytest.mark.parametrize(("broker_id", "name"), [(1, LEADER_RATE), (2, FOLLOWER_RATE)])
async def test_a_replica_in_sync_is_never_held_back(
    cluster: CopyingCluster, broker_id: int, name: str
) -> None:
    follow(cluster)
    await cluster.settle()
    cluster.order(1, 1, isr=(1, 2))
    await cluster.settle()
    throttle(cluster, broker_id, name, rate=1)
    quota = cluster[broker_id].replicas.quotas
    direction = quota.leader if broker_id == 1 else quota.follower

    for _ in range(5):
        cluster[1].append(VALUE)
        await cluster.settle(0.1)
        assert copied(cluster) == len(cluster[1].content())

    await cluster.settle(1)
    cluster.check_equal()
    assert direction.is_exceeded(cluster.clock.monotonic_ms())  # what it copied counts


async def test_nor_is_one_that_is_in_sync_under_a_new_leader_epoch(
    cluster: CopyingCluster,
) -> None:
    follow(cluster)
    await cluster.settle()
    cluster.order(1, 1, isr=(1, 2))
    await cluster.settle()
    throttle(cluster, 2, FOLLOWER_RATE, rate=1)
    cluster[2].replicas.quotas.follower.record(10_000, cluster.clock.monotonic_ms())

    cluster.order(1, 2, isr=(1, 2))
    cluster[1].append(VALUE)
    await cluster.settle(1)

    cluster.check_equal()
    assert cluster[2].replicas.quotas.follower.is_exceeded(cluster.clock.monotonic_ms())


async def test_a_topic_without_lists_is_not_held_back(cluster: CopyingCluster) -> None:
    cluster.topic = TopicConfig()  # of the logs that broker 2 makes
    for broker_id in (1, 2):
        cluster[broker_id].replicas.quotas.configure({LEADER_RATE: "1", FOLLOWER_RATE: "1"}, {})
    cluster[1].log().update_config(cluster.topic)
    follow(cluster)

    await cluster.settle()

    cluster.check_equal()
