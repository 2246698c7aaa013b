"""Asks brokers where their logs end, for a controller that has to choose among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogEndQuestions:
    """The questions of one broker, which looks up its own logs. Owned by the event loop."""

    broker_id: int
    own: OffsetLookup
    open_client: Callable[[Broker], PeerClient]

    async def ask(
        self, broker: Broker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, EpochEndOffset]:
        """Return the last record's epoch and the end of each log that the broker reports.

        Apache Kafka's brokers report none: there, only leaders answer.
        """
        if broker.broker_id == self.broker_id:
            results = ((p, self.own.log_end(p)) for p in partitions)
            return {
                p: EpochEndOffset(r.leader_epoch, r.offset) for p, r in results if not r.error_code
            }
        client = self.open_client(broker)
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
