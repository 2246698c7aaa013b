"""The stage of Produce and TxnOffsetCommit before transactional batches are appended: each
partition in which a batch would begin its transaction is verified with the transaction's
coordinator (KIP-890).

Law: batches of transactions that are open in their partition wait for nothing, and other records
never come here. Codes are those of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.coordinator.add_partitions_to_txn_manager import Codes, Participation
from kbroker.coordinator.transaction.transaction import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.producers.verification import TransactionalBatch, VerificationState
from kbroker.model import TopicPartition

_NONE = ErrorCode.NONE
_FINAL = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH})


class _Begun(NamedTuple):
    batch: TransactionalBatch
    state: VerificationState
    producers: ProducerStateManager


def refused_partitions(
    ctx: RequestContext,
    transactional_id: str,
    batches: Mapping[TopicPartition, TransactionalBatch],
    *,
    knows_abortable: bool,
) -> NowOrLater[Codes]:
    """Say where these batches may not be appended, and why: the partition is not led here, takes no
    part in the transaction, or its coordinator could not be asked. All are of one producer.

    Without `knows_abortable` the client gets INVALID_TXN_STATE for TRANSACTION_ABORTABLE.
    """
    refused: Codes = {}
    begun = _begin(ctx, batches, refused)
    if not begun:
        return refused
    participation = ctx.services.participation
    if not participation.is_enabled():
        for batch, state, _ in begun.values():
            state.verify(batch.producer_epoch)
        return refused
    producer = Producer(*next(iter(batches.values()))[:2])
    asked = Participation(transactional_id, producer, tuple(begun))
    return then(participation.verify(asked), _take, begun, refused, knows_abortable)


def _begin(
    ctx: RequestContext, batches: Mapping[TopicPartition, TransactionalBatch], refused: Codes
) -> dict[TopicPartition, _Begun]:
    """Return the partitions in which these batches would begin their transaction."""
    hosted, now_ms = ctx.services.replicas.hosted, ctx.services.clock.now_ms()
    begun = {}
    for topic_partition, batch in batches.items():
        try:
            partition = hosted.get(topic_partition)
            partition.check_leads()
        except KafkaError as error:
            refused[topic_partition] = error.code
            continue
        producers = partition.log.producer_state
        state = producers.begin_verification(batch, now_ms)
        if state is not None:
            begun[topic_partition] = _Begun(batch, state, producers)
    return begun


def _take(
    codes: Codes,
    begun: Mapping[TopicPartition, _Begun],
    refused: Codes,
    knows_abortable: bool,
) -> Codes:
    """Note the coordinator's word."""
    for topic_partition, (batch, state, producers) in begun.items():
        code = _known(codes[topic_partition], knows_abortable)
        if code is _NONE:
            state.verify(batch.producer_epoch)
            continue
        refused[topic_partition] = code
        if code in _FINAL:
            producers.end_verification(batch, state)
    return refused


def _known(code: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """Return the coordinator's code as clients know it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED or (
        code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable
    ):
        return ErrorCode.INVALID_TXN_STATE
    return code
