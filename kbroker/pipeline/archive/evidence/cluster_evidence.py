"""What a running cluster says of an archive: its id and leader epochs, asked as a consumer asks
(KIP-320), and what is in its logs around holes: raw batches, fetched as a consumer of committed
records does (KIP-98), so that the answer names the aborted transactions too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kbroker.client.connection import admin_client
from kbroker.client.partition_offsets import leaders_of, offsets_at
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.archive.evidence.hole_reasons import Cover, CoverKind, Surroundings
from kbroker.pipeline.archive.evidence.same_source import Epochs, time_at
from kbroker.pipeline.archive.manifests.covered_ranges import Stretch
from kbroker.pipeline.archive.raw_fetch import RawFetch, fetch_raw, leader_of, whole_batches
from kbroker.pipeline.cluster_errors import cluster_errors
from kbroker.pipeline.errors import PipelineError
from kbroker.record.record_batch import MAGIC, read_control, records

_ONE_BATCH_BYTES = 1  # the first batch comes whole
_CONSUMER = -1  # as replica id: no broker asks
_ANY_EPOCH = -1  # of the leader that is asked
_VERSIONS = (2, 4)  # for consumers: brokers since Kafka 2.1

# A marker alone is one batch, and holes of compaction go on over a whole log: an answer is asked
# four times as large as the one before it as long as they lie side by side. The first batch of an
# answer comes whole, however large it is.
_LEAST_BYTES, _MOST_BYTES, _GROWTH = 64 * 1024, 4 * 1024 * 1024, 4
_ENDLESS = 2**63 - 1


Fetch = Callable[[int, int], RawFetch]  # from an offset on, about so many bytes


class ClusterIdentity:
    """One connection per question."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def cluster_id(self) -> str | None:
        """As the brokers tell it."""
        with cluster_errors(), admin_client(self._bootstrap) as client:
            found = client.describe_cluster().get("cluster_id")
        return str(found) if found else None

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """As their leaders tell them: other brokers may not have heard of an election yet."""
        from kafka.admin import OffsetSpec

        wanted = set(partitions)
        with cluster_errors(), admin_client(self._bootstrap) as client:
            found = offsets_at(client, _leaders(client, wanted), OffsetSpec.LATEST)
        return {
            TopicPartition(*partition): at.leader_epoch
            for partition, at in found.items()
            if at.leader_epoch is not None and at.leader_epoch >= 0
        }

    def end_offsets(self, epochs: Epochs) -> Mapping[TopicPartition, int]:
        """One request per leader."""
        found: dict[TopicPartition, int] = {}
        with cluster_errors(), admin_client(self._bootstrap) as client:
            by_leader: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
            for partition, leader in _leaders(client, set(epochs)).items():
                by_leader[leader][partition] = epochs[partition]
            for leader, asked in by_leader.items():
                found |= _end_offsets(client, leader, asked)
        return found

    def record_times(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """One request per partition: leaders answer as little as one batch."""
        found: dict[TopicPartition, int] = {}
        with cluster_errors(), admin_client(self._bootstrap) as client:
            for partition, leader in _leaders(client, set(offsets)).items():
                place = TopicPartition(*partition)
                try:
                    answer = fetch_raw(client, leader, place, offsets[place], _ONE_BATCH_BYTES)
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


class ClusterWitness:
    """Looks at partitions of a running cluster, one request for each hole or group of holes."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> Surroundings:
        """The batches that hold offsets of these holes."""
        with cluster_errors(), admin_client(self._bootstrap) as client:
            leader = leader_of(client, partition)
            return look(
                partial(fetch_raw, client, leader, partition),
                holes,
                is_compacted=_is_compacted(client, partition.topic),
            )


def look(fetch: Fetch, holes: Sequence[Stretch], *, is_compacted: bool) -> Surroundings:
    """Fetch around the holes: one answer often serves many that lie close together."""
    found: dict[int, Cover] = {}
    log_start_offset = 0
    at = 0  # all batches before it have been seen
    span, size_bytes = 0, _LEAST_BYTES  # offsets and size of the last answer
    for hole in holes:
        is_near = hole.start_offset - at <= span
        at = max(at, hole.start_offset)
        while at < hole.end_offset:
            size_bytes = (
                min(size_bytes * _GROWTH, _MOST_BYTES) if is_near and span else _LEAST_BYTES
            )
            answer = fetch(at, size_bytes)
            log_start_offset = max(log_start_offset, answer.log_start_offset)
            next_offset = max(at, min(answer.log_start_offset, hole.end_offset))
            for cover in _covers(answer):
                found[cover.base_offset] = cover
                next_offset = max(next_offset, cover.last_offset + 1)
            if next_offset == at:
                break  # nothing stands there up to the end of what may be read
            span, at, is_near = next_offset - at, next_offset, True
    return Surroundings(
        covers=[found[base] for base in sorted(found)],
        log_start_offset=log_start_offset,
        compacted_end_offset=_ENDLESS if is_compacted else 0,
    )


def _covers(answer: RawFetch) -> Iterator[Cover]:
    """The whole batches of an answer; transactions end with their markers, as for consumers."""
    waiting = sorted(answer.aborted, key=lambda each: each[1])
    open_producers: set[int] = set()
    for header, data in whole_batches(answer.records):
        while waiting and waiting[0][1] <= header.last_offset:
            open_producers.add(waiting.pop(0)[0])
        count = header.record_count if header.magic == MAGIC else -1
        if header.is_control:
            kind = CoverKind.MARKER
            if _may_be_abort(data):
                open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            kind = CoverKind.ABORTED
        else:
            kind = CoverKind.RECORDS
        yield Cover(header.base_offset, header.last_offset, count, kind)


def _may_be_abort(batch: bytes) -> bool:
    """Whether a marker ends an aborted transaction, or cannot be read."""
    try:
        record = next(records(batch), None)
        marker = read_control(record) if record is not None else None
    except KafkaError:
        return True
    return marker is None or not marker.is_commit


def _is_compacted(client: Any, topic: str) -> bool:
    from kafka.admin import ConfigResource, ConfigResourceType

    wanted = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = client.describe_configs([wanted], config_filter="all")["topic"][topic]
    return "compact" in str(found.get("cleanup.policy", {}).get("value"))
