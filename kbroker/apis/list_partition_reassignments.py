"""ListPartitionReassignments (key 46), version 0: which partitions move (KIP-455).

Only the controller knows; others pass the request on. What does not move, or is not there, is left
out of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.controller.state_machines.reassignment_phases import ListPartitionReassignments
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_BYTES_OF_PARTITION = 512  # in an answer


def _is_shown(
    _ctx: RequestContext,
    _request: ListPartitionReassignmentsRequest,
    _response: ListPartitionReassignmentsResponse,
) -> bool:
    return True  # nothing was done that clients could look for


@api(
    ListPartitionReassignmentsRequest,
    ForRequest(AclOperation.DESCRIBE, the_cluster),
    forwarded=_is_shown,
    parts=Parts("topics.partition_indexes", "topics.partitions"),
)
async def handle(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List the moving partitions of those asked for, or all that move."""
    moving = await _moving(ctx)
    size_bytes = _BYTES_OF_PARTITION * len(moving)
    if not is_large(size_bytes):
        return _listed(request, moving)
    del moving  # none is kept while it waits
    memory = await ctx.take(size_bytes)
    response = _listed(request, await _moving(ctx))
    response.is_large, response.memory = True, memory
    return response


async def _moving(ctx: RequestContext) -> Mapping[TopicPartition, ReplicaAssignment]:
    moving: Mapping[TopicPartition, ReplicaAssignment] = await ctx.services.controller.ask(
        ListPartitionReassignments()
    )
    return moving


def _listed(
    request: ListPartitionReassignmentsRequest, moving: Mapping[TopicPartition, ReplicaAssignment]
) -> ListPartitionReassignmentsResponse:
    asked = _asked(request)
    by_topic: dict[str, list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]] = {}
    for partition, assignment in sorted(moving.items()):
        if asked is not None and partition.partition not in asked.get(partition.topic, ()):
            continue
        by_topic.setdefault(partition.topic, []).append(
            ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                partition_index=partition.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding_replicas),
                removing_replicas=list(assignment.removing_replicas),
            )
        )
    return ListPartitionReassignmentsResponse(
        topics=[
            ListPartitionReassignmentsResponse.OngoingTopicReassignment(name=name, partitions=rows)
            for name, rows in by_topic.items()
        ]
    )


def _asked(request: ListPartitionReassignmentsRequest) -> dict[str, set[int]] | None:
    if request.topics is None:
        return None
    asked: dict[str, set[int]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, set()).update(topic.partition_indexes)
    return asked
