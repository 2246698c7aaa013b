"""RequestBatch: the requests to the brokers after a step, gathered per broker and built once.

Pure. Law: one broker gets at most one request of each kind per step, in the order LeaderAndIsr,
UpdateMetadata, StopReplica. A LeaderAndIsr for one broker brings the new metadata to every live
one, because clients ask any of them for leaders.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from kbroker.controller.state_machines.controller_context import ControllerContext, Replica
from kbroker.model import LEADER_DURING_DELETE, SECURITY_PROTOCOL_IDS, Broker, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.controller_requests.request_shapes import ControlRequest
from kbroker.replication.metadata_cache import FULL_UPDATE

_PARTITIONS_AT_ONCE = 256  # about a millisecond


class RequestBatch:
    """Gathers requests during one step."""

    def __init__(self, context: ControllerContext, controller_id: int) -> None:
        self._context = context
        self._controller_id = controller_id
        self._leader_and_isr: dict[
            int, dict[TopicPartition, bool]
        ] = {}  # broker: partition: is new
        self._stop_replica: dict[int, dict[TopicPartition, bool]] = {}  # broker: partition: delete
        self._metadata_brokers: dict[int, None] = {}
        self._metadata_partitions: dict[TopicPartition, None] = {}
        self._metadata_is_full = False

    def add_leader_and_isr(
        self, broker_ids: Iterable[int], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Send these brokers the leader of a partition, and all brokers its metadata."""
        for broker_id in broker_ids:
            partitions = self._leader_and_isr.setdefault(broker_id, {})
            partitions[partition] = partitions.get(partition, False) or is_new
        self.add_update_metadata(self._context.live_brokers, (partition,))

    def add_stop_replica(self, broker_id: int, partition: TopicPartition, *, delete: bool) -> None:
        """Order a broker to stop, and perhaps delete, its replica."""
        partitions = self._stop_replica.setdefault(broker_id, {})
        partitions[partition] = partitions.get(partition, False) or delete

    def add_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Send these brokers all brokers and these partitions."""
        self._metadata_brokers.update(dict.fromkeys(broker_ids))
        self._metadata_partitions.update(dict.fromkeys(partitions))

    def add_full_metadata(self, broker_ids: Iterable[int]) -> None:
        """Send these brokers, and all others of this step, everything; they forget anything beyond
        it. Kafka's brokers keep topics that were deleted while they could not be reached.
        """
        self.add_update_metadata(broker_ids, self._context.leadership)
        self._metadata_is_full = True

    def build(self) -> list[tuple[int, ControlRequest]]:
        """The requests with their brokers, in sending order; the batch is empty afterwards."""
        return [request for request in self.build_each() if request is not None]

    def build_each(self) -> Iterator[tuple[int, ControlRequest] | None]:
        """Build the requests in steps of a few milliseconds; a step that completes no request
        yields None. The context may not change in between.
        """
        live = self._context.live_brokers
        for broker_id, news in self._leader_and_isr.items():
            if broker_id in live:
                yield broker_id, (yield from self._build_leader_and_isr(live[broker_id], news))
        if self._metadata_brokers:
            yield from self._build_update_metadata()
        for broker_id, deletes in self._stop_replica.items():
            if broker_id in live:
                yield broker_id, (yield from self._build_stop_replica(live[broker_id], deletes))
        self._leader_and_isr, self._stop_replica = {}, {}
        self._metadata_brokers, self._metadata_partitions = {}, {}
        self._metadata_is_full = False

    def _build_leader_and_isr(
        self, broker: Broker, news: dict[TopicPartition, bool]
    ) -> Generator[None, None, LeaderAndIsrRequest]:
        context = self._context
        by_topic: dict[str, list[LeaderAndIsrRequest.LeaderAndIsrPartitionState]] = {}
        leaders: dict[int, None] = {}
        for number, (partition, is_new) in enumerate(news.items(), 1):
            if number % _PARTITIONS_AT_ONCE == 0:
                yield
            known = context.leadership[partition]
            state = known.leader_and_isr
            assignment = context.assignment(partition)
            leaders[state.leader] = None
            by_topic.setdefault(partition.topic, []).append(
                LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                    topic_name=partition.topic,
                    partition_index=partition.partition,
                    controller_epoch=known.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    partition_epoch=state.partition_epoch,
                    replicas=list(assignment.replicas),
                    adding_replicas=list(assignment.adding_replicas),
                    removing_replicas=list(assignment.removing_replicas),
                    is_new=is_new,
                    leader_recovery_state=state.leader_recovery_state,
                )
            )
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=broker.epoch,
            topic_states=[
                LeaderAndIsrRequest.LeaderAndIsrTopicState(
                    topic_name=topic, topic_id=context.topic_id(topic), partition_states=states
                )
                for topic, states in by_topic.items()
            ],
            live_leaders=[
                LeaderAndIsrRequest.LeaderAndIsrLiveLeader(
                    broker_id=leader, host_name=end_point.host, port=end_point.port
                )
                for leader in leaders
                if leader in context.live_brokers
                for end_point in context.end_points_between_brokers(leader)
            ],
        )

    def _build_update_metadata(self) -> Iterator[tuple[int, ControlRequest] | None]:
        topic_states = yield from self._metadata_topic_states()
        live = self._context.live_brokers
        live_brokers = [_metadata_broker(broker) for broker in live.values()]
        for broker_id in self._metadata_brokers:
            if broker_id in live:
                yield (
                    broker_id,
                    UpdateMetadataRequest(
                        controller_id=self._controller_id,
                        controller_epoch=self._context.epoch,
                        broker_epoch=live[broker_id].epoch,
                        type=FULL_UPDATE if self._metadata_is_full else 0,
                        topic_states=topic_states,
                        live_brokers=live_brokers,
                    ),
                )

    def _metadata_topic_states(
        self,
    ) -> Generator[None, None, list[UpdateMetadataRequest.UpdateMetadataTopicState]]:
        context = self._context
        by_topic: dict[str, list[UpdateMetadataRequest.UpdateMetadataPartitionState]] = {}
        for number, partition in enumerate(self._metadata_partitions, 1):
            if number % _PARTITIONS_AT_ONCE == 0:
                yield
            known = context.leadership.get(partition)
            if known is None:
                continue
            state = known.leader_and_isr
            deleting = context.is_queued_for_deletion(partition.topic)
            replicas = context.assignment(partition).replicas
            by_topic.setdefault(partition.topic, []).append(
                UpdateMetadataRequest.UpdateMetadataPartitionState(
                    topic_name=partition.topic,
                    partition_index=partition.partition,
                    controller_epoch=known.controller_epoch,
                    leader=LEADER_DURING_DELETE if deleting else state.leader,
                    leader_epoch=0 if deleting else state.leader_epoch,
                    isr=list(state.isr),
                    zk_version=0 if deleting else state.partition_epoch,
                    replicas=list(replicas),
                    offline_replicas=[
                        b for b in replicas if not context.is_replica_online(Replica(partition, b))
                    ],
                )
            )
        return [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=topic, topic_id=context.topic_id(topic), partition_states=states
            )
            for topic, states in by_topic.items()
        ]

    def _build_stop_replica(
        self, broker: Broker, deletes: dict[TopicPartition, bool]
    ) -> Generator[None, None, StopReplicaRequest]:
        context = self._context
        by_topic: dict[str, list[StopReplicaRequest.StopReplicaPartitionState]] = {}
        for number, (partition, delete) in enumerate(deletes.items(), 1):
            if number % _PARTITIONS_AT_ONCE == 0:
                yield
            deleting = context.is_queued_for_deletion(partition.topic)
            known = context.leadership.get(partition)
            # -2 says that the topic goes for good, so no epoch is compared (KIP-570).
            epoch = (
                _EPOCH_DURING_DELETE
                if deleting
                else known.leader_and_isr.leader_epoch
                if known
                else -1
            )
            by_topic.setdefault(partition.topic, []).append(
                StopReplicaRequest.StopReplicaPartitionState(
                    partition_index=partition.partition, leader_epoch=epoch, delete_partition=delete
                )
            )
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=broker.epoch,
            topic_states=[
                StopReplicaRequest.StopReplicaTopicState(topic_name=topic, partition_states=states)
                for topic, states in by_topic.items()
            ],
        )


_EPOCH_DURING_DELETE = -2


def _metadata_broker(broker: Broker) -> UpdateMetadataRequest.UpdateMetadataBroker:
    return UpdateMetadataRequest.UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataRequest.UpdateMetadataEndpoint(
                port=end_point.port,
                host=end_point.host,
                listener=end_point.listener_name,
                security_protocol=SECURITY_PROTOCOL_IDS[end_point.security_protocol],
            )
            for end_point in broker.end_points
        ],
        rack=broker.rack,
    )
