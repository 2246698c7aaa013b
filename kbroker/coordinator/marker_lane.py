"""MarkerLane: the markers for one other broker on their way (KIP-98).

Law: one request is in flight; what comes meanwhile goes together in the next one. An answer that
does not come says nothing of any partition. When nobody waits any more, nothing is asked any more.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

from kbroker.coordinator.transaction.markers import TransactionMarkers
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import Broker, TopicPartition
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_log = logging.getLogger(__name__)

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
LeaderCodes = dict[TopicPartition, ErrorCode]


class _Order(NamedTuple):
    markers: TransactionMarkers
    partitions: frozenset[TopicPartition]
    answered: asyncio.Future[LeaderCodes]  # cancelled when nobody waits for it any more

    @property
    def producer_id(self) -> int:
        return self.markers.producer.producer_id


class MarkerLane:
    """The way to one broker, as it is registered."""

    def __init__(self, broker: Broker, client: PeerClient, timeout_ms: float) -> None:
        """`timeout_ms` bounds one request."""
        self.broker = broker
        self._client = client
        self._timeout_ms = timeout_ms
        self._in_flight: list[_Order] = []
        self._waiting: list[_Order] = []
        self._task: asyncio.Task[None] | None = None

    async def write(
        self, markers: TransactionMarkers, partitions: frozenset[TopicPartition]
    ) -> LeaderCodes:
        """Ask for markers; return the broker's code of each partition, none without an answer."""
        order = _Order(markers, partitions, asyncio.get_running_loop().create_future())
        self._waiting.append(order)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"markers to {self.broker}")
        try:
            return await order.answered
        finally:
            self._rest_if_nobody_waits()

    def close(self) -> None:
        """Ask nothing any more: those who wait hear nothing of their partitions."""
        self._stop()
        self._client.close()

    def _rest_if_nobody_waits(self) -> None:
        if all(order.answered.done() for order in (*self._in_flight, *self._waiting)):
            self._stop()

    def _stop(self) -> None:
        task, self._task = self._task, None
        orders = (*self._in_flight, *self._waiting)
        self._in_flight, self._waiting = [], []
        if task is not None:
            task.cancel()
        for order in orders:
            _answer(order, {})

    async def _run(self) -> None:
        while self._take():
            try:
                answer = await self._client.send(
                    write_request((each.markers, each.partitions) for each in self._in_flight),
                    timeout_ms=self._timeout_ms,
                )
                by_producer = codes_of(answer)
            except (OSError, KafkaError) as error:  # TimeoutError too
                _log.debug("broker %d wrote no markers: %r", self.broker.broker_id, error)
                by_producer = {}
            except Exception:  # a code that is none, or a bug: those who wait ask again
                _log.exception("Markers of broker %d have no answer", self.broker.broker_id)
                by_producer = {}
            orders, self._in_flight = self._in_flight, []
            for order in orders:
                _answer(order, by_producer.get(order.producer_id, {}))
        self._task = None

    def _take(self) -> bool:
        """Take what waits, of each producer one: an answer is told by its producer."""
        taken: dict[int, _Order] = {}
        left = []
        for order in self._waiting:
            if order.answered.done():
                continue
            if taken.setdefault(order.producer_id, order) is not order:
                left.append(order)
        self._in_flight, self._waiting = list(taken.values()), left
        return bool(taken)


def _answer(order: _Order, codes: LeaderCodes) -> None:
    if not order.answered.done():
        order.answered.set_result(codes)


def write_request(
    orders: Iterable[tuple[TransactionMarkers, frozenset[TopicPartition]]],
) -> WriteTxnMarkersRequest:
    """The request for these markers in these of their partitions."""
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


def codes_of(answer: WriteTxnMarkersResponse) -> dict[int, LeaderCodes]:
    """The codes in an answer, by producer id."""
    by_producer: dict[int, LeaderCodes] = {}
    for result in answer.markers:
        codes = by_producer.setdefault(result.producer_id, {})
        for topic in result.topics:
            for data in topic.partitions:
                partition = TopicPartition(topic.name, data.partition_index)
                codes[partition] = ErrorCode(data.error_code)
    return by_producer
