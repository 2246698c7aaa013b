"""DescribeTopicPartitions (key 75), version 0: topics and their partitions, page by page (KIP-966).

A page begins at the cursor and holds so many partitions as the request and
`max.request.partition.size.limit` allow, one at least; topics come by name. No more topics than
that setting says are in a page either: Kafka has all that are missing in one, however many.

Where ZooKeeper keeps the partitions' states, no replica outside of the ISR may lead, so both lists
of such are empty.
"""

from __future__ import annotations

from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import AclOperation, Resource, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import INTERNAL_TOPICS, NO_LEADER
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kbroker.replication.metadata_cache import PartitionState
from kbroker.replication.topic_name import is_valid_topic_name

Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


@api(DescribeTopicPartitionsRequest, AskedInside(AclOperation.DESCRIBE, ResourceType.TOPIC))
def handle(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe one page of the topics asked for, or of all."""
    names = _names(ctx, request)
    hidden = ctx.refused(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    response = _page(ctx, request, [name for name in names if name not in hidden])
    if request.topics:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [Topic(error_code=code, name=name) for name in sorted(hidden)]
    return response


def _names(ctx: RequestContext, request: DescribeTopicPartitionsRequest) -> list[str]:
    """List the topics asked for from the cursor on, in order. Raises KafkaError INVALID_REQUEST."""
    names = {topic.name for topic in request.topics} or set(ctx.services.metadata.topics())
    cursor = request.cursor
    if cursor is None:
        return sorted(names)
    is_asked_for = not request.topics or cursor.topic_name in names
    if not is_asked_for or cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return sorted(name for name in names if name >= cursor.topic_name)


def _page(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, names: list[str]
) -> DescribeTopicPartitionsResponse:
    metadata, cursor = ctx.services.metadata, request.cursor
    most = ctx.services.config.socket_server.max_request_partition_size_limit
    left = max(1, min(most, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if left == 0 or len(response.topics) >= most:
            response.next_cursor = _cursor(name, 0)
            break
        if not metadata.contains_topic(name):
            if request.topics:
                response.topics.append(_missing(name))
            continue
        start = cursor.partition_index if cursor and cursor.topic_name == name else 0
        states = metadata.partition_states(name)
        numbers = sorted(number for number in states if number >= start)
        page, later = numbers[:left], numbers[left:]
        response.topics.append(_described(ctx, name, [states[number] for number in page]))
        if later:
            response.next_cursor = _cursor(name, later[0])
            break
        left -= len(page)
    return response


def _cursor(topic: str, partition: int) -> DescribeTopicPartitionsResponse.Cursor:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=topic, partition_index=partition)


def _missing(name: str) -> Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return Topic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _described(ctx: RequestContext, name: str, states: list[PartitionState]) -> Topic:
    return Topic(
        name=name,
        topic_id=ctx.services.metadata.topic_id(name),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(ctx, state) for state in states],
        topic_authorized_operations=ctx.authorized_operations(Resource(ResourceType.TOPIC, name)),
    )


def _partition(ctx: RequestContext, state: PartitionState) -> Partition:
    listener_name = ctx.connection.listener_name
    is_reachable = ctx.services.metadata.end_point(state.leader, listener_name) is not None
    return Partition(
        partition_index=state.partition_index,
        leader_id=state.leader if is_reachable else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(state.offline_replicas),
    )
