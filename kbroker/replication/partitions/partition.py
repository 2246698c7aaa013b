"""One partition held by this broker: its log, its leadership state, and what may be done with both.

Owned by the event loop. `partition_state` and `high_watermark` decide; this class reads the log for
them and writes the outcome back. An append to a partition without followers costs one comparison
more than an append to its log.
"""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.log.append.append_rules import UNLIMITED, WorkLimit
from kbroker.log.partition.leader_epoch_cache import (
    UNDEFINED_EPOCH,
    UNDEFINED_EPOCH_OFFSET,
    EpochEndOffset,
)
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import (
    CONSUMER_REPLICA_ID,
    UNKNOWN_BROKER_EPOCH,
    ZERO_UUID,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from kbroker.replication.partitions.follower_parts import parts_for
from kbroker.replication.partitions.high_watermark import next_high_watermark
from kbroker.replication.partitions.partition_state import PartitionState
from kbroker.replication.partitions.produce_result import REQUIRED_ACKS_ALL
from kbroker.replication.partitions.topic_counters import NOT_HOSTED


class IsrChanges(Protocol):
    """Carries proposals to the controller (an AlterPartitionManager)."""

    def may_join(self, broker_id: int, /) -> bool:
        """Whether a broker is alive, and so may be in an ISR."""
        ...

    def propose(self, partition: Partition, isr: tuple[int, ...], /) -> None:
        """Ask for an ISR; the answer comes through `isr_settled` or `isr_refused`."""
        ...


class Partition:
    """A replica of a partition. `leader_epoch`, `is_leader` and offsets are those of the moment."""

    __slots__ = (
        "_is_alone",
        "_isr_changes",
        "append_has_committed",
        "counters",
        "lag_time_max_ms",
        "log",
        "state",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        log: Log,
        local_broker_id: int,
        *,
        lag_time_max_ms: int = 30_000,
        isr_changes: IsrChanges | None = None,
    ) -> None:
        """`isr_changes` is None if there is no controller to ask for a new ISR."""
        self.topic_partition = topic_partition
        self.log = log
        self.counters = NOT_HOSTED  # of its topic
        self.state = PartitionState(local_id=local_broker_id)
        self.lag_time_max_ms = lag_time_max_ms
        self._isr_changes = isr_changes
        self._is_alone = False  # this broker leads and no follower holds the high watermark back
        # The last append moved the high watermark past earlier ones, which waited for a follower
        # that no longer counts.
        self.append_has_committed = False

    def __repr__(self) -> str:
        return f"Partition({self.topic_partition}, {self.state})"

    @property
    def topic_id(self) -> UUID:
        """The topic's id, zero if it has none."""
        return self.log.topic_id or ZERO_UUID

    @property
    def is_leader(self) -> bool:
        return self.state.is_leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    # Leadership

    def make_leader(
        self,
        change: LeaderAndIsr,
        assignment: ReplicaAssignment,
        controller_epoch: int,
        now_ms: int,
    ) -> bool:
        """Lead from now on; True if this broker did not lead in this epoch before."""
        log = self.log
        before = self.state
        end_offset = log.log_end_offset
        self._set_state(before.as_leader(change, assignment, controller_epoch, end_offset, now_ms))
        is_new = not before.is_leader or before.leader_epoch != change.leader_epoch
        if is_new:
            log.begin_leader_epoch(change.leader_epoch)
        self.maybe_increment_high_watermark(now_ms)
        return is_new

    def reassign(self, assignment: ReplicaAssignment) -> None:
        """Replace the replicas, as a leader that goes on in its epoch."""
        self._set_state(self.state.as_assigned(assignment))

    def make_follower(
        self, change: LeaderAndIsr, assignment: ReplicaAssignment, controller_epoch: int
    ) -> bool:
        """Follow `change.leader`, or nobody if that is -1; True if the leader or epoch is new."""
        before = self.state
        self._set_state(before.as_follower(change, assignment, controller_epoch))
        return (before.leader, before.leader_epoch) != (change.leader, change.leader_epoch)

    def stop(self) -> None:
        """Neither lead nor follow until the controller says otherwise."""
        self._set_state(self.state.stopped())

    def check_access(self, leader_epoch: int, *, leader_only: bool) -> None:
        """Raise FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER (KIP-320)."""
        refusal = self.state.check_access(leader_epoch, leader_only=leader_only)
        if refusal is not ErrorCode.NONE:
            raise KafkaError(
                refusal,
                f"Partition {self.topic_partition} at leader epoch {self.state.leader_epoch}, "
                f"asked for {leader_epoch}",
            )

    # Records

    def append_records_to_leader(
        self,
        records: memoryview | bytearray,
        required_acks: int,
        now_ms: int,
        origin: AppendOrigin,
        limit: WorkLimit = UNLIMITED,
    ) -> LogAppendInfo:
        """Append to the log as its leader.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, or the log's own refusal;
        TakesLongError beyond `limit`: call `prepare_append` and `append_prepared` then.
        """
        state = self.state
        if state.leader != state.local_id or (
            required_acks == REQUIRED_ACKS_ALL and not self._is_alone
        ):
            self._check_may_append(required_acks)
        log = self.log
        info = log.append_as_leader(records, state.leader_epoch, now_ms, origin=origin, limit=limit)
        if self._is_alone:
            log.update_high_watermark(log.offsets.log_end_offset)
        else:
            self.append_has_committed = self.maybe_increment_high_watermark(now_ms)
        return info

    def prepare_append(
        self,
        records: memoryview | bytearray,
        required_acks: int,
        now_ms: int,
        origin: AppendOrigin,
    ) -> Preparation:
        """Return a worker thread's part of an append. Raises the KafkaErrors of an append."""
        self._check_may_append(required_acks)
        return self.log.appends.prepare(records, self.state.leader_epoch, now_ms, origin)

    def append_prepared(
        self, prepared: Prepared, required_acks: int, now_ms: int
    ) -> LogAppendInfo | None:
        """Append a prepared batch; None if it has to be prepared again. Raises like an append."""
        self._check_may_append(required_acks)
        info = self.log.appends.append_prepared(prepared, self.state.leader_epoch, now_ms)
        if info is not None:
            moved = self.maybe_increment_high_watermark(now_ms)
            self.append_has_committed = moved and not self._is_alone
        return info

    def check_leads(self) -> None:
        """Raise KafkaError NOT_LEADER_OR_FOLLOWER if this broker does not lead."""
        if self.state.leader != self.state.local_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"This broker does not lead {self.topic_partition}",
            )

    def _check_may_append(self, required_acks: int) -> None:
        self.check_leads()
        if not self._is_alone and required_acks == REQUIRED_ACKS_ALL:
            self._check_in_sync_replicas()

    def _check_in_sync_replicas(self) -> None:
        minimum = self.log.config.min_insync_replicas
        if self.state.is_under_min_isr(minimum):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The ISR {self.state.isr} of {self.topic_partition} is too small for "
                f"min.insync.replicas={minimum}",
            )

    def last_fetchable_offset(self, isolation: FetchIsolation) -> int:
        """The offset before which a reader of that isolation has to stop."""
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.log.high_watermark
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self.log.last_stable_offset
        return self.log.log_end_offset

    def end_offset_for_epoch(
        self, epoch: int, replica_id: int = CONSUMER_REPLICA_ID
    ) -> EpochEndOffset:
        """The largest epoch not above `epoch`, and its end; both -1 if unknown (KIP-101).

        If this log has no record of an epoch, a follower has to cut whatever it wrote in that epoch
        within this log's range. A follower in sync keeps it: soon it may be the only copy.
        """
        epochs = self.log.leader_epoch_cache
        if (
            replica_id >= 0
            and self._knows_nothing_of(epoch)
            and replica_id not in self.state.maximal_isr
        ):
            return EpochEndOffset(epoch, self.log.log_start_offset)
        if epochs.is_kept and self.is_leader and epochs.latest_epoch < epoch < self.leader_epoch:
            # A full disk kept the epoch that this broker leads in from being noted: nothing is
            # written in it yet.
            known = epochs.latest_epoch if epochs.latest_epoch != UNDEFINED_EPOCH else epoch
            return EpochEndOffset(known, self.state.leader_epoch_start_offset)
        return epochs.end_offset_for(epoch, self.log.log_end_offset)

    def _knows_nothing_of(self, epoch: int) -> bool:
        """Whether an epoch may have written in this log's range and left no record here: records
        begin after the log's start and in a later epoch, as in a copy of a cleaned log.
        """
        oldest = self.log.leader_epoch_cache.oldest
        if oldest is None or not 0 <= epoch < oldest.epoch:
            return False
        return oldest.start_offset > self.log.log_start_offset

    def diverging_epoch(
        self, last_fetched_epoch: int, fetch_offset: int, replica_id: int = CONSUMER_REPLICA_ID
    ) -> EpochEndOffset | None:
        """Where the fetcher's log parts from this one, None if it does not (KIP-595).

        Raises KafkaError OFFSET_OUT_OF_RANGE if this log does not know the epoch.
        """
        found = self.end_offset_for_epoch(last_fetched_epoch, replica_id)
        if found.end_offset == UNDEFINED_EPOCH_OFFSET or found.epoch == UNDEFINED_EPOCH:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} knows no end of epoch {last_fetched_epoch}",
            )
        if found.epoch < last_fetched_epoch or found.end_offset < fetch_offset:
            return found
        return None

    # Following

    def append_as_follower(
        self, records: memoryview, now_ms: int, leader_start_offset: int
    ) -> LogAppendInfo | None:
        """Append what the leader sent; the result of the last part, None if no batch is whole.

        Raises the KafkaErrors of `Log.append_as_follower`; what came before the refused part stays.
        """
        log, info = self.log, None
        for part in parts_for(records, log.config.segment_bytes):
            appended = log.append_as_follower(part, now_ms, leader_start_offset)
            info = appended if appended.last_offset >= 0 else info
        return info

    def follow_leader(self, high_watermark: int, log_start_offset: int) -> bool:
        """Take over the leader's high watermark and log start; True if the former moved."""
        log = self.log
        before = log.high_watermark
        moved = log.update_high_watermark(high_watermark) > before
        if log.log_start_offset < log_start_offset <= log.high_watermark:
            log.maybe_increment_log_start_offset(log_start_offset)
        return moved

    # Followers and the high watermark

    def check_committed(self, end_offset: int) -> ErrorCode | None:
        """The outcome of an acks=all append up to `end_offset`; None while a replica lacks part."""
        if not self.state.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < end_offset:
            return None
        if self.state.is_under_min_isr(self.log.config.min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def has_replica(self, replica_id: int) -> bool:
        """Whether a broker is a follower of this partition."""
        return replica_id in self.state.followers

    def follower_fetched(
        self,
        replica_id: int,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        *,
        replica_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> bool:
        """Note how far a follower has come; True if that moved the high watermark."""
        end_offset = self.log.log_end_offset
        self.state.follower_fetched(replica_id, fetch_offset, log_start_offset, now_ms, end_offset)
        self.state.followers[replica_id].broker_epoch = replica_epoch
        grown = self.state.expanded_isr(replica_id, self.log.high_watermark)
        changes = self._isr_changes
        if grown is not None and changes is not None and changes.may_join(replica_id):
            self._propose(grown, changes)
        return self.maybe_increment_high_watermark(now_ms)

    def maybe_shrink_isr(self, now_ms: int) -> None:
        """Propose an ISR without replicas that lag; due every half `replica.lag.time.max.ms`."""
        shrunk = self.state.shrunk_isr(
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
            lag_time_max_ms=self.lag_time_max_ms,
        )
        if shrunk is not None and self._isr_changes is not None:
            self._propose(shrunk, self._isr_changes)

    def follower_epoch(self, replica_id: int) -> int:
        """The broker epoch a follower last fetched under; unknown (-1) if it named none."""
        follower = self.state.followers.get(replica_id)
        return UNKNOWN_BROKER_EPOCH if follower is None else follower.broker_epoch

    def isr_settled(self, isr: tuple[int, ...], partition_epoch: int, now_ms: int) -> bool:
        """Take over the ISR that the state znode holds; True if the high watermark moved."""
        self._set_state(self.state.settled(isr, partition_epoch))
        return self.maybe_increment_high_watermark(now_ms)

    def isr_refused(self) -> None:
        """Give up a proposal: the ISR stays as it was."""
        self._set_state(self.state.refused())

    def maybe_increment_high_watermark(self, now_ms: int) -> bool:
        """Move a leader's high watermark as far as the replicas allow; True if it moved."""
        log = self.log
        if not self.state.is_leader:
            return False
        current = log.high_watermark
        reached = next_high_watermark(
            self.state,
            current,
            log.log_end_offset,
            min_insync_replicas=log.config.min_insync_replicas,
            now_ms=now_ms,
            lag_time_max_ms=self.lag_time_max_ms,
        )
        if reached > current:
            log.update_high_watermark(reached)
        return reached > current

    def _propose(self, isr: tuple[int, ...], changes: IsrChanges) -> None:
        self._set_state(self.state.proposing(isr))
        changes.propose(self, isr)

    def _set_state(self, state: PartitionState) -> None:
        self.state = state
        self._is_alone = state.is_leader and state.is_alone_in_sync()
        self.append_has_committed = False
