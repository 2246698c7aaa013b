"""AlterPartitionReassignments (key 45), version 0: begin, turn and call off moves (KIP-455).

Only the controller moves partitions; others pass the request on. The answer comes when a move has
begun: ListPartitionReassignments shows when it is over. Version 1 came with KRaft and is not served
(as in Kafka 3.9).
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Again, Parts
from kbroker.controller.state_machines.reassignment_phases import AlterPartitionReassignments
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

ReassignableTopicResponse = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
ReassignablePartitionResponse = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


def _is_shown(
    ctx: RequestContext,
    request: AlterPartitionReassignmentsRequest,
    response: AlterPartitionReassignmentsResponse,
) -> bool:
    targets = _targets(request)
    for topic in response.responses:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            state = ctx.services.metadata.partition_state(partition)
            if row.error_code != ErrorCode.NONE or state is None:
                continue
            # A request that calls a move off does not say to which replicas it goes back.
            if not set(targets.get(partition) or ()) <= set(state.replicas):
                return False
    return True


@api(
    AlterPartitionReassignmentsRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    forwarded=_is_shown,
    parts=Parts(
        "topics.partitions",
        "responses.partitions",
        key="name.partition_index",
        again=Again.IN_PLACE_OF_FIRST,
    ),
)
async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin the moves; each partition is refused by itself."""
    targets = _targets(request)
    try:
        answers: dict[TopicPartition, KafkaError | None] = await ctx.services.controller.ask(
            AlterPartitionReassignments(targets)
        )
    except KafkaError as refusal:
        if refusal.code is not ErrorCode.NOT_CONTROLLER:
            raise
        return AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.NOT_CONTROLLER, error_message=None
        )
    by_topic: dict[str, list[ReassignablePartitionResponse]] = {}
    for partition in targets:
        row = ReassignablePartitionResponse(partition_index=partition.partition, error_message=None)
        answer = answers[partition]
        if answer is not None:
            row.error_code, row.error_message = answer.code, answer.message
        by_topic.setdefault(partition.topic, []).append(row)
    return AlterPartitionReassignmentsResponse(
        error_message=None,
        responses=[
            ReassignableTopicResponse(name=name, partitions=rows) for name, rows in by_topic.items()
        ],
    )


def _targets(
    request: AlterPartitionReassignmentsRequest,
) -> dict[TopicPartition, tuple[int, ...] | None]:
    """Of a partition that is named twice the last wish counts, as in Kafka."""
    return {
        TopicPartition(topic.name, row.partition_index): (
            None if row.replicas is None else tuple(row.replicas)
        )
        for topic in request.topics
        for row in topic.partitions
    }
