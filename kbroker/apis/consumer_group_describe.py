"""ConsumerGroupDescribe (key 69), versions 0 and 1: consumer groups of KIP-848 with their members,
the partitions that these have, and those that they shall have.

v1: which protocol a member speaks. Where consumer groups are not served, all of it is refused with
UNSUPPORTED_VERSION, as by Kafka, whose clients then ask DescribeGroups. A group whose members have
a partition of a topic that the client may not see is refused whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside, ForEach, named_group
from kbroker.apis.context import RequestContext
from kbroker.apis.group_protocols import serves_consumer_groups
from kbroker.apis.large_answers import Part, Rest, is_large, written
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.coordinator.group.consumer_group_requests import ConsumerGroupRequests
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kbroker.slices import slices
from kbroker.turns import ENTRIES

Group = ConsumerGroupDescribeResponse.DescribedGroup
Member = ConsumerGroupDescribeResponse.Member

_BYTES_OF_GROUP = 64
_HAS_HIDDEN_TOPICS = (
    "The group has described topic(s) that the client is not authorized to describe."
)


@api(
    ConsumerGroupDescribeRequest,
    ForEach(
        operation=AclOperation.DESCRIBE,
        resource=named_group,
        asked="group_ids",
        answered="groups",
    ),
    AskedInside(AclOperation.DESCRIBE, AclResourceType.TOPIC),
    parts=Parts("group_ids", "groups"),
)
def handle(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> NowOrLater[ConsumerGroupDescribeResponse]:
    """Describe each group, some members at a time."""
    if not serves_consumer_groups(ctx):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    names = request.group_ids
    groups: ConsumerGroupRequests = ctx.services.groups.consumer_groups
    bytes_of = {each: groups.described_bytes(each) for each in set(names)}
    size_bytes = sum(bytes_of[name] + _BYTES_OF_GROUP for name in names)
    response = ConsumerGroupDescribeResponse()
    if is_large(size_bytes):
        parts = (part for name in names for part in _some_at_a_time(ctx, request, name))
        return written(ctx, response, "groups.members", parts, size_bytes)
    for name in names:
        group, members = _described(ctx, request, name)
        group.members = list(members)
        response.groups.append(group)
    return response


def _some_at_a_time(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest, group_id: str
) -> Iterator[Part]:
    """Yield a group without its members, then some of these after the other."""
    group, members = _described(ctx, request, group_id)
    yield [group]
    for some in slices(members, ENTRIES):
        yield Rest([Group(group_id=group_id, error_code=group.error_code, members=some)])


def _described(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest, group_id: str
) -> tuple[Group, Iterator[Member]]:
    """Return a group, and its members as they are at this moment."""
    try:
        found = ctx.services.groups.consumer_groups.describe(group_id)
    except KafkaError as refused:
        return _refused(group_id, refused.code, refused.message)
    if ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, found.topic_names()):
        return _refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HAS_HIDDEN_TOPICS)
    if request.include_authorized_operations:
        resource = AclResource(AclResourceType.GROUP, group_id)
        found.group.authorized_operations = ctx.authorized_operations(resource)
    return found.group, found.members()


def _refused(
    group_id: str, code: ErrorCode, sentence: str | None
) -> tuple[Group, Iterator[Member]]:
    return Group(group_id=group_id, error_code=int(code), error_message=sentence), iter(())
