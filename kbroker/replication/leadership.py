"""Carries out what the controller orders: lead, follow, stop, delete. Each partition succeeds or
fails by itself.

Law: owned by the event loop. A controller that has been replaced is refused by its epoch, news of
an older leader by theirs; both are answered, never applied. The order within one partition: log
first, then state, then announcement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kbroker.clock import Clock
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.deletion.log_deletions import OnSettled
from kbroker.log.log_manager import LogManager
from kbroker.model import (
    LEADER_DURING_DELETE,
    ZERO_UUID,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.replication.hosted_partitions import HostedPartitions
from kbroker.replication.partition import IsrChange, Partition, no_isr_change

OrderedState = LeaderAndIsrRequest.LeaderAndIsrPartitionState

NO_EPOCH = -1

_log = logging.getLogger(__name__)


class StopOrder(NamedTuple):
    """One partition of a StopReplica request, the same for all its versions."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


@dataclass(slots=True)
class LeadershipChange:
    """What came of one request: partitions by their new role, and an error code per partition."""

    became_leader: list[Partition] = field(default_factory=list)
    became_follower: list[Partition] = field(default_factory=list)
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)


class Leadership:
    """Applies LeaderAndIsr and StopReplica requests to the hosted partitions of one broker."""

    def __init__(
        self,
        broker_id: int,
        hosted: HostedPartitions,
        log_manager: LogManager,
        clock: Clock,
        lag_time_max_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._hosted = hosted
        self._log_manager = log_manager
        self._clock = clock
        self._lag_time_max_ms = lag_time_max_ms
        # High watermarks of the last run; read from disk when first needed.
        self._checkpointed: dict[TopicPartition, int] | None = None
        # Logs that could not be made, though nothing but room or a file handle was missing; and
        # those that could not be deleted.
        self._unmade: set[TopicPartition] = set()
        self._undeleted: set[TopicPartition] = set()
        # Those whose log here belongs to another topic of the name.
        self._refused: set[TopicPartition] = set()
        self.on_unmade: Callable[[], None] = _nobody
        self.isr_change: IsrChange = no_isr_change
        self.controller_epoch = 0

    # Lead and follow

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest
    ) -> tuple[LeaderAndIsrResponse, LeadershipChange]:
        """Apply a request whose controller epoch is not stale."""
        change = LeadershipChange()
        if request.controller_epoch < self.controller_epoch:
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH), change
        self.controller_epoch = request.controller_epoch
        response = LeaderAndIsrResponse()
        for name, topic_id, states in _ordered_topics(request):
            entries = []
            for state in states:
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
        return response, change

    def _apply_or_refuse(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        state: OrderedState,
        change: LeadershipChange,
    ) -> ErrorCode:
        try:
            self._apply(topic_partition, topic_id, state, change)
        except KafkaError as error:
            # A new controller tells everything again: what is known already is no trouble.
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
        """Whether the last order to lead or follow it was refused for good: its log belongs to
        another topic of the name.
        """
        return topic_partition in self._refused

    def _apply(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        state: OrderedState,
        change: LeadershipChange,
    ) -> None:
        if self._hosted.is_offline(topic_partition):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log directory is offline")
        partition = self._hosted.find(topic_partition)
        self._check_order(partition, topic_id, state)
        if partition is None:
            partition = self._make(topic_partition, topic_id, is_new=state.is_new)
        order = LeaderAndIsr(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(state.isr),
            partition_epoch=state.partition_epoch,
        )
        assignment = ReplicaAssignment(
            replicas=tuple(state.replicas),
            adding_replicas=tuple(state.adding_replicas),
            removing_replicas=tuple(state.removing_replicas),
        )
        if state.leader == self._broker_id:
            if partition.make_leader(
                order, assignment, state.controller_epoch, self._clock.now_ms()
            ):
                change.became_leader.append(partition)
        elif partition.make_follower(order, assignment, state.controller_epoch):
            change.became_follower.append(partition)

    def _check_order(
        self, partition: Partition | None, topic_id: UUID, state: OrderedState
    ) -> None:
        if partition is not None:
            known_id = partition.topic_id
            if topic_id != known_id and ZERO_UUID not in (topic_id, known_id):
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID, f"it has topic id {known_id}, not {topic_id}"
                )
            if state.leader_epoch <= partition.leader_epoch:
                raise KafkaError(
                    ErrorCode.STALE_CONTROLLER_EPOCH,
                    f"leader epoch {state.leader_epoch} is not above {partition.leader_epoch}",
                )
        if self._broker_id not in state.replicas:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"it has no replica on broker {self._broker_id}",
            )

    def retry_unmade(self) -> bool:
        """Let logs that could not be made, or deleted, be tried again with the next order; True if
        there are any.
        """
        for topic_partition in self._unmade:
            if self._hosted.is_offline(topic_partition):
                self._hosted.remove(topic_partition)
        return bool(self._unmade or self._undeleted)

    def _make(self, topic_partition: TopicPartition, topic_id: UUID, *, is_new: bool) -> Partition:
        was_unmade = topic_partition in self._unmade  # so its log lies nowhere
        try:
            partition = self._create(topic_partition, topic_id, is_new=is_new or was_unmade)
        except KafkaError as error:
            # A log that is not new may lie in a directory that has failed.
            may_pass = is_new or self._all_directories_work()
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and may_pass:
                self._unmade.add(topic_partition)
                self.on_unmade()
            raise
        self._unmade.discard(topic_partition)
        return partition

    def _create(
        self, topic_partition: TopicPartition, topic_id: UUID, *, is_new: bool
    ) -> Partition:
        known_id = None if topic_id == ZERO_UUID else topic_id
        log = self._log_manager.get_or_create_log(topic_partition, known_id, is_new=is_new)
        checkpointed = self._checkpointed_high_watermarks().pop(topic_partition, 0)
        log.update_high_watermark(min(max(checkpointed, log.log_start_offset), log.log_end_offset))
        partition = Partition(
            topic_partition,
            log,
            self._broker_id,
            lag_time_max_ms=self._lag_time_max_ms,
            isr_change=self.isr_change,
        )
        self._hosted.add(partition)
        return partition

    # Stop and delete

    def stop_replicas(
        self, request: StopReplicaRequest
    ) -> tuple[StopReplicaResponse, LeadershipChange]:
        """Stop replicas, and delete their logs where ordered."""
        change = LeadershipChange()
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH), change
        self.controller_epoch = request.controller_epoch
        response = StopReplicaResponse()
        for order in _stop_orders(request):
            code = self._stop_or_refuse(order, change)
            change.errors[order.topic_partition] = code
            response.partition_errors.append(
                StopReplicaResponse.StopReplicaPartitionError(
                    topic_name=order.topic_partition.topic,
                    partition_index=order.topic_partition.partition,
                    error_code=code,
                )
            )
        return response, change

    def _stop_or_refuse(self, order: StopOrder, change: LeadershipChange) -> ErrorCode:
        topic_partition = order.topic_partition
        partition = self._hosted.find(topic_partition)
        if partition is None and self._hosted.is_offline(topic_partition) and not order.delete:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is not None:
            from_delete = order.leader_epoch in (LEADER_DURING_DELETE, NO_EPOCH)
            if not from_delete and order.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            partition.stop()
            change.became_follower.append(partition)
            if order.leader_epoch == LEADER_DURING_DELETE:
                # Its topic has gone: should the name be used again, no old leader epoch counts.
                self._hosted.remove(topic_partition)
        if not order.delete:
            return ErrorCode.NONE
        self._hosted.remove(topic_partition)
        self._refused.discard(topic_partition)
        self._unmade.discard(topic_partition)
        self._checkpointed_high_watermarks().pop(topic_partition, None)
        try:
            self._log_manager.delete_log(topic_partition)
        except KafkaError as error:
            _log.warning("Log of %s not deleted: %s", topic_partition, error)
            self._not_deleted(topic_partition)
            return error.code
        self._undeleted.discard(topic_partition)
        return ErrorCode.NONE

    def finish_deletions(self, on_finished: OnSettled) -> None:
        """Bring the deletions of logs to the disk; `on_finished` hears which of them failed."""

        def finished(failed: frozenset[TopicPartition]) -> None:
            for topic_partition in failed:
                self._not_deleted(topic_partition)
            on_finished(failed)

        self._log_manager.finish_deletions(finished)

    def _not_deleted(self, topic_partition: TopicPartition) -> None:
        """Have it ordered again, unless a disk failed: then its next start is asked."""
        if self._all_directories_work():
            self._undeleted.add(topic_partition)
            self.on_unmade()

    def _all_directories_work(self) -> bool:
        return all(d.failure is None for d in self._log_manager.directories())

    def take_offline(self, topic_partitions: Iterable[TopicPartition]) -> LeadershipChange:
        """Their data directory has failed: refuse them until a restart."""
        change = LeadershipChange()
        for topic_partition in topic_partitions:
            partition = self._hosted.find(topic_partition)
            self._hosted.set_offline(topic_partition)
            change.errors[topic_partition] = ErrorCode.KAFKA_STORAGE_ERROR
            if partition is not None:
                partition.stop()
                change.became_follower.append(partition)
        return change

    # High watermark checkpoint

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks of all hosted partitions, and of logs whose leadership is not
        settled yet.
        """
        waiting = {
            topic_partition: offset
            for topic_partition, offset in self._checkpointed_high_watermarks().items()
            if self._log_manager.get_log(topic_partition) is not None
        }
        current = {
            partition.topic_partition: partition.high_watermark for partition in self._hosted
        }
        self._log_manager.write_high_watermarks({**waiting, **current})

    def _checkpointed_high_watermarks(self) -> dict[TopicPartition, int]:
        if self._checkpointed is None:
            self._checkpointed = dict(self._log_manager.read_high_watermarks())
        return self._checkpointed


def _nobody() -> None:
    """Nobody wants to know."""


def _ordered_topics(
    request: LeaderAndIsrRequest,
) -> Iterator[tuple[str, UUID, list[OrderedState]]]:
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states
    for state in request.ungrouped_partition_states:  # versions before 2
        yield state.topic_name, ZERO_UUID, [state]


def _stop_orders(request: StopReplicaRequest) -> Iterator[StopOrder]:
    for state in request.topic_states:
        for partition in state.partition_states:
            topic_partition = TopicPartition(state.topic_name, partition.partition_index)
            yield StopOrder(topic_partition, partition.leader_epoch, partition.delete_partition)
    for topic in request.topics:  # versions 1 and 2
        for index in topic.partition_indexes:
            yield StopOrder(TopicPartition(topic.name, index), NO_EPOCH, request.delete_partitions)
    for named in request.ungrouped_partitions:  # version 0
        topic_partition = TopicPartition(named.topic_name, named.partition_index)
        yield StopOrder(topic_partition, NO_EPOCH, request.delete_partitions)
