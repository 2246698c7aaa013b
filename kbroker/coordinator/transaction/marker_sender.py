"""TransactionMarkerSender: has the ends of transactions written by those who lead the partitions.

Law: it is decided how a transaction ends, so a marker is asked for until it is stored, by whoever
leads then; a partition whose answer was lost may have it twice, which changes nothing. Only a
partition that is gone needs none, and only a fence ends the asking: another coordinator has taken
over. Markers for one broker go together, one request at a time, because a request is answered when
the slowest of its partitions is. Whoever stops waiting leaves nothing behind.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

from kbroker.coordinator.transaction.marker_requests import (
    LeaderCodes,
    MarkerOrder,
    MarkerRequests,
    codes_of,
    write_request,
)
from kbroker.coordinator.transaction.markers import TransactionMarkers
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TRANSACTION_STATE_TOPIC, Broker, TopicPartition
from kbroker.peers.node_to_controller_channel import ANSWER_MARGIN_MS, PeerClient
from kbroker.peers.request_lane import RequestLanes
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kbroker.replication.metadata_cache import MetadataCache

_log = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.1
UNEXPECTED_BACKOFF_S = 1.0  # after what no leader should answer; each time is logged

# The second: the topic keeps an old format, so nothing of the transaction can be in it.
_DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
_FENCED = frozenset({ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_PASSING = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

Partitions = frozenset[TopicPartition]
WriteHere = Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
"""Writes markers to partitions that this broker leads (MarkerWriter)."""


class TransactionMarkerSender:
    """One broker's; see `SendMarkers`."""

    def __init__(
        self,
        metadata: MetadataCache,
        write_here: WriteHere,
        open_client: Callable[[Broker], PeerClient],
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` is how long a leader waits for replicas before it answers."""
        self._metadata = metadata
        self._write_here = write_here
        self._lanes: RequestLanes[MarkerOrder, LeaderCodes] = RequestLanes(
            MarkerRequests(), open_client, timeout_ms + ANSWER_MARGIN_MS
        )

    async def __call__(self, markers: TransactionMarkers) -> None:
        asking = self._ask(markers, markers.partitions)
        try:
            while asking:
                answered, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
                again = frozenset[TopicPartition]().union(*(task.result() for task in answered))
                asking = (asking - answered) | self._ask(markers, again)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def close(self) -> None:
        """Close the connections; whoever still waits has to be cancelled."""
        self._lanes.close()

    # ---- one attempt

    def _ask(
        self, markers: TransactionMarkers, partitions: Partitions
    ) -> set[asyncio.Task[Partitions]]:
        """Begin to ask the leaders of now; each task returns what is to be asked again."""
        by_leader: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        for partition in sorted(partitions):  # the same way in every process, for simulations
            state = self._metadata.partition_state(partition)
            if state is not None:
                by_leader[state.leader].add(partition)
            elif self._knows_the_cluster():
                _log.info("%s is gone: its transaction needs no end there", partition)
            else:
                by_leader[NO_LEADER].add(partition)
        return {
            asyncio.ensure_future(self._attempt(leader, markers, frozenset(led)))
            for leader, led in by_leader.items()
        }

    def _knows_the_cluster(self) -> bool:
        """A broker that has just started may lead, and load, before it hears of all topics."""
        return self._metadata.contains_topic(TRANSACTION_STATE_TOPIC)

    async def _attempt(
        self, leader: int, markers: TransactionMarkers, partitions: Partitions
    ) -> Partitions:
        codes = await self._codes(leader, markers, partitions)
        again = frozenset(p for p in partitions if self._is_open(leader, markers, p, codes.get(p)))
        if again:
            is_expected = all(codes.get(p) in _PASSING or p not in codes for p in again)
            await asyncio.sleep(RETRY_BACKOFF_S if is_expected else UNEXPECTED_BACKOFF_S)
        return again

    def _is_open(
        self,
        leader: int,
        markers: TransactionMarkers,
        partition: TopicPartition,
        code: ErrorCode | None,
    ) -> bool:
        """Return whether to ask for the marker again; `code` is None if nothing is known.

        Raises KafkaError for a fence.
        """
        if code in _DONE:
            return False
        if code in _FENCED:
            assert code is not None
            raise KafkaError(code, f"The end of {markers.transactional_id} in {partition}")
        if code is not None and code not in _PASSING:
            _log.warning(
                "Broker %d does not end transaction %s in %s: %s. It is asked again.",
                leader,
                markers.transactional_id,
                partition,
                code.name,
            )
        return True

    async def _codes(
        self, leader: int, markers: TransactionMarkers, partitions: Partitions
    ) -> LeaderCodes:
        """Ask a leader for its codes; there is none for what it did not answer."""
        if leader == self._metadata.broker_id:
            return await self._write_own(markers, partitions)
        broker = self._metadata.broker(leader)
        if broker is None:
            return {}
        return await self._lanes.to(broker).ask(MarkerOrder(markers, partitions))

    async def _write_own(self, markers: TransactionMarkers, partitions: Partitions) -> LeaderCodes:
        try:
            answer = await self._write_here(write_request([MarkerOrder(markers, partitions)]))
        except Exception:  # a bug; a marker is asked for all the same
            _log.exception("Markers of %s were not written here", markers.transactional_id)
            return dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        return codes_of(answer)[markers.producer.producer_id]
