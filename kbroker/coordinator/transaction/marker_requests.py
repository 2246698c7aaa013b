"""How a broker is asked for markers, and what its answer says of each partition (KIP-98).

Pure. Law: an answer is known by its producer, so a request has one marker of each producer. An
answer that does not come says nothing of any partition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kbroker.coordinator.transaction.markers import TransactionMarkers
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
LeaderCodes = dict[TopicPartition, ErrorCode]


class MarkerOrder(NamedTuple):
    """Markers of one transaction, for those of its partitions that one broker leads."""

    markers: TransactionMarkers
    partitions: frozenset[TopicPartition]


class MarkerRequests:
    """WriteTxnMarkers, as `RequestLane` asks it: the broker's code of each partition."""

    def name_of(self, order: MarkerOrder) -> Hashable:
        return order.markers.producer.producer_id

    def request(self, orders: Sequence[MarkerOrder]) -> WriteTxnMarkersRequest:
        return write_request(orders)

    def answers(self, response: WriteTxnMarkersResponse) -> Mapping[Hashable, LeaderCodes]:
        return codes_of(response)

    def unanswered(self, _order: MarkerOrder, _error: Exception | None) -> LeaderCodes:
        return {}


def write_request(orders: Iterable[MarkerOrder]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[_marker(*order) for order in orders])


def _marker(markers: TransactionMarkers, partitions: frozenset[TopicPartition]) -> _Marker:
    by_topic: dict[str, _Topic] = {}
    for name, index in sorted(partitions):
        by_topic.setdefault(name, _Topic(name=name)).partition_indexes.append(index)
    return _Marker(
        producer_id=markers.producer.producer_id,
        producer_epoch=markers.producer.epoch,
        transaction_result=markers.is_commit,
        topics=list(by_topic.values()),
        coordinator_epoch=markers.coordinator_epoch,
    )


def codes_of(answer: WriteTxnMarkersResponse) -> dict[Hashable, LeaderCodes]:
    """The codes in an answer, by producer id."""
    by_producer: dict[Hashable, LeaderCodes] = {}
    for result in answer.markers:
        codes = by_producer.setdefault(result.producer_id, {})
        for topic in result.topics:
            for data in topic.partitions:
                partition = TopicPartition(topic.name, data.partition_index)
                codes[partition] = ErrorCode(data.error_code)
    return by_producer
