from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.counters import CounterRegistry
from kbroker.model import TopicPartition
from kbroker.replication.fetchers.fetch_states import FetchState
from kbroker.replication.replica_metrics import ReplicaMetrics
from tests.fakes.clusters.replication_cluster import ReplicationCluster, topic_id_of
from tests.fakes.counted import counted

LED, FOLLOWED = ("t", "0"), ("t", "1")


@pytest.fixture
def cluster() -> Iterator[ReplicationCluster]:
    cluster = ReplicationCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def followed() -> list[FetchState]:
    return []


@pytest.fixture
def fetches() -> dict[str, int]:
    """How many answers each fetcher has had."""
    return {}


@pytest.fixture
def counters(
    cluster: ReplicationCluster, followed: list[FetchState], fetches: dict[str, int]
) -> CounterRegistry:
    """Measures of a broker at which 10 s pass from look to look."""
    counters = CounterRegistry()
    cluster.replicas.register(counters)
    fetchers: Any = SimpleNamespace(states=lambda: iter(followed), fetches=fetches.copy)
    seconds = count(0, 10)
    ReplicaMetrics(cluster.replicas.hosted, fetchers, lambda: next(seconds)).register(counters)
    return counters


def test_a_log_tells_where_it_begins_and_ends(
    cluster: ReplicationCluster, counters: CounterRegistry
) -> None:
    cluster.append(cluster.lead("t"), b"a", b"b")

    assert counted(counters, "LogEndOffset", 2) == {LED: 2}
    assert counted(counters, "LogStartOffset", 2) == {LED: 0}
    assert counted(counters, "NumLogSegments", 2) == {LED: 1}
    assert counted(counters, "Size", 2)[LED] > 0


def test_replicas_that_are_out_of_sync_are_counted_by_the_leader_alone(
    cluster: ReplicationCluster, counters: CounterRegistry
) -> None:
    led = cluster.lead("t", isr=(0,), replicas=(0, 1, 2))
    cluster.lead("t", 1, leader=1, isr=(1,), replicas=(0, 1, 2))
    led.log.config.min_insync_replicas = 2

    for name, expected in {
        "UnderReplicated": {LED: 1, FOLLOWED: 0},
        "UnderMinIsr": {LED: 1, FOLLOWED: 0},
        "AtMinIsr": {LED: 0, FOLLOWED: 0},
        "ReplicasCount": {LED: 3, FOLLOWED: 0},
        "InSyncReplicasCount": {LED: 1, FOLLOWED: 0},
        "topic_partition_under_replicated_partition": {LED: 1},
        "topic_partition_replicas": {LED: 3},
        "topic_partition_leader": {LED: 0},
    }.items():
        assert counted(counters, name, 2) == expected, name
    for name, value in {
        "PartitionCount": 2,
        "LeaderCount": 1,
        "UnderReplicatedPartitions": 1,
        "UnderMinIsrPartitionCount": 1,
        "OfflineReplicaCount": 0,
    }.items():
        assert counted(counters, name) == {(): value}, name
    assert counted(counters, "topic_partitions", 1) == {("t",): 2}


def test_a_leader_that_is_not_the_preferred_one_is_told(
    cluster: ReplicationCluster, counters: CounterRegistry
) -> None:
    cluster.lead("t", isr=(0, 1), replicas=(1, 0))

    assert counted(counters, "topic_partition_leader_is_preferred", 2) == {LED: 0}


def test_an_offline_replica_is_counted_and_no_longer_shown(
    cluster: ReplicationCluster, counters: CounterRegistry
) -> None:
    cluster.lead("t")
    cluster.replicas.hosted.set_offline(TopicPartition("t", 0))

    assert counted(counters, "OfflineReplicaCount") == {(): 1}
    assert counted(counters, "LogEndOffset", 2) == {}


def test_changes_of_the_isr_are_counted_by_their_direction(
    cluster: ReplicationCluster, counters: CounterRegistry
) -> None:
    cluster.lead("t", isr=(0, 1, 2), replicas=(0, 1, 2))
    for epoch, isr in enumerate([(0,), (0, 1), (0, 1, 2), (0, 1, 2)], 1):
        cluster.replicas.isr_settled(TopicPartition("t", 0), isr, epoch)

    assert counted(counters, "IsrShrinksPerSec") == {(): 1}
    assert counted(counters, "IsrExpandsPerSec") == {(): 2}


def test_a_follower_tells_how_far_it_is_behind(
    followed: list[FetchState], counters: CounterRegistry
) -> None:
    for index, lag in enumerate((3, 70)):
        state = FetchState(
            topic_partition=TopicPartition("t", index),
            topic_id=topic_id_of("t"),
            leader_epoch=0,
            fetch_offset=0,
            last_fetched_epoch=0,
            log_start_offset=0,
            is_truncating=False,
            lag=lag,
        )
        followed.append(state)

    followed[0].trouble = "its leader has no such offset"

    assert counted(counters, "MaxLag", 1) == {("Replica",): 70}
    assert counted(counters, "FailedPartitionsCount", 1) == {("Replica",): 1}
    assert counted(counters, "ConsumerLag", 3) == {
        ("Replica", "t", "0"): 3,
        ("Replica", "t", "1"): 70,
    }


def test_the_slowest_fetcher_has_its_rate_shown(
    fetches: dict[str, int], counters: CounterRegistry
) -> None:
    fetches.update(quick=1_000, slow=500)
    assert counted(counters, "MinFetchRate", 1) == {("Replica",): 0}
    for _ in range(20):
        fetches.update(quick=fetches["quick"] + 900, slow=fetches["slow"] + 70)
        shown = counted(counters, "MinFetchRate", 1)

    assert shown["Replica",] == pytest.approx(7, abs=0.5)


def test_a_partition_that_goes_while_it_is_walked_through_is_left_out(
    cluster: ReplicationCluster, counters: CounterRegistry
) -> None:
    for index in range(3):
        cluster.lead("t", index)

    shown = []
    for table, tags, _ in filter(None, counters.samples()):
        if table.metrics[0].name.name == "Size":
            shown.append(tags)
            cluster.replicas.hosted.remove(TopicPartition("t", 1))

    assert shown == [("t", "0"), ("t", "2")]
