"""AlterPartition (key 56), versions 0 to 3: a leader asks the controller for another ISR (KIP-497).

v1: leader recovery state. v2: topics by id. v3: replicas in sync with their broker epochs
(KIP-903). A broker that is not controller answers NOT_CONTROLLER.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.controller.state_machines.isr_change import AlterPartition, AlterPartitionResult
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID, LeaderAndIsr, TopicPartition
from kbroker.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)

AskedTopic = AlterPartitionRequest.TopicData
Answer = AlterPartitionResponse.PartitionData
FIRST_VERSION_WITH_BROKER_EPOCHS = 3


@api(AlterPartitionRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(ctx: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Have the controller write the ISRs that it allows."""
    named = [(_name(ctx, topic), topic) for topic in request.topics]
    event = _event(ctx, request, named)
    try:
        result: AlterPartitionResult = await ctx.services.controller.ask(event)
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)
    if result.error is not ErrorCode.NONE:
        return AlterPartitionResponse(error_code=result.error)
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponse.TopicData(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[
                    _answer(name, asked.partition_index, result) for asked in topic.partitions
                ],
            )
            for name, topic in named
        ]
    )


def _name(ctx: RequestContext, topic: AskedTopic) -> str | None:
    """None for a topic id that nobody has."""
    if topic.topic_id == ZERO_UUID:
        return topic.topic_name
    return ctx.services.metadata.topic_name(topic.topic_id)


def _event(
    ctx: RequestContext,
    request: AlterPartitionRequest,
    named: list[tuple[str | None, AskedTopic]],
) -> AlterPartition:
    changes: dict[TopicPartition, LeaderAndIsr] = {}
    epochs: dict[int, int] = {}
    for name, topic in named:
        for asked in topic.partitions if name is not None else ():
            isr = asked.new_isr
            if ctx.api_version >= FIRST_VERSION_WITH_BROKER_EPOCHS:
                isr = [replica.broker_id for replica in asked.new_isr_with_epochs]
                epochs.update((r.broker_id, r.broker_epoch) for r in asked.new_isr_with_epochs)
            changes[TopicPartition(name or "", asked.partition_index)] = LeaderAndIsr(
                leader=request.broker_id,
                leader_epoch=asked.leader_epoch,
                isr=tuple(isr),
                partition_epoch=asked.partition_epoch,
                leader_recovery_state=asked.leader_recovery_state,
            )
    return AlterPartition(request.broker_id, request.broker_epoch, changes, epochs)


def _answer(name: str | None, partition: int, result: AlterPartitionResult) -> Answer:
    if name is None:
        return Answer(partition_index=partition, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    outcome = result.partitions[TopicPartition(name, partition)]
    if isinstance(outcome, ErrorCode):
        return Answer(partition_index=partition, error_code=outcome)
    return Answer(
        partition_index=partition,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        leader_recovery_state=outcome.leader_recovery_state,
        partition_epoch=outcome.partition_epoch,
    )
