"""TransactionalProducer: records of several batches and the offsets of a group, committed together.

Law: who gets the transactional id next learns from the group how far the last one came, since no
record is visible without its offsets, nor they without it. The steps are those of KIP-98's first
protocol, which all brokers since Kafka 0.11 know: partitions and groups are added before they are
written to, and the epoch stays from one transaction to the next. So a request whose answer got lost
may come late, and would count for the next transaction: a producer that `lost_an_answer` is to make
way for a new one once it has ended its transaction.

Blocks; owned by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import (
    GROUP,
    TRANSACTIONAL_ID,
    Coordinated,
    ask_coordinator,
)
from kbroker.client.record_sender import RecordProducer, TransactionLostError
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.schema import Message

_PAUSE_S = 0.1
_WAITING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT)
_LOST = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
)
_Codes = Callable[[Any], Iterable[int]]


class Position(NamedTuple):
    """What a group has committed of a partition: the next offset (-1: nothing), and a note."""

    offset: int
    metadata: str = ""


NOTHING = Position(-1)


class TransactionalProducer:
    """`producer` is for a RecordSender, which writes between `add_partitions` and `commit`."""

    def __init__(
        self,
        cluster: ClusterLinks,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        patience_s: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Takes the id over: what its last producer left open is aborted, or ends as was decided.

        Raises ClientError, KafkaError and OSError if the cluster gives no producer id, for
        longer than `patience_s`.
        """
        self.lost_an_answer = False
        self._cluster = cluster
        self._id = transactional_id
        self._patience_s = patience_s
        self._sleep = sleep
        self._now_s = now_s
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        answer = self._ask(request, lambda found: (found.error_code,))
        self.lost_an_answer = False  # a late request for an id takes it away, and that is told
        self.producer = RecordProducer(answer.producer_id, answer.producer_epoch, transactional_id)
        self._added: set[TopicPartition] = set()

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction; the first ones begin it.

        Raises TransactionLostError, and as the constructor.
        """
        wanted: dict[str, list[int]] = {}
        for partition in sorted(set(partitions) - self._added):
            wanted.setdefault(partition.topic, []).append(partition.partition)
        if not wanted:
            return
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[
                topic(name=name, partitions=numbers) for name, numbers in wanted.items()
            ],
        )
        self._ask(request, _codes_of_partitions)
        self._added |= {
            TopicPartition(name, number) for name, numbers in wanted.items() for number in numbers
        }

    def commit(self, group: str, offsets: Mapping[TopicPartition, Position]) -> None:
        """End the transaction: what was written in it is committed, as are the group's offsets, and
        readers see it a moment later, when its markers are written. Raises as `add_partitions`.
        """
        added = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            group_id=group,
        )
        self._ask(added, lambda found: (found.error_code,))
        self._ask(self._offsets_request(group, offsets), _codes_of_topics, (GROUP, group))
        self._end(is_commit=True)

    def abort(self) -> None:
        """End the transaction: nothing that was written in it will ever be visible. Raises as
        `add_partitions`.
        """
        if self._added:
            self._end(is_commit=False)

    def committed(self, group: str, partition: TopicPartition) -> Position:
        """How far a group has come, once no transaction can change that. Raises as the
        constructor.
        """
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(
            name=partition.topic, partition_indexes=[partition.partition]
        )
        topics = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=partition.topic, partition_indexes=[partition.partition]
        )
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topics])
        request = OffsetFetchRequest(
            group_id=group, topics=[topic], groups=[wanted], require_stable=True
        )
        answer = self._ask(request, _codes_of_offsets, (GROUP, group))
        (told,) = _offsets_in(answer)
        return Position(told.committed_offset, told.metadata or "")

    def _end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            committed=is_commit,
        )
        # Sent again after an answer that got lost: who has ended it so says so again.
        self._ask(request, lambda found: (found.error_code,))
        self._added.clear()

    def _offsets_request(
        self, group: str, offsets: Mapping[TopicPartition, Position]
    ) -> TxnOffsetCommitRequest:
        by_topic: dict[str, list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]] = {}
        for (topic, number), position in sorted(offsets.items()):
            entry = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=position.offset,
                committed_metadata=position.metadata,
            )
            by_topic.setdefault(topic, []).append(entry)
        return TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=name, partitions=entries)
                for name, entries in by_topic.items()
            ],
        )

    def _ask(
        self,
        request: Message,
        codes_in: _Codes,
        whom: tuple[Coordinated, str] | None = None,
    ) -> Any:
        """The answer of a coordinator, of the id's own where `whom` names no other: asked for until
        it refuses nothing, or for good.
        """
        kind, name = whom or (TRANSACTIONAL_ID, self._id)
        give_up_s = self._now_s() + self._patience_s
        while True:
            refusal: Exception
            try:
                answer = ask_coordinator(self._cluster, name, request, codes_in, self._sleep, kind)
            except (OSError, ClientError) as error:
                self.lost_an_answer |= not isinstance(error, (ConnectionRefusedError, ClientError))
                refusal = error
            except KafkaError as error:
                if not error.code.retriable:
                    raise
                refusal = error
            else:
                self.lost_an_answer |= self._cluster.is_repeated(request)
                codes = [ErrorCode(code) for code in codes_in(answer) if code]
                if not codes:
                    return answer
                refusal = self._refusal(request, codes)
            if self._now_s() > give_up_s:
                raise refusal
            self._sleep(_PAUSE_S)

    def _refusal(self, request: Message, codes: list[ErrorCode]) -> KafkaError:
        """Return what may pass. Raises TransactionLostError and KafkaError if it will not."""
        told = [code for code in codes if code is not ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
        code = told[0]
        if code in _LOST:
            raise TransactionLostError(self._id, code)
        refusal = KafkaError(
            code, f"{type(request).__name__.removesuffix('Request')} of {self._id}"
        )
        if not (code.retriable or code in _WAITING):
            raise refusal
        return refusal


def _codes_of_partitions(answer: Any) -> list[int]:
    return [
        entry.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for entry in topic.results_by_partition
    ]


def _codes_of_topics(answer: Any) -> list[int]:
    return [entry.error_code for topic in answer.topics for entry in topic.partitions]


def _codes_of_offsets(answer: Any) -> list[int]:
    whole = [answer.error_code, *(group.error_code for group in answer.groups)]
    return [*whole, *(entry.error_code for entry in _offsets_in(answer))]


def _offsets_in(answer: Any) -> list[Any]:
    """Entries of an answer of either form: one group, or several from version 8 on."""
    topics = [*answer.topics, *(topic for group in answer.groups for topic in group.topics)]
    return [entry for topic in topics for entry in topic.partitions]
