"""Carries out what the controller orders: lead, follow, stop, delete, take over metadata. Each
partition succeeds or fails by itself.

Law: owned by the event loop. A replaced controller is refused by its epoch, news of an older leader
by its leader epoch; both are answered, never applied. In a partition the log changes first, then
the state; the announcement comes last. So listeners are called once a change is whole, and then
requests that wait for the partitions are checked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from kbroker.clock import Clock, Timer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    ZERO_UUID,
    Broker,
    EndPoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kbroker.replication.controller_requests.replica_logs import ReplicaLogs
from kbroker.replication.metadata_cache import FULL_UPDATE
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import IsrChanges, Partition
from kbroker.replication.waiting.purgatories import Purgatories

LeadershipListener = Callable[[Collection[Partition], Collection[Partition]], None]
DeletionListener = Callable[[Iterable[TopicPartition]], None]

OrderedTopic = LeaderAndIsrRequest.LeaderAndIsrTopicState
OrderedState = LeaderAndIsrRequest.LeaderAndIsrPartitionState
OrderedStop = StopReplicaRequest.StopReplicaPartitionState

NO_EPOCH = -1

_log = logging.getLogger(__name__)


def _broker(leader: LeaderAndIsrRequest.LeaderAndIsrLiveLeader) -> Broker:
    """A leader with the one address that orders give: that for brokers, of an unnamed listener."""
    end_point = EndPoint(listener_name="", host=leader.host_name, port=leader.port)
    return Broker(broker_id=leader.broker_id, end_points=(end_point,))


@dataclass(slots=True, eq=False, repr=False)
class _Change:
    """The result of one request: partitions by their new role, and an error code per partition."""

    became_leader: list[Partition] = field(default_factory=list)
    became_follower: list[Partition] = field(default_factory=list)
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)


class Leadership:
    """Carries out the orders of LeaderAndIsr, StopReplica and UpdateMetadata on one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        logs: ReplicaLogs,
        waiting: Purgatories,
        clock: Clock,
        timer: Timer,
        lag_time_max_ms: int,
    ) -> None:
        self._hosted = hosted
        self._metadata = hosted.metadata
        self._broker_id = hosted.metadata.broker_id
        self._logs = logs
        self._waiting = waiting
        self._clock = clock
        self._timer = timer
        self._lag_time_max_ms = lag_time_max_ms
        # Partitions whose log here belongs to another topic of that name.
        self._refused: set[TopicPartition] = set()
        self._listeners: list[LeadershipListener] = []
        self._deletion_listeners: list[DeletionListener] = []
        # Where partitions ask for a new ISR; set before the first one is led.
        self.isr_changes: IsrChanges | None = None
        self.controller_epoch = 0  # of the latest controller that has ordered anything
        # The leaders named in orders since the last UpdateMetadata.
        self._live_leaders: dict[int, Broker] = {}

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Call `listener(led, followed)` after each change; stopped replicas count as followed."""
        self._listeners.append(listener)

    def add_deletion_listener(self, listener: DeletionListener) -> None:
        """Call `listener` with the partitions that are gone from the cluster."""
        self._deletion_listeners.append(listener)

    # Lead and follow

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Lead and follow as ordered; the response has an error code per partition."""
        if request.controller_epoch < self.controller_epoch:
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        self._live_leaders.update((each.broker_id, _broker(each)) for each in request.live_leaders)
        response = LeaderAndIsrResponse()
        change = _Change()
        for topic in request.topic_states:
            name, topic_id = topic.topic_name, topic.topic_id
            entries = []
            for state in topic.partition_states:
                topic_partition = TopicPartition(name, state.partition_index)
                code = self._apply_or_refuse(topic_partition, topic_id, state, change)
                change.errors[topic_partition] = code
                entries.append(
                    LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                        topic_name=name, partition_index=state.partition_index, error_code=code
                    )
                )
            response.partition_errors.extend(entries)  # versions before 5
            response.topics.append(
                LeaderAndIsrResponse.LeaderAndIsrTopicError(
                    topic_id=topic_id, partition_errors=entries
                )
            )
        self._announce(change)
        return response

    def _apply_or_refuse(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        state: OrderedState,
        change: _Change,
    ) -> ErrorCode:
        try:
            self._apply(topic_partition, topic_id, state, change)
        except KafkaError as error:
            # A new controller repeats everything: what is known already does no harm.
            is_known = error.code is ErrorCode.STALE_CONTROLLER_EPOCH
            level = logging.DEBUG if is_known else logging.WARNING
            _log.log(level, "Leadership of %s not taken over: %s", topic_partition, error)
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._hosted.set_offline(topic_partition)
            elif error.code is ErrorCode.INCONSISTENT_TOPIC_ID:
                self._refused.add(topic_partition)
            return error.code
        self._refused.discard(topic_partition)
        return ErrorCode.NONE

    def was_refused(self, topic_partition: TopicPartition) -> bool:
        """Whether the last order to lead or follow a partition was refused for good, because its
        log belongs to another topic of that name.
        """
        return topic_partition in self._refused

    def _apply(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        state: OrderedState,
        change: _Change,
    ) -> None:
        if self._hosted.is_offline(topic_partition):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log directory is offline")
        partition = self._hosted.find(topic_partition)
        is_named = partition is not None and self._take_topic_id(partition, topic_id, state)
        if partition is not None and is_named and state.leader_epoch == partition.leader_epoch:
            if not partition.is_leader:
                change.became_follower.append(partition)  # to be fetched by its id
            return
        assignment = ReplicaAssignment(
            replicas=tuple(state.replicas),
            adding_replicas=tuple(state.adding_replicas),
            removing_replicas=tuple(state.removing_replicas),
        )
        if partition is not None:
            self._take_assignment(partition, assignment, state)
        self._check_order(partition, topic_id, state)
        if partition is None:
            partition = Partition(
                topic_partition,
                self._logs.make(topic_partition, topic_id, is_new=state.is_new),
                self._broker_id,
                lag_time_max_ms=self._lag_time_max_ms,
                isr_changes=self.isr_changes,
            )
            self._hosted.add(partition)
        order = LeaderAndIsr(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(state.isr),
            partition_epoch=state.partition_epoch,
        )
        if state.leader == self._broker_id:
            if partition.make_leader(
                order, assignment, state.controller_epoch, self._clock.now_ms()
            ):
                change.became_leader.append(partition)
        elif partition.make_follower(order, assignment, state.controller_epoch):
            change.became_follower.append(partition)

    def _take_topic_id(self, partition: Partition, topic_id: UUID, state: OrderedState) -> bool:
        """Note the id of a topic that was made without one; True if it had none before. Such an
        order has the leader epoch that the partition has already.
        """
        is_news = state.leader_epoch >= partition.leader_epoch
        if not is_news or topic_id == ZERO_UUID or partition.topic_id != ZERO_UUID:
            return False
        partition.log.assign_topic_id(topic_id)
        return True

    def _take_assignment(
        self, partition: Partition, assignment: ReplicaAssignment, state: OrderedState
    ) -> None:
        """Take over new replicas of a partition led here, in the same leader epoch: that is how a
        controller that could not finish a reassignment, or its successor, sends them.
        """
        known = partition.state
        if (
            known.is_leader
            and (state.leader, state.leader_epoch) == (known.leader, known.leader_epoch)
            and assignment.replicas != known.replicas
            and self._broker_id in assignment.replicas
        ):
            partition.reassign(assignment)

    def _is_to_follow_again(self, partition: Partition, state: OrderedState) -> bool:
        """Whether a stopped replica has to follow the leader it had. That needs no new epoch, as in
        Kafka, whose brokers forget what they stop.
        """
        return partition.state.leader == NO_LEADER and state.leader not in (
            NO_LEADER,
            LEADER_DURING_DELETE,
            self._broker_id,
        )

    def _check_order(
        self, partition: Partition | None, topic_id: UUID, state: OrderedState
    ) -> None:
        if partition is not None:
            known_id = partition.topic_id
            if topic_id != known_id and ZERO_UUID not in (topic_id, known_id):
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID, f"it has topic id {known_id}, not {topic_id}"
                )
            lowest_epoch = partition.leader_epoch + 1
            if self._is_to_follow_again(partition, state):
                lowest_epoch = partition.leader_epoch
            if state.leader_epoch < lowest_epoch:
                raise KafkaError(
                    ErrorCode.STALE_CONTROLLER_EPOCH,
                    f"leader epoch {state.leader_epoch} is not above {partition.leader_epoch}",
                )
        if self._broker_id not in state.replicas:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"it has no replica on broker {self._broker_id}",
            )

    def live_broker(self, broker_id: int) -> Broker | None:
        """A live broker by the latest news: an order may name a leader before metadata does."""
        return self._live_leaders.get(broker_id) or self._metadata.broker(broker_id)

    # Replicas of topics that are gone

    def holds_another(self, topic: OrderedTopic) -> bool:
        """Whether a replica that an order names is held here under another topic id."""
        return any(self._of_another(topic))

    def set_another_aside(self, topic: OrderedTopic) -> None:
        """Let go of the replicas of a topic that was deleted while no order could reach this
        broker: the one of an order has its name now. A log that was found at the start and not held
        since is left alone: its id may be what is wrong.
        """
        change = _Change()
        for partition in self._of_another(topic):
            _log.warning(
                "%s is set aside: its topic %s was deleted, and the name is that of %s now",
                partition.topic_partition,
                partition.topic_id,
                topic.topic_id,
            )
            partition.stop()
            self._hosted.remove(partition.topic_partition)
            self._logs.set_aside(partition.topic_partition)
            change.became_follower.append(partition)
            change.errors[partition.topic_partition] = ErrorCode.NONE
        self._announce(change)

    def _of_another(self, topic: OrderedTopic) -> Iterator[Partition]:
        for state in topic.partition_states:
            partition = self._hosted.find(TopicPartition(topic.topic_name, state.partition_index))
            if partition is None or ZERO_UUID in (topic.topic_id, partition.topic_id):
                continue
            if partition.topic_id != topic.topic_id:
                yield partition

    # Stop and delete

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicas, and delete logs if ordered: see `ReplicaLogs.finish_deletions`."""
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        response = StopReplicaResponse()
        change = _Change()
        for topic in request.topic_states:
            for order in topic.partition_states:
                topic_partition = TopicPartition(topic.topic_name, order.partition_index)
                code = self._stop_or_refuse(topic_partition, order, change)
                change.errors[topic_partition] = code
                response.partition_errors.append(
                    StopReplicaResponse.StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=order.partition_index,
                        error_code=code,
                    )
                )
        self._announce(change)
        return response

    def _stop_or_refuse(
        self, topic_partition: TopicPartition, order: OrderedStop, change: _Change
    ) -> ErrorCode:
        partition = self._hosted.find(topic_partition)
        if (
            partition is None
            and self._hosted.is_offline(topic_partition)
            and not order.delete_partition
        ):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is not None:
            from_delete = order.leader_epoch in (LEADER_DURING_DELETE, NO_EPOCH)
            if not from_delete and order.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            partition.stop()
            change.became_follower.append(partition)
            if order.leader_epoch == LEADER_DURING_DELETE:
                # The topic is gone: if its name is used again, no old leader epoch counts.
                self._hosted.remove(topic_partition)
        if not order.delete_partition:
            return ErrorCode.NONE
        self._hosted.remove(topic_partition)
        self._refused.discard(topic_partition)
        return self._logs.delete(topic_partition)

    # Metadata

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Take over the controller's view of the cluster, unless it has been replaced since."""
        if request.controller_epoch < self.controller_epoch:
            return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        deleted = self._metadata.update(request)
        self._live_leaders.clear()
        self._stop_what_others_have(request)
        self._forget_unmade(is_full=request.type == FULL_UPDATE)
        if deleted:
            for listener in self._deletion_listeners:
                listener(deleted)
        return UpdateMetadataResponse()

    def _stop_what_others_have(self, request: UpdateMetadataRequest) -> None:
        """Stop replicas that were moved away while no order could reach this broker: it would go on
        leading, and clients with equally old metadata would write here. The log stays.
        """
        change = _Change()
        for topic in request.topic_states:
            for state in topic.partition_states:
                if self._broker_id in state.replicas:
                    continue
                topic_partition = TopicPartition(topic.topic_name, state.partition_index)
                partition = self._hosted.find(topic_partition)
                if partition is None or state.leader_epoch <= partition.leader_epoch:
                    continue
                _log.info("%s has other replicas now: %s", topic_partition, state.replicas)
                partition.stop()
                change.became_follower.append(partition)
                change.errors[topic_partition] = ErrorCode.NONE
        self._announce(change)

    def _forget_unmade(self, *, is_full: bool) -> None:
        """Stop trying to make logs of replicas that were moved away meanwhile.

        A partition without metadata is gone only after a full update: the first order for a new
        partition comes before the metadata that names it.
        """
        for topic_partition in self._logs.unmade():
            state = self._metadata.partition_state(topic_partition)
            is_taken = is_full if state is None else self._broker_id not in state.replicas
            if is_taken:
                self._logs.forget_unmade(topic_partition)

    # Failures

    def partitions_offline(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Answer KAFKA_STORAGE_ERROR for partitions whose disk has failed, until a restart.

        The announcement comes a moment later, because a listener's own failed append may have found
        the fault.
        """
        change = _Change()
        for topic_partition in topic_partitions:
            partition = self._hosted.find(topic_partition)
            self._hosted.set_offline(topic_partition)
            change.errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            if partition is not None:
                partition.stop()
                change.became_follower.append(partition)
        self._metadata.replicas_failed(change.errors)
        self._timer.call_later(0, lambda: self._announce(change))

    def _announce(self, change: _Change) -> None:
        if change.became_leader or change.became_follower:
            for listener in self._listeners:
                listener(change.became_leader, change.became_follower)
        self._waiting.wake_all(change.errors)
