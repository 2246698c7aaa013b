"""Metadata (key 3), versions 0 to 13: brokers, controller, topics, and who leads their partitions.

v0: an empty list means all topics. v1: null does. v4: the client may forbid auto creation. v5:
offline replicas. v7: leader epochs. v8: authorized operations (of the cluster up to v10). v10:
topic ids. v12: topics asked for by id. A missing topic that may be created is created first;
LEADER_NOT_AVAILABLE makes the client ask again if that takes long, any other code says why it
cannot be created.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import MappingProxyType

from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import Parts
from kbroker.apis.node_address import reachable_brokers
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import INTERNAL_TOPICS, ZERO_UUID
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.replication.metadata_cache import (
    CLUSTER_OPERATIONS,
    OPERATIONS_NOT_ASKED,
    TOPIC_OPERATIONS,
)
from kbroker.replication.topic_name import is_valid_topic_name

FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_BY_ID = 12

Topic = MetadataResponse.MetadataResponseTopic
_NOTHING_CREATED: Mapping[str, ErrorCode] = MappingProxyType({})


@api(MetadataRequest, serves="0-13", parts=Parts("topics", "topics", key="name"))
def handle(
    ctx: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describe the cluster and the topics asked for; missing ones are created where allowed."""
    topics = request.topics
    if topics is None or (not topics and ctx.api_version < FIRST_VERSION_WITH_NULL_FOR_ALL):
        return _response(ctx, request, None)
    _check_names(ctx.api_version, topics)
    topics = _distinct(topics)
    missing = _to_be_created(ctx, request, topics)
    if missing:
        return _create_and_answer(ctx, request, topics, missing)
    return _response(ctx, request, topics)


async def _create_and_answer(
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic],
    missing: frozenset[str],
) -> MetadataResponse:
    created = await ctx.topics.auto_create(sorted(missing))
    return _response(ctx, request, topics, created)


def _response(
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic] | None,
    created: Mapping[str, ErrorCode] = _NOTHING_CREATED,
) -> MetadataResponse:
    metadata = ctx.metadata
    asked = request.include_topic_authorized_operations
    operations = TOPIC_OPERATIONS if asked else OPERATIONS_NOT_ASKED
    cluster_asked = request.include_cluster_authorized_operations
    if topics is None:
        described = [_describe(ctx, name, operations) for name in metadata.topics()]
    else:
        described = [_describe_asked(ctx, topic, operations, created) for topic in topics]
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.broker_id, host=host, port=port, rack=broker.rack
            )
            for broker, host, port in reachable_brokers(ctx.connection, metadata)
        ],
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        topics=described,
        cluster_authorized_operations=CLUSTER_OPERATIONS if cluster_asked else OPERATIONS_NOT_ASKED,
    )


def _check_names(version: int, topics: list[MetadataRequest.MetadataRequestTopic]) -> None:
    """Versions 10 and 11 have a field for ids and null names, but no meaning for them."""
    if version >= FIRST_VERSION_BY_ID:
        return
    for topic in topics:
        if topic.name is None or topic.topic_id != ZERO_UUID:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Topics are asked for by name in version {version}"
            )


def _distinct(
    topics: list[MetadataRequest.MetadataRequestTopic],
) -> list[MetadataRequest.MetadataRequestTopic]:
    """Each topic once. Where any is asked for by id, the names mean nothing, as in Kafka."""
    by_id = {topic.topic_id: topic for topic in topics if topic.topic_id != ZERO_UUID}
    return list(by_id.values() or {topic.name: topic for topic in topics}.values())


def _to_be_created(
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic],
) -> frozenset[str]:
    """What is missing and may be created."""
    if not (request.allow_auto_topic_creation and ctx.config.server.auto_create_topics_enable):
        return frozenset()
    return frozenset(
        topic.name
        for topic in topics
        if topic.name is not None
        and topic.topic_id == ZERO_UUID
        and not ctx.metadata.contains_topic(topic.name)
        and is_valid_topic_name(topic.name)
    )


def _describe(ctx: RequestContext, name: str, operations: int) -> Topic:
    listener_name = ctx.connection.listener_name
    found = ctx.metadata.describe_topic(name, ctx.api_version, listener_name, operations)
    assert found is not None, f"{name} is in the cache"
    return found


def _describe_asked(
    ctx: RequestContext,
    topic: MetadataRequest.MetadataRequestTopic,
    operations: int,
    created: Mapping[str, ErrorCode],
) -> Topic:
    name = topic.name
    if topic.topic_id != ZERO_UUID:
        name = ctx.metadata.topic_name(topic.topic_id)
        if name is None:
            return Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic.topic_id)
    elif name is None:  # neither name nor id: Kafka's answer to this too
        return Topic(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, name="")
    if ctx.metadata.contains_topic(name):
        return _describe(ctx, name, operations)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif name in created:
        code = created[name] or ErrorCode.LEADER_NOT_AVAILABLE  # or it is gone again
    return Topic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )
