"""AddPartitionsToTxn (24): partitions take part in a producer's transaction (KIP-98, KIP-890).

v2: PRODUCER_FENCED is known. v4: for brokers: several transactions, which may be asked about only
(`verify_only`). v5: Same content as v4. All partitions of a transaction are added or none: where
one is refused, the others get OPERATION_NOT_ATTEMPTED. Of transactions that are named more than
once the first counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from kbroker.apis.authorization import (
    REFUSALS,
    AskedInside,
    ForRequest,
    the_cluster,
)
from kbroker.apis.authorizer import AclOperation, Resource, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.fenced_producers import FIRST_TRANSACTION_VERSION, as_known
from kbroker.apis.large_requests import AS_A_WHOLE, in_turns
from kbroker.apis.registry import api
from kbroker.coordinator.transaction.transaction import (
    WITH_EPOCHS,
    WITHOUT_EPOCHS,
    Producer,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.peers.cluster_action import LAST_OF_CLIENTS
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)

_LAST_OF_CLIENTS = LAST_OF_CLIENTS[ApiKey.ADD_PARTITIONS_TO_TXN]

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
Codes = dict[TopicPartition, ErrorCode]


def _transaction(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> Resource | None:
    if ctx.api_version > _LAST_OF_CLIENTS:
        return None
    return Resource(ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)


def _cluster(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> Resource | None:
    return the_cluster(ctx, request) if ctx.api_version > _LAST_OF_CLIENTS else None


@api(
    AddPartitionsToTxnRequest,
    ForRequest(AclOperation.CLUSTER_ACTION, _cluster),
    ForRequest(AclOperation.WRITE, _transaction),
    AskedInside(AclOperation.WRITE, ResourceType.TOPIC),
    parts=AS_A_WHOLE,
)
async def handle(
    ctx: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add the partitions of each transaction, or look for them there."""
    if ctx.api_version <= _LAST_OF_CLIENTS:
        codes = await _codes(ctx, _of_client(request))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(codes))
    by_id = {each.transactional_id: each for each in reversed(request.transactions)}
    all_codes = await asyncio.gather(*(_codes(ctx, each) for each in by_id.values()))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=transactional_id, topic_results=_topic_results(codes)
            )
            for transactional_id, codes in zip(by_id, all_codes, strict=True)
        ]
    )


def _of_client(request: AddPartitionsToTxnRequest) -> Transaction:
    return Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _codes(ctx: RequestContext, asked: Transaction) -> Codes:
    """The code of each partition of one transaction."""
    partitions = _partitions(asked.topics)
    refused: Codes = {}
    await in_turns(_look_at(ctx, partitions, refused))
    if refused:
        return {
            partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
            for partition in partitions
        }
    producer = Producer(asked.producer_id, asked.producer_epoch)
    transactions = ctx.services.transactions
    try:
        if asked.verify_only:
            return transactions.verify(asked.transactional_id, producer, partitions)
        is_from_client = ctx.api_version <= _LAST_OF_CLIENTS
        await transactions.add_partitions(
            asked.transactional_id,
            producer,
            partitions,
            client_version=WITHOUT_EPOCHS if is_from_client else WITH_EPOCHS,
        )
    except KafkaError as error:
        code = as_known(error.code, ctx.api_version, FIRST_TRANSACTION_VERSION)
        return dict.fromkeys(partitions, code)
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _partitions(topics: Iterable[Topic]) -> list[TopicPartition]:
    """Each once."""
    named = (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)
    return list(dict.fromkeys(named))


def _look_at(
    ctx: RequestContext, partitions: list[TopicPartition], refused: Codes
) -> Iterator[None]:
    """Find those that cannot take part: clients may not write to internal topics."""
    denied: frozenset[str] = frozenset()
    if ctx.api_version <= _LAST_OF_CLIENTS:
        names = frozenset(partition.topic for partition in partitions)
        denied = names & INTERNAL_TOPICS
        denied |= ctx.refused(AclOperation.WRITE, ResourceType.TOPIC, names - denied)
    for partition in partitions:
        if partition.topic in denied:
            refused[partition] = REFUSALS[ResourceType.TOPIC]
        elif not ctx.services.metadata.contains(partition):
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield


def _topic_results(codes: Codes) -> list[TopicResult]:
    topics: dict[str, TopicResult] = {}
    for (name, index), code in codes.items():
        topic = topics.setdefault(name, TopicResult(name=name))
        topic.results_by_partition.append(
            PartitionResult(partition_index=index, partition_error_code=code)
        )
    return list(topics.values())
