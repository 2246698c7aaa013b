"""Asks brokers how far their logs reach, for a controller that has to choose among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.leader_epoch_cache import EpochEndOffset
from kbroker.model import Broker, TopicPartition
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kbroker.replication.reads.offset_lookup import ANY_REPLICA_ID, OffsetLookup

ANSWER_TIMEOUT_MS = 1_000.0


class LogEndQuestions:
    """One broker's questions; what it holds itself it looks up. Owned by the event loop."""

    def __init__(
        self, broker_id: int, own: OffsetLookup, open_client: Callable[[Broker], PeerClient]
    ) -> None:
        self._broker_id = broker_id
        self._own = own
        self._open_client = open_client

    async def ask(
        self, broker: Broker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, EpochEndOffset]:
        """Return the epoch of the last record and the end of each log that the broker reports.

        Apache Kafka's brokers report none: there, only leaders answer.
        """
        if broker.broker_id == self._broker_id:
            results = ((p, self._own.log_end(p)) for p in partitions)
            return {
                p: EpochEndOffset(r.leader_epoch, r.offset) for p, r in results if not r.error_code
            }
        client = self._open_client(broker)
        try:
            answer = await client.send(_request(partitions), timeout_ms=ANSWER_TIMEOUT_MS)
        except (OSError, KafkaError):  # TimeoutError too
            return {}
        finally:
            client.close()
        return _ends(answer)


def _request(partitions: Sequence[TopicPartition]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
    for name, index in partitions:
        topic = topics.setdefault(
            name, OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name)
        )
        topic.partitions.append(
            OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=index, current_leader_epoch=-1, leader_epoch=-1
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=ANY_REPLICA_ID, topics=list(topics.values()))


def _ends(answer: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEndOffset]:
    return {
        TopicPartition(topic.topic, data.partition): EpochEndOffset(
            data.leader_epoch, data.end_offset
        )
        for topic in answer.topics
        for data in topic.partitions
        if data.error_code == ErrorCode.NONE
    }
