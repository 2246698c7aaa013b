"""Brokers that play replication: leaders remember what they lead, followers whom they follow, and
when `catch_up` is called every follower has all records, so the leaders ask the controller for
larger ISRs. No log, no records.
"""

from __future__ import annotations

from dataclasses import replace

from kbroker.controller.state_machines.isr_change import AlterPartition, AlterPartitionResult
from kbroker.errors import ErrorCode
from kbroker.model import LeaderAndIsr, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from tests.fakes.clusters.controller_cluster import ControllerCluster, FakeBroker


class FollowingBroker(FakeBroker):
    """A broker that knows its replicas. One that `is_slow` never catches up."""

    def __init__(self, cluster: ControllerCluster, broker_id: int, rack: str | None) -> None:
        super().__init__(cluster, broker_id, rack)
        self.replicas: dict[TopicPartition, LeaderAndIsr] = {}
        self.is_slow = False

    async def send(self, request: ControlRequest) -> ControlResponse:
        response = await super().send(request)
        if response.error_code != ErrorCode.NONE:
            return response
        if isinstance(request, LeaderAndIsrRequest):
            self._become(request)
        elif isinstance(request, StopReplicaRequest):
            self._stop(request)
        return response

    def led(self) -> dict[TopicPartition, LeaderAndIsr]:
        return {p: s for p, s in self.replicas.items() if s.leader == self.broker_id}

    def follows(self, partition: TopicPartition, state: LeaderAndIsr) -> bool:
        """True when it would fetch from that leader at that epoch, and has all it has."""
        own = self.replicas.get(partition)
        return not self.is_slow and own is not None and own.leader_epoch == state.leader_epoch

    def take_over(self, result: AlterPartitionResult) -> int:
        """As leader, go on with the ISRs that the controller has written; returns how many."""
        assert result.error is ErrorCode.NONE
        written = {p: s for p, s in result.partitions.items() if isinstance(s, LeaderAndIsr)}
        for partition, state in written.items():
            known = self.replicas.get(partition)  # the controller may have said more since
            if known is not None and known.partition_epoch < state.partition_epoch:
                self.replicas[partition] = state
        return len(written)

    def _become(self, request: LeaderAndIsrRequest) -> None:
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self.replicas[partition] = LeaderAndIsr(
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=tuple(state.isr),
                    partition_epoch=state.partition_epoch,
                    leader_recovery_state=state.leader_recovery_state,
                )

    def _stop(self, request: StopReplicaRequest) -> None:
        for topic in request.topic_states:
            for state in topic.partition_states:
                self.replicas.pop(TopicPartition(topic.topic_name, state.partition_index), None)


class FollowingCluster(ControllerCluster):
    """A cluster of them."""

    def make_broker(self, broker_id: int, rack: str | None) -> FakeBroker:
        return FollowingBroker(self, broker_id, rack)

    def following(self) -> list[FollowingBroker]:
        return [b for b in self.brokers.values() if isinstance(b, FollowingBroker)]

    async def catch_up(self) -> None:
        """Let followers have all records, until no ISR changes any more."""
        while any([await self._ask_for_isrs(leader) for leader in self.following()]):
            await self.settle()

    async def _ask_for_isrs(self, leader: FollowingBroker) -> int:
        changes = {}
        for partition, state in leader.led().items():
            joining = [
                b.broker_id
                for b in self.following()
                if b.broker_id not in state.isr and b.follows(partition, state)
            ]
            if joining:
                changes[partition] = replace(state, isr=(*state.isr, *joining))
        if not changes:
            return 0
        epoch = self.controller.controller.context.live_brokers[leader.broker_id].epoch
        event = AlterPartition(leader.broker_id, epoch, changes)
        result = await self.controller.controller.ask(event)
        return leader.take_over(result)
