"""OffsetDelete (key 47), version 0: forget offsets that a group has committed (KIP-496).

A live group of consumers keeps those of topics it follows; any other live group keeps all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kbroker.acl.acl import AclOperation, AclResourceType
from kbroker.apis.authorization import AskedInside, ForRequest, its_group
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.coordinator.offsets.offset_commits import Codes
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

Row = OffsetDeleteResponse.OffsetDeleteResponsePartition


@dataclass(slots=True, eq=False, repr=False)
class _Asked:
    """The partitions of a request: those that exist, and the row of each in the answer."""

    known: list[TopicPartition] = field(default_factory=list)
    rows: dict[TopicPartition, Row] = field(default_factory=dict)
    by_topic: dict[str, list[Row]] = field(default_factory=dict)


@api(
    OffsetDeleteRequest,
    ForRequest(AclOperation.DELETE, its_group),
    AskedInside(AclOperation.READ, AclResourceType.TOPIC),
    parts=Parts("topics.partitions", "topics.partitions"),
)
def handle(ctx: RequestContext, request: OffsetDeleteRequest) -> NowOrLater[OffsetDeleteResponse]:
    """Forget the offsets of the partitions that exist."""
    asked = _Asked()
    steps = _sort(ctx, request, asked)
    entries = sum(len(topic.partitions) for topic in request.topics)
    return worked(steps, entries, _forget, ctx, request, asked)


def _forget(
    ctx: RequestContext, request: OffsetDeleteRequest, asked: _Asked
) -> NowOrLater[OffsetDeleteResponse]:
    return then(ctx.services.groups.delete_offsets(request.group_id, asked.known), _response, asked)


def _sort(ctx: RequestContext, request: OffsetDeleteRequest, asked: _Asked) -> Iterator[None]:
    """Look at one partition after the other; yields after each."""
    hidden = ctx.refused(
        AclOperation.READ, AclResourceType.TOPIC, [topic.name for topic in request.topics]
    )
    for topic in request.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if partition not in asked.rows:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if topic.name in hidden:
                    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif ctx.services.metadata.contains(partition):
                    asked.known.append(partition)
                row = Row(partition_index=partition.partition, error_code=code)
                asked.rows[partition] = row
                asked.by_topic.setdefault(topic.name, []).append(row)
            yield


def _response(codes: Codes, asked: _Asked) -> OffsetDeleteResponse:
    for partition, code in codes.items():
        asked.rows[partition].error_code = code
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.OffsetDeleteResponseTopic(name=name, partitions=rows)
            for name, rows in asked.by_topic.items()
        ]
    )
