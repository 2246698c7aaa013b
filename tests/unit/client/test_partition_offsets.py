"""Offsets of many partitions: one question per leader, and partitions that do not answer."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.errors import KafkaConnectionError, KafkaStorageError
from kafka.structs import TopicPartition

from kbroker.client.partition_offsets import leaders_of, offsets_at


class Cluster:
    """An admin client whose answer fails as a whole where one partition is offline, or where the
    leader cannot be reached.
    """

    def __init__(self, offline: frozenset[int] = frozenset(), dead: bool = False) -> None:
        self.offline = offline
        self.dead = dead
        self.questions = 0

    def list_partition_offsets(
        self, moments: Mapping[TopicPartition, str], isolation_level: object
    ) -> dict[TopicPartition, str]:
        self.questions += 1
        if self.dead:
            raise KafkaConnectionError("111 ECONNREFUSED")
        if self.offline & {partition.partition for partition in moments}:
            raise KafkaStorageError("a partition is offline")
        return {partition: f"offset of {partition.partition}" for partition in moments}


def leaders(count: int, brokers: int = 1) -> dict[TopicPartition, int]:
    return {TopicPartition("t", number): number % brokers for number in range(count)}


def test_a_thousand_partitions_take_one_question_per_leader() -> None:
    cluster = Cluster()

    found = offsets_at(cluster, leaders(1_000, brokers=3), "latest")

    assert len(found) == 1_000
    assert cluster.questions == 3


def test_the_offsets_of_other_partitions_are_told_where_one_is_offline() -> None:
    cluster = Cluster(offline=frozenset({1}))

    found = offsets_at(cluster, leaders(3), "latest")

    assert found == {TopicPartition("t", 0): "offset of 0", TopicPartition("t", 2): "offset of 2"}


def test_one_offline_partition_of_a_thousand_costs_no_thousand_questions() -> None:
    cluster = Cluster(offline=frozenset({500}))

    assert len(offsets_at(cluster, leaders(1_000), "latest")) == 999
    assert cluster.questions <= 21


def test_a_leader_that_cannot_be_reached_is_asked_once() -> None:
    cluster = Cluster(dead=True)

    assert offsets_at(cluster, leaders(1_000), "latest") == {}
    assert cluster.questions == 1


def test_no_partitions_have_no_offsets() -> None:
    assert offsets_at(Cluster(), {}, "latest") == {}


def test_a_partition_without_leader_is_not_asked_for() -> None:
    described = [
        {
            "name": "t",
            "partitions": [
                {"partition_index": 0, "leader_id": 7},
                {"partition_index": 1, "leader_id": -1},
            ],
        }
    ]

    assert leaders_of(described) == {TopicPartition("t", 0): 7}
