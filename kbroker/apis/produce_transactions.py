"""The stage of Produce before transactional batches are appended: each partition in which a batch
would begin its transaction is verified with the transaction's coordinator (KIP-890).

Law: batches of transactions that are open in their partition wait for nothing, and other records
never come here. The codes are those of Kafka 3.9: what passes becomes NOT_ENOUGH_REPLICAS, which
makes every producer send the batch again and look nothing up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import NamedTuple

from kbroker.apis.context import RequestContext
from kbroker.coordinator.add_partitions_to_txn_manager import Codes, Participation
from kbroker.coordinator.transaction.transaction import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.producers.verification import TransactionalBatch, VerificationState
from kbroker.model import TopicPartition
from kbroker.replication.produce_request import ProduceWork

FIRST_VERSION_WITH_ABORTABLE = 11

_NONE = ErrorCode.NONE
_NOT_ADDED = "Partition was not added to the transaction"
_PASSING = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
_FINAL = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH})


class _Begun(NamedTuple):
    batch: TransactionalBatch
    state: VerificationState
    producers: ProducerStateManager


def verify_transaction(
    ctx: RequestContext,
    transactional_id: str,
    batches: Mapping[TopicPartition, TransactionalBatch],
    work: ProduceWork,
) -> Awaitable[None] | None:
    """Refuse the partitions that take no part in the transaction; what is left may be appended, now
    or when what is returned is done.

    KafkaError INVALID_PRODUCER_ID_MAPPING where more than one producer writes.
    """
    producers = {Producer(*batch[:2]) for batch in batches.values()}
    if len(producers) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    begun = _begin(ctx, batches, work)
    if not begun:
        return None
    if not ctx.services.participation.is_enabled():
        for batch, state, _ in begun.values():
            state.verify(batch.producer_epoch)
        return None
    asked = Participation(transactional_id, producers.pop(), tuple(begun))
    codes = ctx.services.participation.verify(asked)
    if isinstance(codes, dict):
        _take(codes, begun, ctx.api_version, work)
        return None
    return _take_later(codes, begun, ctx.api_version, work)


def _begin(
    ctx: RequestContext, batches: Mapping[TopicPartition, TransactionalBatch], work: ProduceWork
) -> dict[TopicPartition, _Begun]:
    """The partitions in which these batches would begin their transaction."""
    hosted, now_ms = ctx.services.replicas.hosted, ctx.services.clock.now_ms()
    begun = {}
    for topic_partition, batch in batches.items():
        try:
            partition = hosted.get(topic_partition)
            partition.check_leads()
        except KafkaError as error:
            work.refuse_entry(topic_partition, error.code)
            continue
        producers = partition.log.producer_state
        state = producers.begin_verification(batch, now_ms)
        if state is not None:
            begun[topic_partition] = _Begun(batch, state, producers)
    return begun


async def _take_later(
    codes: Awaitable[Codes],
    begun: Mapping[TopicPartition, _Begun],
    version: int,
    work: ProduceWork,
) -> None:
    _take(await codes, begun, version, work)


def _take(
    codes: Codes, begun: Mapping[TopicPartition, _Begun], version: int, work: ProduceWork
) -> None:
    """Note the coordinator's word."""
    for topic_partition, (batch, state, producers) in begun.items():
        code, message = _told(codes[topic_partition], version)
        if code is _NONE:
            state.verify(batch.producer_epoch)
            continue
        work.refuse_entry(topic_partition, code, message)
        if code in _FINAL:
            producers.end_verification(batch, state)


def _told(code: ErrorCode, version: int) -> tuple[ErrorCode, str | None]:
    """Say the coordinator's answer in the code, and the text, that a producer gets."""
    if code in _PASSING:
        return (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {code.name}",
        )
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH, None
    is_old = version < FIRST_VERSION_WITH_ABORTABLE
    if code in {ErrorCode.INVALID_TXN_STATE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED} or (
        code is ErrorCode.TRANSACTION_ABORTABLE and is_old
    ):
        return ErrorCode.INVALID_TXN_STATE, _NOT_ADDED
    return code, None
