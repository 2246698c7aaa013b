"""TransactionalProducer: writes records, and how far it has come in their source, in transactions.

Law: a group keeps the place of the writer, in the transactions that hold the records: no record is
visible without the place behind it, nor the place without the records. So whoever goes on, in this
process or the next, learns from the group where to go on, whatever happened to a transaction.

The steps are those of KIP-98's first protocol, which all brokers since Kafka 0.11 know: partitions
and groups are added before they are written to, and the epoch stays from one transaction to the
next. So a request whose answer got lost may arrive late, and would then count for the next
transaction: a producer that `lost_an_answer` must make way for a new one once its transaction has
ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.cluster_requests import (
    GROUP,
    TRANSACTIONAL_ID,
    Coordinated,
    ask_coordinator,
)
from kbroker.client.record_sender import (
    RecordProducer,
    RecordSender,
    SendOptions,
    TransactionLostError,
)
from kbroker.client.topic_rows import numbers_by_topic
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.error_response import error_codes
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.schema import Message
from kbroker.record.compression import NONE

_PAUSE_S = 0.1
_WAITING = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT)
_LOST = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
)


class Position(NamedTuple):
    """A committed place: the next offset (-1: nothing is committed), and a note."""

    offset: int
    metadata: str = ""


NOTHING = Position(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterIdentity:
    """A writer that is the same in each run, and at most one at a time. Its place is what `group`
    has committed for `partition`.

    Coordinators leave an open transaction alone for `timeout_ms`; brokers that are away are waited
    for up to `patience_s`.
    """

    transactional_id: str
    group: str
    partition: TopicPartition
    timeout_ms: int = 60_000
    patience_s: float = 60.0


class TransactionalProducer:
    """Writes between `add_partitions` and `commit`, through a `sender`; blocks.

    Owned by one thread. Methods raise TransactionLostError, and what the constructor raises.
    """

    producer: RecordProducer | None  # what the sender writes with

    def __init__(
        self,
        cluster: ClusterLinks,
        identity: WriterIdentity,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the id over: what its last producer left open is aborted, or ends as was decided.

        Raises ClientError, KafkaError and OSError if the cluster gives no producer id within the
        patience of the identity.
        """
        self.lost_an_answer = False
        self._cluster, self._identity, self._now_s = cluster, identity, now_s
        self._added: set[TopicPartition] = set()
        self.producer = self._begin()
        self.place = self._committed()

    def sender(
        self,
        view: TopicView,
        compression: int = NONE,
        on_written: Callable[[int, int, int], None] = lambda _partition, _records, _offset: None,
    ) -> RecordSender:
        """Return the sender into a topic; each body ends with its own headers."""
        options = SendOptions(
            compression=compression,
            headers=None,
            patience_s=self._identity.patience_s,
            producer=self.producer,
            on_written=on_written,
        )
        return RecordSender(self._cluster, view, options)

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions part of the transaction; the first ones begin it."""
        wanted = set(partitions) - self._added
        if not wanted:
            return
        producer_id, epoch, _ = self._producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._identity.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in numbers_by_topic(sorted(wanted)).items()
            ],
        )
        self._ask(request)
        self._added |= wanted

    def commit(self, place: Position) -> None:
        """End the transaction: the records are committed together with this place, and readers see
        them a moment later, when its markers are written.
        """
        identity = self._identity
        producer_id, epoch, _ = self._producer
        self._ask(
            AddOffsetsToTxnRequest(
                transactional_id=identity.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                group_id=identity.group,
            )
        )
        row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=identity.partition.partition,
            committed_offset=place.offset,
            committed_metadata=place.metadata,
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
            name=identity.partition.topic, partitions=[row]
        )
        request = TxnOffsetCommitRequest(
            transactional_id=identity.transactional_id,
            group_id=identity.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[topic],
        )
        self._ask(request, GROUP)
        self._end(is_commit=True)
        self.place = place

    def abort(self) -> None:
        """End the transaction: nothing that was written in it will ever be visible."""
        if self._added:
            self._end(is_commit=False)

    def _begin(self) -> RecordProducer | None:
        identity = self._identity
        request = InitProducerIdRequest(
            transactional_id=identity.transactional_id,
            transaction_timeout_ms=identity.timeout_ms,
        )
        answer = self._ask(request)
        self.lost_an_answer = False  # a late request for an id fences this one, which shows
        return RecordProducer(answer.producer_id, answer.producer_epoch, identity.transactional_id)

    def _committed(self) -> Position:
        """Return the place in the group, once no transaction can change it."""
        identity = self._identity
        topic, number = identity.partition
        request = OffsetFetchRequest(
            group_id=identity.group,
            topics=[
                OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[number])
            ],
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id=identity.group,
                    topics=[
                        OffsetFetchRequest.OffsetFetchRequestTopics(
                            name=topic, partition_indexes=[number]
                        )
                    ],
                )
            ],
            require_stable=True,
        )
        answer = self._ask(request, GROUP)
        found = answer.groups[0] if answer.groups else answer  # one of many from version 8 on
        (row,) = found.topics[0].partitions
        return Position(row.committed_offset, row.metadata or "")

    @property
    def _producer(self) -> RecordProducer:
        assert self.producer is not None, "transactions have a producer"
        return self.producer

    def _end(self, *, is_commit: bool) -> None:
        producer_id, epoch, _ = self._producer
        request = EndTxnRequest(
            transactional_id=self._identity.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=is_commit,
        )
        # It may be sent twice: a coordinator that has ended the transaction so says so again.
        self._ask(request)
        self._added.clear()

    def _ask(self, request: Message, kind: Coordinated = TRANSACTIONAL_ID) -> Any:
        """Ask a coordinator, of the id or the group, until it does it, or refuses for good."""
        identity = self._identity
        name = identity.group if kind is GROUP else identity.transactional_id
        give_up_s = self._now_s() + identity.patience_s
        while True:
            refusal: Exception
            try:
                _, answer = ask_coordinator(self._cluster, name, request, kind)
            except (OSError, ClientError) as error:
                self.lost_an_answer |= not isinstance(error, (ConnectionRefusedError, ClientError))
                refusal = error
            except KafkaError as error:
                if not error.code.retriable:
                    raise
                refusal = error
            else:
                self.lost_an_answer |= self._cluster.is_repeated(request)
                codes = [ErrorCode(code) for code in error_codes(answer) if code]
                if not codes:
                    return answer
                refusal = self._refusal(request, codes)
            if self._now_s() > give_up_s:
                raise refusal
            self._cluster.sleep(_PAUSE_S)

    def _refusal(self, request: Message, codes: list[ErrorCode]) -> KafkaError:
        """Return a refusal that may pass. Raises TransactionLostError and KafkaError for others."""
        meant = [code for code in codes if code is not ErrorCode.OPERATION_NOT_ATTEMPTED] or codes
        code, name = meant[0], self._identity.transactional_id
        if code in _LOST:
            raise TransactionLostError(name, code)
        refusal = KafkaError(code, f"{type(request).__name__.removesuffix('Request')} of {name}")
        if not (code.retriable or code in _WAITING):
            raise refusal
        return refusal
