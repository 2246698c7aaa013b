"""The stage of Produce and TxnOffsetCommit before transactional batches are appended: each
partition in which a batch would begin its transaction is verified with the transaction's
coordinator (KIP-890). Newer requests have the coordinator add it instead.

Law: batches of transactions that are open in their partition wait for nothing, and other records
never come here. Codes are those of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.coordinator.transaction.participation import Codes, Participation
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.producers.verification import TransactionalBatch, VerificationState
from kbroker.model import TopicPartition

# As add.partitions.to.txn.retry.backoff.ms, and the same with .max, of Kafka 4.
RETRY_BACKOFF_MS = 20
RETRY_MAX_MS = 100

_FINAL = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_REQUEST,  # the transactional id is empty, which no producer has
    }
)


class Joining(Enum):
    """How partitions come to take part in a transaction, as the version of a request says."""

    BEFORE = 0  # their producer has added them; INVALID_TXN_STATE if it has not
    ABORTABLE = 1  # it has added them; TRANSACTION_ABORTABLE if it has not
    NOW = 2  # they are added with the first batch

    @classmethod
    def of(cls, version: int, first_abortable: int, first_now: int) -> Joining:
        """Tell it by the version."""
        if version >= first_now:
            return cls.NOW
        return cls.ABORTABLE if version >= first_abortable else cls.BEFORE


class _Begun(NamedTuple):
    batch: TransactionalBatch
    state: VerificationState
    producers: ProducerStateManager


def refused_partitions(
    ctx: RequestContext,
    transactional_id: str,
    batches: Mapping[TopicPartition, TransactionalBatch],
    how: Joining,
) -> NowOrLater[Codes]:
    """Return the partitions to which these batches may not be appended, and why: the partition is
    not led here, has records of a newer epoch, takes no part in the transaction, or its coordinator
    could not be asked. All batches are of one producer.
    """
    refused: Codes = {}
    begun = _begin(ctx, batches, refused)
    if not begun:
        return refused
    if how is Joining.NOW:
        return _added(ctx, transactional_id, batches)
    participation = ctx.services.participation
    if not participation.is_enabled():
        for batch, state, _ in begun.values():
            state.verify(batch.producer_epoch)
        return refused
    asked = Participation(transactional_id, _producer(batches), tuple(begun))
    return then(participation.verify(asked), _take, begun, refused, how)


def _producer(batches: Mapping[TopicPartition, TransactionalBatch]) -> Producer:
    return Producer(*next(iter(batches.values()))[:2])


async def _added(
    ctx: RequestContext,
    transactional_id: str,
    batches: Mapping[TopicPartition, TransactionalBatch],
) -> Codes:
    """Have the partitions added; say which cannot be.

    A producer's next batch comes as soon as it knows how the transaction before ends, mostly before
    all partitions know: so they are waited for here, for a short time.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + RETRY_MAX_MS / 1000
    while True:
        refused: Codes = {}
        begun = _begin(ctx, batches, refused)
        if not begun:
            return refused
        asked = Participation(transactional_id, _producer(batches), tuple(begun), adds=True)
        _take(await ctx.services.participation.add(asked), begun, refused, Joining.NOW)
        is_busy = ErrorCode.CONCURRENT_TRANSACTIONS in refused.values()
        if not is_busy or loop.time() >= end_s:
            return refused
        await asyncio.sleep(RETRY_BACKOFF_MS / 1000)


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
            producers = partition.log.producer_state
            state = producers.begin_verification(batch, now_ms)
        except KafkaError as error:
            refused[topic_partition] = error.code
            continue
        if state is not None:
            begun[topic_partition] = _Begun(batch, state, producers)
    return begun


def _take(
    codes: Codes,
    begun: Mapping[TopicPartition, _Begun],
    refused: Codes,
    how: Joining,
) -> Codes:
    for topic_partition, (batch, state, producers) in begun.items():
        code = _known(codes[topic_partition], how)
        if how is Joining.NOW and code is NO_ERROR and not producers.is_asked(batch, state):
            code = ErrorCode.CONCURRENT_TRANSACTIONS  # the end of the one before came meanwhile
        if code is NO_ERROR:
            state.verify(batch.producer_epoch, begins_at_zero=how is Joining.NOW)
            continue
        refused[topic_partition] = code
        if code in _FINAL:
            producers.end_verification(batch, state)
    return refused


def _known(code: ErrorCode, how: Joining) -> ErrorCode:
    """Return the coordinator's code as clients know it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED or (
        code is ErrorCode.TRANSACTION_ABORTABLE and how is Joining.BEFORE
    ):
        return ErrorCode.INVALID_TXN_STATE
    return code
