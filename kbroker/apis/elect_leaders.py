"""ElectLeaders (key 43), versions 0 to 2: preferred replicas, or any living ones, lead partitions.

v0: preferred elections only. v1: the election type. v2: flexible. Only the controller holds
elections; others pass the request on, and answer NOT_CONTROLLER for every partition when it cannot
be reached. A request for all partitions is answered only with those whose leader was to change.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Again, Parts
from kbroker.controller.state_machines.requested_elections import (
    ElectionResults,
    ElectionType,
    ElectLeaders,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

PartitionResult = ElectLeadersResponse.PartitionResult
ReplicaElectionResult = ElectLeadersResponse.ReplicaElectionResult


def _is_shown(
    ctx: RequestContext, request: ElectLeadersRequest, response: ElectLeadersResponse
) -> bool:
    for topic in response.replica_election_results:
        for row in topic.partition_result:
            state = ctx.services.metadata.partition_state(
                TopicPartition(topic.topic, row.partition_id)
            )
            if row.error_code != ErrorCode.NONE or state is None:
                continue
            is_preferred = request.election_type == ElectionType.PREFERRED
            if state.leader != state.replicas[0] if is_preferred else state.leader < 0:
                return False
    return True


@api(
    ElectLeadersRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    forwarded=_is_shown,
    parts=Parts(
        "topic_partitions.partitions",
        "replica_election_results.partition_result",
        key="topic.",
        again=Again.LEFT_OUT,
    ),
)
async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Hold the elections and wait until this broker shows the new leaders."""
    partitions = _asked(ctx, request)
    if request.election_type not in tuple(ElectionType):
        named = () if request.topic_partitions is None else partitions
        refused = dict.fromkeys(named, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        return ElectLeadersResponse(
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
            replica_election_results=_grouped(dict(refused)),
        )
    results = await _elect(ctx, partitions, ElectionType(request.election_type))
    leaders = {p: leader for p, leader in results.items() if isinstance(leader, int)}
    late = await ctx.services.topics.wait_for_leaders(leaders, request.timeout_ms)
    for partition in late:
        results[partition] = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
    if request.topic_partitions is None:
        results = {p: result for p, result in results.items() if not _is_not_needed(result)}
    return ElectLeadersResponse(replica_election_results=_grouped(results))


def _asked(ctx: RequestContext, request: ElectLeadersRequest) -> frozenset[TopicPartition]:
    if request.topic_partitions is None:
        return frozenset(
            TopicPartition(topic, number)
            for topic in ctx.services.metadata.topics()
            for number in ctx.services.metadata.partition_states(topic)
        )
    return frozenset(
        TopicPartition(topic.topic, number)
        for topic in request.topic_partitions
        for number in topic.partitions
    )


async def _elect(
    ctx: RequestContext, partitions: frozenset[TopicPartition], election_type: ElectionType
) -> ElectionResults:
    try:
        results: ElectionResults = await ctx.services.controller.ask(
            ElectLeaders(partitions, election_type)
        )
    except KafkaError as refusal:
        if refusal.code is not ErrorCode.NOT_CONTROLLER:
            raise
        return dict.fromkeys(partitions, KafkaError(ErrorCode.NOT_CONTROLLER))
    return results


def _is_not_needed(result: int | KafkaError) -> bool:
    return isinstance(result, KafkaError) and result.code is ErrorCode.ELECTION_NOT_NEEDED


def _grouped(results: ElectionResults) -> list[ReplicaElectionResult]:
    by_topic: dict[str, list[PartitionResult]] = {}
    for partition, result in sorted(results.items(), key=_partition_of):
        answer = PartitionResult(partition_id=partition.partition, error_message=None)
        if isinstance(result, KafkaError):
            answer.error_code, answer.error_message = result.code, result.message
        by_topic.setdefault(partition.topic, []).append(answer)
    return [ReplicaElectionResult(topic=t, partition_result=rows) for t, rows in by_topic.items()]


def _partition_of(item: tuple[TopicPartition, int | KafkaError]) -> TopicPartition:
    return item[0]
