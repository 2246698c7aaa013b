"""AddPartitionsToTxnManager: asks the coordinator of a transaction whether partitions take part in
it, before a leader lets a batch begin the transaction there (KIP-890).

Law: a leader never vouches for a transaction itself. No answer means not verified, and the code
makes the producer try again. Only if the coordinator is too old to know the question is its answer
not needed, as in Kafka, because its producers could write nothing else. Questions to one other
broker go together, and nobody waits longer than the timeout. If the coordinator is this broker,
nothing is waited for, except when partitions are added: that is written to its log.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from typing import Protocol

from kbroker.coordinator.transaction.participation import Codes, Participation
from kbroker.coordinator.transaction.producer import Producer
from kbroker.coordinator.transaction.transaction import WITH_EPOCHS
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TRANSACTION_STATE_TOPIC, Broker, TopicPartition
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.peers.request_lane import RequestLanes
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kbroker.replication.metadata_cache import MetadataCache

_Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction


class OwnTransactions(Protocol):
    """The questions to the coordinator in this process (TransactionCoordinator)."""

    def partition_for(self, transactional_id: str, /) -> int:
        """The partition of `__transaction_state` that keeps it."""
        ...

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Codes:
        """Return which partitions take part. Raises KafkaError if none does."""
        ...

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> None:
        """Let partitions take part. Raises KafkaError if they may not."""
        ...


class AddPartitionsToTxnManager:
    """The questions of one broker to coordinators of transactions."""

    def __init__(
        self,
        own: OwnTransactions,
        metadata: MetadataCache,
        open_client: Callable[[Broker], PeerClient],
        is_enabled: Callable[[], bool],
        timeout_ms: int,
    ) -> None:
        """`is_enabled` returns `transaction.partition.verification.enable`; an answer may take
        `timeout_ms`.
        """
        self.is_enabled = is_enabled
        self._own = own
        self._metadata = metadata
        self._timeout_ms = timeout_ms
        self._lanes: RequestLanes[Participation, Codes] = RequestLanes(
            ParticipationRequests(), open_client, timeout_ms
        )

    def verify(self, asked: Participation) -> Codes | Awaitable[Codes]:
        """Return a code for each partition: NONE if it takes part, else as AddPartitionsToTxn
        answers, or why the coordinator could not be asked. Plain codes if it is this broker.
        """
        leader = self._coordinator(asked)
        if leader == self._metadata.broker_id:
            return self._verify_here(asked)
        broker = self._metadata.broker(leader)
        if broker is None:
            return asked.all_are(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._ask(asked, broker)

    async def add(self, asked: Participation) -> Codes:
        """Have the partitions take part; a code for each."""
        leader = self._coordinator(asked)
        if leader != self._metadata.broker_id:
            broker = self._metadata.broker(leader)
            if broker is None:
                return asked.all_are(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return await self._ask(asked, broker)
        try:
            await self._own.add_partitions(
                asked.transactional_id,
                asked.producer,
                asked.partitions,
                client_version=WITH_EPOCHS,
            )
        except KafkaError as error:
            return asked.all_are(error.code)
        return asked.all_are(ErrorCode.NONE)

    def close(self) -> None:
        self._lanes.close()

    def _coordinator(self, asked: Participation) -> int:
        partition = self._own.partition_for(asked.transactional_id)
        state = self._metadata.partition_state(TopicPartition(TRANSACTION_STATE_TOPIC, partition))
        return NO_LEADER if state is None else int(state.leader)

    def _verify_here(self, asked: Participation) -> Codes:
        try:
            return self._own.verify(asked.transactional_id, asked.producer, asked.partitions)
        except KafkaError as error:
            return asked.all_are(error.code)

    async def _ask(self, asked: Participation, broker: Broker) -> Codes:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                codes = await self._lanes.to(broker).ask(asked)
        except TimeoutError:
            codes = {}
        return {
            partition: codes.get(partition, ErrorCode.NETWORK_EXCEPTION)
            for partition in asked.partitions
        }


def _code(number: int) -> ErrorCode:
    """Name a number; one that Kafka has not counts as silence: the producer asks again."""
    code = ErrorCode(number)
    return code if code.name in ErrorCode.__members__ else ErrorCode.NETWORK_EXCEPTION


class ParticipationRequests:
    """AddPartitionsToTxn of brokers, as `RequestLane` asks it."""

    def name_of(self, asked: Participation) -> Hashable:
        return asked.transactional_id

    def request(self, questions: Sequence[Participation]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(transactions=[_transaction(asked) for asked in questions])

    def answers(self, response: AddPartitionsToTxnResponse) -> Mapping[Hashable, Codes]:
        """Return codes by transactional id. Raises KafkaError if all of the request is refused."""
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        return {
            result.transactional_id: {
                TopicPartition(topic.name, partition.partition_index): _code(
                    partition.partition_error_code
                )
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }

    def unanswered(self, asked: Participation, error: Exception | None) -> Codes:
        """Answer in the coordinator's place."""
        code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
        if code is ErrorCode.UNSUPPORTED_VERSION:
            code = ErrorCode.INVALID_TXN_STATE if asked.adds else ErrorCode.NONE
        return asked.all_are(code)


def _transaction(asked: Participation) -> _Transaction:
    by_topic: dict[str, _Topic] = {}
    for name, index in asked.partitions:
        by_topic.setdefault(name, _Topic(name=name)).partitions.append(index)
    return _Transaction(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer.producer_id,
        producer_epoch=asked.producer.epoch,
        verify_only=not asked.adds,
        topics=list(by_topic.values()),
    )
