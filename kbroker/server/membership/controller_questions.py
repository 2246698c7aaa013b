"""Asks the controller, whichever broker that is: for ISRs (AlterPartition, KIP-497), and to move
leaderships away from a broker that stops.

Law: a broker that missed the outcome of an earlier question about an ISR learns it from the tree. A
controller may write an ISR and end before it answers; the next one refuses everything built on the
version before it, and gives no order, because nothing has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from kbroker.controller.kafka_controller import KafkaController
from kbroker.controller.state_machines.isr_change import AlterPartition, AlterPartitionResult
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID, LeaderAndIsr, TopicPartition
from kbroker.peers.node_to_controller_channel import NodeToControllerChannel, PeerClient
from kbroker.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from kbroker.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kbroker.replication.controller_requests.alter_partition_manager import IsrAnswer, Proposal
from kbroker.zk.tree import SessionState, TreeUnavailableError
from kbroker.zk.zk_utils import ZkUtils

ISR_TIMEOUT_MS = 5_000.0
HANDOVER_TIMEOUT_MS = 2_000.0
_LAST_VERSION_WITH_NAMES = 1
_OUTDATED = ErrorCode.INVALID_UPDATE_VERSION


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ControllerQuestions:
    """The questions of one broker. Owned by the event loop."""

    broker_id: int
    broker_epoch: Callable[[], int]
    controller: KafkaController
    way: NodeToControllerChannel
    zk: ZkUtils

    async def move_leaderships(self) -> Sequence[TopicPartition]:
        """Return the partitions that this broker still leads although others have replicas of them.

        Raises KafkaError, OSError or TreeUnavailableError if there was no answer.
        """
        if self.zk.tree.state is not SessionState.CONNECTED:
            raise TreeUnavailableError("/controller")  # no broker can act as controller now
        if not self.controller.is_active:
            answer = await self.way.ask(self._ask_to_move, HANDOVER_TIMEOUT_MS)
            if answer is not None:
                return list(answer)
        return await self.controller.controlled_shutdown(self.broker_id, self.broker_epoch())

    async def alter_isrs(self, proposals: Mapping[TopicPartition, Proposal]) -> IsrAnswer:
        """Return the controller's verdicts, and what is in force if it knows a newer version.

        Raises KafkaError, OSError or TreeUnavailableError if there was no answer.
        """
        outcome = await self._alter_isrs(proposals)
        outdated = [
            tp for tp, said in outcome.partitions.items() if said is _OUTDATED and tp in proposals
        ]
        if not outdated:
            return outcome
        found = await self.zk.partition_states(outdated)
        in_force = {tp: state.leader_and_isr for tp, state in found.items()}
        return IsrAnswer(outcome.error, {**outcome.partitions, **in_force})

    async def _ask_to_move(self, client: PeerClient, timeout_ms: float) -> Sequence[TopicPartition]:
        request = ControlledShutdownRequest(
            broker_id=self.broker_id, broker_epoch=self.broker_epoch()
        )
        answer: ControlledShutdownResponse = await client.send(request, timeout_ms=timeout_ms)
        if answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:  # it is not the controller
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        return [
            TopicPartition(left.topic_name, left.partition_index)
            for left in answer.remaining_partitions
        ]

    async def _alter_isrs(self, proposals: Mapping[TopicPartition, Proposal]) -> IsrAnswer:
        if not self.controller.is_active:
            answer = await self.way.ask(partial(self._ask_for_isrs, proposals), ISR_TIMEOUT_MS)
            if answer is not None:
                return IsrAnswer(answer.error, answer.partitions)
        changes = {tp: proposal.wanted for tp, proposal in proposals.items()}
        epochs = {tp: proposal.epochs for tp, proposal in proposals.items()}
        event = AlterPartition(self.broker_id, self.broker_epoch(), changes, epochs)
        result: AlterPartitionResult = await self.controller.ask(event)
        return IsrAnswer(result.error, result.partitions)

    async def _ask_for_isrs(
        self, proposals: Mapping[TopicPartition, Proposal], client: PeerClient, timeout_ms: float
    ) -> IsrAnswer:
        topics: dict[str, AlterPartitionRequest.TopicData] = {}
        for (name, index), proposal in proposals.items():
            topic = topics.setdefault(
                name,
                AlterPartitionRequest.TopicData(
                    topic_name=name, topic_id=proposal.partition.topic_id
                ),
            )
            topic.partitions.append(self._asked(index, proposal))
        has_ids = all(topic.topic_id != ZERO_UUID for topic in topics.values())
        request = AlterPartitionRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch(),
            topics=list(topics.values()),
        )
        answer: AlterPartitionResponse = await client.send(
            request,
            timeout_ms=timeout_ms,
            highest_version=None if has_ids else _LAST_VERSION_WITH_NAMES,
        )
        names = {topic.topic_id: name for name, topic in topics.items()}
        return IsrAnswer(ErrorCode(answer.error_code), _outcomes(answer, names))

    def _asked(self, index: int, proposal: Proposal) -> AlterPartitionRequest.PartitionData:
        wanted, epochs = proposal.wanted, proposal.epochs
        return AlterPartitionRequest.PartitionData(
            partition_index=index,
            leader_epoch=wanted.leader_epoch,
            new_isr=list(wanted.isr),
            new_isr_with_epochs=[
                AlterPartitionRequest.BrokerState(
                    broker_id=broker_id, broker_epoch=epochs.get(broker_id, -1)
                )
                for broker_id in wanted.isr
            ],
            leader_recovery_state=wanted.leader_recovery_state,
            partition_epoch=wanted.partition_epoch,
        )


def _outcomes(
    answer: AlterPartitionResponse, names: Mapping[UUID, str]
) -> dict[TopicPartition, LeaderAndIsr | ErrorCode]:
    found: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
    for topic in answer.topics:
        name = topic.topic_name or names.get(topic.topic_id, "")
        for data in topic.partitions:
            found[TopicPartition(name, data.partition_index)] = (
                ErrorCode(data.error_code)
                if data.error_code
                else LeaderAndIsr(
                    leader=data.leader_id,
                    leader_epoch=data.leader_epoch,
                    isr=tuple(data.isr),
                    partition_epoch=data.partition_epoch,
                    leader_recovery_state=data.leader_recovery_state,
                )
            )
    return found
