"""Cluster id and leader epochs of a running cluster, asked as a consumer asks (KIP-320)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kbroker.client.connection import admin_client
from kbroker.client.partition_offsets import leaders_of, offsets_at
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.pipeline.archive.identity.record_time import time_at
from kbroker.pipeline.archive.identity.source_identity import Epochs
from kbroker.pipeline.archive.raw_fetch import fetch_raw, whole_batches
from kbroker.pipeline.cluster_errors import cluster_errors
from kbroker.pipeline.errors import PipelineError

_LEAST_BYTES = 1  # the first batch comes whole
_CONSUMER = -1  # as replica id: no broker asks
_ANY_EPOCH = -1  # of the leader that is asked
_VERSIONS = (2, 4)  # for consumers: brokers since Kafka 2.1


class ClusterIdentity:
    """One connection per question."""

    def __init__(self, bootstrap: str, options: Mapping[str, Any] | None = None) -> None:
        self._bootstrap = bootstrap
        self._options = options  # of kafka-python

    def cluster_id(self) -> str | None:
        """As the brokers tell it."""
        with cluster_errors(), admin_client(self._bootstrap, self._options) as client:
            found = client.describe_cluster().get("cluster_id")
        return str(found) if found else None

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """As their leaders tell them: other brokers may not have heard of an election yet."""
        from kafka.admin import OffsetSpec

        wanted = set(partitions)
        with cluster_errors(), admin_client(self._bootstrap, self._options) as client:
            found = offsets_at(client, _leaders(client, wanted), OffsetSpec.LATEST)
        return {
            TopicPartition(*partition): at.leader_epoch
            for partition, at in found.items()
            if at.leader_epoch is not None and at.leader_epoch >= 0
        }

    def end_offsets(self, epochs: Epochs) -> Mapping[TopicPartition, int]:
        """One request per leader."""
        found: dict[TopicPartition, int] = {}
        with cluster_errors(), admin_client(self._bootstrap, self._options) as client:
            by_leader: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
            for partition, leader in _leaders(client, set(epochs)).items():
                by_leader[leader][partition] = epochs[partition]
            for leader, asked in by_leader.items():
                found |= _end_offsets(client, leader, asked)
        return found

    def record_times(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """One request per partition: leaders answer as little as one batch."""
        found: dict[TopicPartition, int] = {}
        with cluster_errors(), admin_client(self._bootstrap, self._options) as client:
            for partition, leader in _leaders(client, set(offsets)).items():
                place = TopicPartition(*partition)
                try:
                    answer = fetch_raw(client, leader, place, offsets[place], _LEAST_BYTES)
                except PipelineError:
                    continue
                for header, data in whole_batches(answer.records):
                    at_ms = time_at(header, data, offsets[place])
                    if at_ms is not None:
                        found[place] = at_ms
        return found


def _leaders(client: Any, wanted: set[TopicPartition]) -> dict[Any, int]:
    topics = sorted({partition.topic for partition in wanted})
    described = client.describe_topics(topics) if topics else []
    return {
        partition: leader
        for partition, leader in leaders_of(described).items()
        if TopicPartition(*partition) in wanted
    }


def _end_offsets(client: Any, leader: int, asked: Epochs) -> dict[TopicPartition, int]:
    from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError, KafkaTimeoutError
    from kafka.protocol.consumer import OffsetForLeaderEpochRequest

    topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, partition), epoch in asked.items():
        by_topic[topic].append(
            topic_type.OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=_ANY_EPOCH, leader_epoch=epoch
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[topic_type(topic=name, partitions=each) for name, each in by_topic.items()],
        min_version=_VERSIONS[0],
        max_version=_VERSIONS[1],
    )

    try:
        answer = client.send(request, leader)
    except (IncompatibleBrokerVersion, KafkaConnectionError, KafkaTimeoutError):
        return {}
    return {
        TopicPartition(topic.topic, each.partition): each.end_offset
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE and each.end_offset >= 0
    }
