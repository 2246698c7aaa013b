"""MarkerWriter: writes the ends of transactions to partitions that this broker leads (KIP-98).

Law: a marker is a batch of its own and is answered for once it is stored (acks=-1). What fences a
producer or a coordinator is in the log's producer state. Markers of `__consumer_offsets` go through
the group coordinator, as they must not overtake the offsets that they are about.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, Protocol

from kbroker.coordinator.runtime.batch_append import Replicas, Results
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kbroker.record.record_batch import MAGIC, BatchOptions, ControlRecord, build_marker
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.produce_result import REQUIRED_ACKS_ALL
from kbroker.turns import turn

_NOBODY = ErrorCode.UNKNOWN_SERVER_ERROR  # whose marker Kafka cannot make either
_AT_ONCE = 100  # markers, some milliseconds; then others come in between
_PARTITIONS_AT_ONCE = 256  # of one marker, the same

Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
_TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
_PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
Codes = dict[TopicPartition, ErrorCode]


class EpochBound(NamedTuple):
    """The latest epoch that a coordinator can have had, and the code for a marker of a later one:
    the partition would then refuse the markers of coordinators that are still to come.
    """

    latest: int
    refusal: ErrorCode


class EndGroupTransaction(Protocol):
    """Writes a marker to a partition of `__consumer_offsets` (GroupCoordinator)."""

    def __call__(
        self, partition: int, producer: Producer, control: ControlRecord
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """NONE once it is stored, or why it is not."""
        ...


class MarkerWriter:
    """Of one broker: other brokers ask it, and so does the coordinator in the same process."""

    def __init__(
        self,
        hosted: HostedPartitions,
        replicas: Replicas,
        end_group_transaction: EndGroupTransaction,
        now_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` bounds how long replicas may take."""
        self._hosted = hosted
        self._replicas = replicas
        self._end_group_transaction = end_group_transaction
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms

    async def write(
        self, request: WriteTxnMarkersRequest, bound: EpochBound | None = None
    ) -> WriteTxnMarkersResponse:
        """Return a code for each partition, under its producer: NONE once the marker is stored.
        `bound`: if another than the coordinator of this broker asks.
        """
        by_producer: dict[int, Codes] = {}
        waiting: list[Awaitable[None]] = []
        for number, marker in enumerate(request.markers, 1):
            codes = by_producer.setdefault(marker.producer_id, {})
            for part, partitions in enumerate(_parts(marker)):
                if part:
                    await turn()
                waiting += self._write(marker, partitions, codes, bound)
            if number % _AT_ONCE == 0:
                await turn()
        if waiting:
            await asyncio.gather(*waiting)
        return await _response(by_producer)

    def _write(
        self,
        marker: Marker,
        partitions: list[TopicPartition],
        codes: Codes,
        bound: EpochBound | None,
    ) -> list[Awaitable[None]]:
        """Append a marker to some of its partitions; the result fills in codes not known yet."""
        producer = Producer(marker.producer_id, marker.producer_epoch)
        control = ControlRecord(marker.transaction_result, marker.coordinator_epoch)
        waiting: list[Awaitable[None]] = []
        entries: list[tuple[TopicPartition, memoryview]] = []
        for partition in partitions:
            codes[partition] = self._refusal(partition, marker, bound)
            if codes[partition] is not NO_ERROR:
                continue
            if partition.topic == GROUP_METADATA_TOPIC:
                outcome = self._end_group_transaction(partition.partition, producer, control)
                if isinstance(outcome, ErrorCode):
                    codes[partition] = outcome
                else:
                    waiting.append(_fill_one(codes, partition, outcome))
            else:
                entries.append((partition, self._batch(producer, control)))
        if entries:
            results, settled, _ = self._replicas.append_records(
                entries, REQUIRED_ACKS_ALL, self._timeout_ms, AppendOrigin.COORDINATOR
            )
            if settled is None:
                _fill(codes, results)
            else:
                waiting.append(_fill_later(codes, settled))
        return waiting

    def _refusal(
        self, topic_partition: TopicPartition, marker: Marker, bound: EpochBound | None
    ) -> ErrorCode:
        """As in Kafka but for the bound, before the log is asked."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            return _NOBODY
        partition = self._hosted.find(topic_partition)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.log.config.message_format < MAGIC:
            return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        if bound is not None and marker.coordinator_epoch > bound.latest:
            # What the partition has seen was there, if in another life of the cluster.
            entry = partition.log.producer_state.producers.get(marker.producer_id)
            if entry is None or marker.coordinator_epoch > entry.coordinator_epoch:
                return bound.refusal
        return NO_ERROR

    def _batch(self, producer: Producer, control: ControlRecord) -> memoryview:
        """Make the batch for one log, which writes its offset into it."""
        options = BatchOptions(producer_id=producer.producer_id, producer_epoch=producer.epoch)
        return memoryview(bytearray(build_marker(control, self._now_ms(), options=options)))


def _parts(marker: Marker) -> Iterator[list[TopicPartition]]:
    """Yield the partitions of a marker, each once, in parts."""
    seen: set[TopicPartition] = set()
    part: list[TopicPartition] = []
    named = ((topic.name, index) for topic in marker.topics for index in topic.partition_indexes)
    for number, place in enumerate(named, 1):
        partition = TopicPartition(*place)
        if partition not in seen:
            seen.add(partition)
            part.append(partition)
        if number % _PARTITIONS_AT_ONCE == 0:
            yield part
            part = []
    if part:
        yield part


async def _fill_one(codes: Codes, partition: TopicPartition, outcome: Awaitable[ErrorCode]) -> None:
    codes[partition] = await outcome


async def _fill_later(codes: Codes, results: Awaitable[Results]) -> None:
    _fill(codes, await results)


def _fill(codes: Codes, results: Results) -> None:
    codes.update((result.topic_partition, result.error_code) for result in results)


async def _response(by_producer: dict[int, Codes]) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for producer_id, codes in by_producer.items():
        topics: dict[str, _TopicResult] = {}
        for number, ((name, index), code) in enumerate(codes.items(), 1):
            topic = topics.setdefault(name, _TopicResult(name=name))
            topic.partitions.append(_PartitionResult(partition_index=index, error_code=code))
            if number % _PARTITIONS_AT_ONCE == 0:
                await turn()
        response.markers.append(_Result(producer_id=producer_id, topics=list(topics.values())))
    return response
