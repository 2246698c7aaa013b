"""AddPartitionsToTxn (24): partitions take part in a producer's transaction (KIP-98, KIP-890).

v2: PRODUCER_FENCED is known. v4: for brokers: several transactions, which may be asked about only
(`verify_only`). v5: Same content as v4. All partitions of a transaction are added or none: if one
is refused, the others get OPERATION_NOT_ATTEMPTED. Of transactions that are named more than once
the first counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import (
    REFUSALS,
    AskedInside,
    ForRequest,
    the_cluster,
)
from kbroker.apis.context import RequestContext
from kbroker.apis.fenced_producers import FIRST_TRANSACTION_VERSION, as_known
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.coordinator.transaction.producer import Producer
from kbroker.coordinator.transaction.transaction import WITH_EPOCHS, WITHOUT_EPOCHS
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.peers.cluster_action import LAST_OF_CLIENTS
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kbroker.turns import in_turns

_LAST_OF_CLIENTS = LAST_OF_CLIENTS[ApiKey.ADD_PARTITIONS_TO_TXN]

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
Codes = dict[TopicPartition, ErrorCode]


def _transaction(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AclResource | None:
    if ctx.api_version > _LAST_OF_CLIENTS:
        return None
    return AclResource(AclResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)


def _cluster(ctx: RequestContext, request: AddPartitionsToTxnRequest) -> AclResource | None:
    return the_cluster(ctx, request) if ctx.api_version > _LAST_OF_CLIENTS else None


@api(
    AddPartitionsToTxnRequest,
    ForRequest(AclOperation.CLUSTER_ACTION, _cluster),
    ForRequest(AclOperation.WRITE, _transaction),
    AskedInside(AclOperation.WRITE, AclResourceType.TOPIC),
    parts=AS_A_WHOLE,
)
async def handle(
    ctx: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add the partitions of each transaction, or look for them there."""
    if ctx.api_version <= _LAST_OF_CLIENTS:
        results = await _results(ctx, _of_client(request))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    by_id = {each.transactional_id: each for each in reversed(request.transactions)}
    all_results = await asyncio.gather(*(_results(ctx, each) for each in by_id.values()))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
                transactional_id=transactional_id, topic_results=results
            )
            for transactional_id, results in zip(by_id, all_results, strict=True)
        ]
    )


def _of_client(request: AddPartitionsToTxnRequest) -> Transaction:
    return Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _results(ctx: RequestContext, asked: Transaction) -> list[TopicResult]:
    """The answer to one transaction: a code for each partition, each once."""
    codes: Codes = {}
    await in_turns(_look_at(ctx, asked.topics, codes))
    of_accepted = ErrorCode.OPERATION_NOT_ATTEMPTED
    if not any(codes.values()):
        codes, of_accepted = await _outcome(ctx, asked, codes), ErrorCode.NONE
    found: dict[str, TopicResult] = {}
    await in_turns(_fill(codes, of_accepted, found))
    return list(found.values())


def _look_at(ctx: RequestContext, topics: Iterable[Topic], codes: Codes) -> Iterator[None]:
    """Find the partitions that cannot take part: clients may not write to internal topics. Yields
    after each partition, and after each topic.
    """
    contains = ctx.services.metadata.contains
    for topic in topics:
        is_denied = _is_denied(ctx, topic.name)
        for index in topic.partitions:
            partition = TopicPartition(topic.name, index)
            if is_denied:
                codes[partition] = REFUSALS[AclResourceType.TOPIC]
            elif contains(partition):
                codes[partition] = ErrorCode.NONE
            else:
                codes[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield
        yield


def _is_denied(ctx: RequestContext, topic: str) -> bool:
    if ctx.api_version > _LAST_OF_CLIENTS:
        return False
    return topic in INTERNAL_TOPICS or not ctx.is_authorized(
        AclOperation.WRITE, AclResource(AclResourceType.TOPIC, topic)
    )


async def _outcome(
    ctx: RequestContext, asked: Transaction, partitions: Collection[TopicPartition]
) -> Codes:
    """Ask the coordinator; all of them can take part."""
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


def _fill(codes: Codes, of_accepted: ErrorCode, found: dict[str, TopicResult]) -> Iterator[None]:
    for (name, index), code in codes.items():
        topic = found.get(name)
        if topic is None:
            topic = found[name] = TopicResult(name=name)
        topic.results_by_partition.append(
            PartitionResult(partition_index=index, partition_error_code=code or of_accepted)
        )
        yield
