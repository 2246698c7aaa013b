"""OffsetDelete (key 47), version 0: forget offsets that a group has committed (KIP-496).

A live group of consumers keeps those of topics it follows; any other live group keeps all.
"""

from __future__ import annotations

from kbroker.apis.authorization import AskedInside, ForRequest, its_group
from kbroker.apis.authorizer import AclOperation, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.coordinator.offset_commits import Codes
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


@api(
    OffsetDeleteRequest,
    ForRequest(AclOperation.DELETE, its_group),
    AskedInside(AclOperation.READ, ResourceType.TOPIC),
)
def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> NowOrLater[OffsetDeleteResponse]:
    """Forget the offsets of the partitions that exist."""
    names = [topic.name for topic in request.topics]
    hidden = ctx.refused(AclOperation.READ, ResourceType.TOPIC, names)
    asked: Codes = {}
    known = []
    for topic in request.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            asked[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic.name in hidden:
                asked[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif ctx.services.metadata.contains(partition):
                known.append(partition)
    return then(ctx.services.groups.delete_offsets(request.group_id, known), _response, asked)


def _response(codes: Codes, asked: Codes) -> OffsetDeleteResponse:
    by_topic: dict[str, list[OffsetDeleteResponse.OffsetDeleteResponsePartition]] = {}
    for (topic, number), code in (asked | codes).items():
        row = OffsetDeleteResponse.OffsetDeleteResponsePartition(
            partition_index=number, error_code=code
        )
        by_topic.setdefault(topic, []).append(row)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.OffsetDeleteResponseTopic(name=name, partitions=rows)
            for name, rows in by_topic.items()
        ]
    )
