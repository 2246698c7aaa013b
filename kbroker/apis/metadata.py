"""Metadata (key 3), versions 0 to 13: brokers, controller, topics, and who leads their partitions.

v0: an empty list means all topics. v1: null does. v4: the client may forbid auto creation. v5:
offline replicas. v7: leader epochs. v8: authorized operations (of the cluster up to v10). v10:
topic ids. v12: topics asked for by id. A missing topic that may be created is created first;
LEADER_NOT_AVAILABLE makes the client ask again if that takes long, any other code says why it
cannot be created.

An answer without a refusal is kept until the cluster changes (`kept_metadata`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kbroker.acl.acl import CLUSTER, AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import ALLOW_ALL, Purpose
from kbroker.apis.context import RequestContext
from kbroker.apis.controller_mutations import ControllerMutations
from kbroker.apis.kept_metadata import KeptMetadata
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.node_address import reachable_brokers
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Again, Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import INTERNAL_TOPICS, ZERO_UUID
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.replication.metadata_cache import OPERATIONS_NOT_ASKED
from kbroker.slices import slices
from kbroker.topic_name import is_valid_topic_name
from kbroker.turns import ENTRIES

FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_BY_ID = 12

_BYTES_OF_TOPIC = 64
_BYTES_OF_PARTITION = 48

Topic = MetadataResponse.MetadataResponseTopic
_NOTHING_CREATED: Mapping[str, ErrorCode] = MappingProxyType({})


@api(
    MetadataRequest,
    AskedInside(AclOperation.DESCRIBE, AclResourceType.TOPIC),
    AskedInside(AclOperation.CREATE, AclResourceType.CLUSTER),
    AskedInside(AclOperation.CREATE, AclResourceType.TOPIC),
    parts=Parts("topics", "topics", key="name+topic_id", again=Again.LEFT_OUT),
    known=KeptMetadata(),
)
def handle(ctx: RequestContext, request: MetadataRequest) -> NowOrLater[MetadataResponse]:
    """Describe the cluster and the topics asked for; missing ones are created if allowed."""
    topics = request.topics
    if topics is None or (not topics and ctx.api_version < FIRST_VERSION_WITH_NULL_FOR_ALL):
        names = ctx.services.metadata.topics()
        size_bytes = _bytes_of(ctx, names)
        if is_large(size_bytes):
            parts = (_describe_all(ctx, request, some) for some in slices(names, ENTRIES))
            return written(ctx, _response(ctx, request, []), "topics", parts, size_bytes)
        return _response(ctx, request, _describe_all(ctx, request, names))
    _check_names(ctx.api_version, topics)
    topics = _distinct(topics)
    hidden = _hidden(ctx, topics)
    missing = _to_be_created(ctx, request, topics) - hidden
    if missing:
        hidden |= _not_to_be_created(ctx, missing)
    if missing - hidden:
        return _create_and_answer(ctx, request, topics, missing - hidden, hidden)
    names = [topic.name or "" for topic in topics]
    if ctx.api_version >= FIRST_VERSION_BY_ID:
        names += filter(None, (ctx.services.metadata.topic_name(t.topic_id) for t in topics))
    size_bytes = _bytes_of(ctx, names)
    if is_large(size_bytes):
        parts = (_describe_and_tell(ctx, request, some, hidden) for some in slices(topics, ENTRIES))
        return written(ctx, _response(ctx, request, []), "topics", parts, size_bytes)
    return _response(ctx, request, _describe_asked(ctx, request, topics, hidden))


def _bytes_of(ctx: RequestContext, names: list[str]) -> int:
    """Return what the answer takes for these topics, about."""
    partitions = sum(map(ctx.services.metadata.partition_count, names))
    return len(names) * _BYTES_OF_TOPIC + partitions * _BYTES_OF_PARTITION


async def _create_and_answer(
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic],
    missing: frozenset[str],
    hidden: frozenset[str],
) -> MetadataResponse:
    created = await ctx.services.topics.auto_create(sorted(missing))
    mutations = ControllerMutations(ctx)  # no version knows a refusal
    for name, code in created.items():
        if code is ErrorCode.NONE:
            mutations.count(ctx.services.metadata.partition_count(name))
    return _response(ctx, request, _describe_asked(ctx, request, topics, hidden, created))


def _describe_all(ctx: RequestContext, request: MetadataRequest, names: list[str]) -> list[Topic]:
    """Describe the topics that are still there."""
    hidden = ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, names, Purpose.TO_CHOOSE)
    asked = request.include_topic_authorized_operations
    return [
        _describe(ctx, name, asked)
        for name in names
        if name not in hidden and ctx.services.metadata.contains_topic(name)
    ]


def _describe_and_tell(
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic],
    hidden: frozenset[str],
) -> list[Topic]:
    hidden |= _hidden(ctx, topics)  # also topics that have come meanwhile, asked for by their ids
    described = _describe_asked(ctx, request, topics, hidden)
    ctx.tell_refusals(request, MetadataResponse(topics=described))
    return described


def _describe_asked(
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic],
    hidden: frozenset[str],
    created: Mapping[str, ErrorCode] = _NOTHING_CREATED,
) -> list[Topic]:
    asked = request.include_topic_authorized_operations
    described = [_describe_one(ctx, topic, asked, hidden, created) for topic in topics]
    if any(topic.error_code for topic in described):
        ctx.note_refusal()
    return described


def _response(
    ctx: RequestContext, request: MetadataRequest, described: list[Topic]
) -> MetadataResponse:
    metadata = ctx.services.metadata
    cluster_asked = request.include_cluster_authorized_operations
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
        cluster_authorized_operations=(
            ctx.authorized_operations(CLUSTER) if cluster_asked else OPERATIONS_NOT_ASKED
        ),
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


def _hidden(
    ctx: RequestContext, topics: list[MetadataRequest.MetadataRequestTopic]
) -> frozenset[str]:
    """Return the topics that the client may not see: not even whether they exist."""
    if ctx.services.authorizer is ALLOW_ALL:
        return frozenset()
    names = [
        topic.name
        if topic.topic_id == ZERO_UUID
        else ctx.services.metadata.topic_name(topic.topic_id)
        for topic in topics
    ]
    named = [name for name in names if name is not None]
    return ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, named)


def _not_to_be_created(ctx: RequestContext, missing: frozenset[str]) -> frozenset[str]:
    if ctx.is_authorized(AclOperation.CREATE, CLUSTER, Purpose.TO_CHOOSE):
        return frozenset()
    return ctx.refused(AclOperation.CREATE, AclResourceType.TOPIC, missing)


def _topic_operations(ctx: RequestContext, name: str, asked: bool) -> int:
    if not asked:  # no resource is made: clients ask for thousands of topics at a time
        return OPERATIONS_NOT_ASKED
    return ctx.authorized_operations(AclResource(AclResourceType.TOPIC, name))


def _to_be_created(
    ctx: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequest.MetadataRequestTopic],
) -> frozenset[str]:
    """Return the topics that are missing and may be created."""
    if not (
        request.allow_auto_topic_creation and ctx.services.config.server.auto_create_topics_enable
    ):
        return frozenset()
    return frozenset(
        topic.name
        for topic in topics
        if topic.name is not None
        and topic.topic_id == ZERO_UUID
        and not ctx.services.metadata.contains_topic(topic.name)
        and is_valid_topic_name(topic.name)
    )


def _describe(ctx: RequestContext, name: str, asked: bool) -> Topic:
    operations = _topic_operations(ctx, name, asked)
    listener_name = ctx.connection.listener_name
    found = ctx.services.metadata.describe_topic(name, ctx.api_version, listener_name, operations)
    assert found is not None, f"{name} is in the cache"
    return found


def _describe_one(
    ctx: RequestContext,
    topic: MetadataRequest.MetadataRequestTopic,
    asked: bool,
    hidden: frozenset[str],
    created: Mapping[str, ErrorCode],
) -> Topic:
    name = topic.name
    is_by_id = topic.topic_id != ZERO_UUID
    if is_by_id:
        name = ctx.services.metadata.topic_name(topic.topic_id)
        if name is None:
            return Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic.topic_id)
    elif name is None:  # neither name nor id: Kafka's answer to this too
        return Topic(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, name="")
    if name in hidden:  # an id is not a secret, a name is
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return Topic(error_code=code, name=None if is_by_id else name, topic_id=topic.topic_id)
    if ctx.services.metadata.contains_topic(name):
        return _describe(ctx, name, asked)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif name in created:
        code = created[name] or ErrorCode.LEADER_NOT_AVAILABLE  # or it is gone again
    return Topic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=_topic_operations(ctx, name, asked),
    )
