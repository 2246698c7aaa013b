"""AlterPartition (key 56), versions 0 to 3: a leader asks the controller for another ISR (KIP-497).

v1: leader recovery state. v2: topics by id. v3: replicas in sync with their broker epochs
(KIP-903). A broker that is not controller answers NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
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
    ids = {topic.topic_id for topic in request.topics} - {ZERO_UUID}
    names = _names(ctx, ids)
    event = _event(ctx.api_version, request, names)
    try:
        result: AlterPartitionResult = await ctx.services.controller.ask(event)
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)
    if result.error is not ErrorCode.NONE:
        return AlterPartitionResponse(error_code=result.error)
    answers = _Answers(names, _names(ctx, ids - names.keys()), result)
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponse.TopicData(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[answers.of(topic, asked.partition_index) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _names(ctx: RequestContext, topic_ids: Collection[UUID]) -> dict[UUID, str]:
    """The topics that the controller knows by now."""
    context = ctx.services.controller.context
    return context.topic_names(topic_ids) if context is not None and topic_ids else {}


def _name(topic: AskedTopic, names: Mapping[UUID, str]) -> str | None:
    return topic.topic_name if topic.topic_id == ZERO_UUID else names.get(topic.topic_id)


def _event(
    version: int, request: AlterPartitionRequest, names: Mapping[UUID, str]
) -> AlterPartition:
    changes: dict[TopicPartition, LeaderAndIsr] = {}
    epochs: dict[TopicPartition, dict[int, int]] = {}
    for topic in request.topics:
        name = _name(topic, names)
        if name is None:
            continue
        for asked in topic.partitions:
            partition, isr = TopicPartition(name, asked.partition_index), asked.new_isr
            if version >= FIRST_VERSION_WITH_BROKER_EPOCHS:
                epochs[partition] = {r.broker_id: r.broker_epoch for r in asked.new_isr_with_epochs}
                isr = list(epochs[partition])
            changes[partition] = LeaderAndIsr(
                leader=request.broker_id,
                leader_epoch=asked.leader_epoch,
                isr=tuple(isr),
                partition_epoch=asked.partition_epoch,
                leader_recovery_state=asked.leader_recovery_state,
            )
    return AlterPartition(request.broker_id, request.broker_epoch, changes, epochs)


class _Answers(NamedTuple):
    names: Mapping[UUID, str]
    found_since: Collection[UUID]  # while the others were decided on
    result: AlterPartitionResult

    def of(self, topic: AskedTopic, partition: int) -> Answer:
        outcome = self._outcome(topic, partition)
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

    def _outcome(self, topic: AskedTopic, partition: int) -> LeaderAndIsr | ErrorCode:
        name = _name(topic, self.names)
        if name is not None:
            return self.result.partitions[TopicPartition(name, partition)]
        if topic.topic_id in self.found_since:  # the cluster was being read
            return ErrorCode.OPERATION_NOT_ATTEMPTED
        return ErrorCode.UNKNOWN_TOPIC_ID
