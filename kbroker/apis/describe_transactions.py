"""DescribeTransactions (65): transactional ids as their coordinator has them stored (KIP-664).

v0: each id has its own outcome. Of the partitions that take part, those are told whose topics the
client may describe.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.apis.authorization import ForEach, named_transactional_id
from kbroker.apis.authorizer import AclOperation, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import Parts
from kbroker.apis.registry import api
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

State = DescribeTransactionsResponse.TransactionState
Topic = DescribeTransactionsResponse.TopicData


@api(
    DescribeTransactionsRequest,
    ForEach(
        operation=AclOperation.DESCRIBE,
        resource=named_transactional_id,
        asked="transactional_ids",
        answered="transaction_states",
    ),
    parts=Parts("transactional_ids", "transaction_states"),
)
def handle(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each id."""
    return DescribeTransactionsResponse(
        transaction_states=[_described(ctx, name) for name in request.transactional_ids]
    )


def _described(ctx: RequestContext, transactional_id: str) -> State:
    try:
        found = ctx.services.transactions.describe(transactional_id)
    except KafkaError as error:
        return State(transactional_id=transactional_id, error_code=error.code)
    return State(
        transactional_id=transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer.producer_id,
        producer_epoch=found.producer.epoch,
        topics=_topics(ctx, found.partitions),
    )


def _topics(ctx: RequestContext, partitions: Iterable[TopicPartition]) -> list[Topic]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    hidden = ctx.refused(AclOperation.DESCRIBE, ResourceType.TOPIC, by_topic)
    return [
        Topic(topic=topic, partitions=indexes)
        for topic, indexes in by_topic.items()
        if topic not in hidden
    ]
