"""ReplicaManager: every read and write of a partition that this broker holds goes through here.

Law: owned by the event loop. What can be answered now is answered with a plain value; only what has
to wait (acks=all for its followers, a fetch for its bytes) costs a future and a place in a
purgatory. A refusal is the error code of one partition and never spoils the others. Expected faults
have their own codes: a producer that reads UNKNOWN_SERVER_ERROR gives up a batch that may have been
written, and sends it again as a new one (KAFKA-14034).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from kbroker.clock import Clock, Timer
from kbroker.config.replication_config import ReplicationConfig
from kbroker.errors import ErrorCode
from kbroker.log.append.log_append_info import AppendOrigin
from kbroker.log.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kbroker.replication.appends import Appends
from kbroker.replication.delayed_fetch import DelayedFetch
from kbroker.replication.delayed_produce import DelayedProduce
from kbroker.replication.delete_records import record_deletions
from kbroker.replication.down_conversion import DownConversion
from kbroker.replication.fetch_params import FetchParams, FetchPartition
from kbroker.replication.fetch_reader import FetchOutcome, FetchReader
from kbroker.replication.fetch_session import FetchSessions
from kbroker.replication.group_commit import FlushPolicy, GroupCommit, RunInThread
from kbroker.replication.hosted_partitions import HostedPartitions
from kbroker.replication.leadership import Leadership, LeadershipChange
from kbroker.replication.log_dirs import LogDirs
from kbroker.replication.long_work import LongWork
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.offset_lookup import OffsetLookup
from kbroker.replication.partition import IsrChange, Partition
from kbroker.replication.purgatory import DelayedOperationPurgatory

LeadershipListener = Callable[[Iterable[Partition], Iterable[Partition]], None]
DeletionListener = Callable[[Iterable[TopicPartition]], None]


class ReplicaManager:
    """Holds partitions, appends to them, reads from them, and lets requests wait for what happens
    to them.
    """

    def __init__(
        self,
        log_manager: LogManager,
        metadata: MetadataCache,
        clock: Clock,
        timer: Timer,
        config: ReplicationConfig,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._timer = timer
        self.config = config
        self._hosted = HostedPartitions(metadata)
        metadata.is_offline_here = self._hosted.is_offline
        self._leadership = Leadership(
            metadata.broker_id, self._hosted, log_manager, clock, config.replica_lag_time_max_ms
        )
        self._reader = FetchReader(self._hosted)
        work = LongWork()
        self.fetch_converted = DownConversion(self.fetch, work).fetch
        self._offsets = OffsetLookup(self._hosted, work)
        self.list_offsets = self._offsets.list_offsets
        self.list_offsets_before = self._offsets.list_offsets_before
        self.end_offset_for_epoch = self._offsets.end_offset_for_epoch
        self._deletions = record_deletions(
            self._hosted,
            metadata,
            log_manager.write_log_starts,
            clock,
            timer,
            purge_interval=config.delete_records_purgatory_purge_interval_requests,
        )
        self.delete_records = self._deletions.delete
        self.describe_log_dirs = LogDirs(
            self._hosted, log_manager.directories, log_manager.all_logs
        ).describe
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, clock)
        self.fetch_purgatory: DelayedOperationPurgatory[DelayedFetch] = DelayedOperationPurgatory(
            clock, timer, purge_interval=config.fetch_purgatory_purge_interval_requests
        )
        self.produce_purgatory: DelayedOperationPurgatory[DelayedProduce] = (
            DelayedOperationPurgatory(
                clock, timer, purge_interval=config.producer_purgatory_purge_interval_requests
            )
        )
        self._appends = Appends(
            self._hosted,
            clock,
            self.fetch_purgatory,
            self.produce_purgatory,
            work,
            lambda: self.create_future(),  # noqa: PLW0108 - a simulated loop replaces it later
        )
        self.append_records = self._appends.append_records
        self.append_old_sets = partial(self.append_records, origin=AppendOrigin.OLD_CLIENT)
        self._listeners: list[LeadershipListener] = []
        self._deletion_listeners: list[DeletionListener] = []

    # Partitions

    def get_partition(self, topic_partition: TopicPartition) -> Partition:
        """An online partition of this broker.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR.
        """
        return self._hosted.get(topic_partition)

    def find_partition(self, topic_partition: TopicPartition) -> Partition | None:
        """The partition when it is online here, else None."""
        return self._hosted.find(topic_partition)

    def partitions(self) -> list[Partition]:
        """All online partitions of this broker."""
        return list(self._hosted)

    # What the controller orders

    @property
    def controller_epoch(self) -> int:
        """Of the latest controller that has ordered anything."""
        return self._leadership.controller_epoch

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Call `listener(became_leader, became_follower)` after each change; stopped replicas count
        as followers.
        """
        self._listeners.append(listener)

    def add_deletion_listener(self, listener: DeletionListener) -> None:
        """Call `listener` with the partitions that have gone from the cluster."""
        self._deletion_listeners.append(listener)

    def set_isr_change(self, isr_change: IsrChange) -> None:
        """How partitions ask for a new ISR; to be set before the first partition is made leader."""
        self._leadership.isr_change = isr_change

    def was_refused(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition cannot be led or followed, as its log belongs to another topic."""
        return self._leadership.was_refused(topic_partition)

    def on_unmade(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a log could not be made, or deleted, that can be later."""
        self._leadership.on_unmade = listener

    def retry_unmade(self) -> bool:
        """Let logs that could not be made, or deleted, be tried with the controller's next order.

        True if there are any.
        """
        return self._leadership.retry_unmade()

    def set_group_commit(self, policy: FlushPolicy, run_in_thread: RunInThread) -> None:
        """Let answers wait for an fsync where `policy`, or a topic's flush.messages, wants it."""
        self._appends.group_commit = GroupCommit(
            policy, run_in_thread, self._clock, self._timer, self.wake, self.partitions_offline
        )

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Lead and follow as ordered; the response has an error code per partition."""
        response, change = self._leadership.become_leader_or_follower(request)
        self._announce(change)
        return response

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicas, and delete their logs where ordered: see `finish_deletions`."""
        response, change = self._leadership.stop_replicas(request)
        self._announce(change)
        return response

    async def finish_deletions(self) -> frozenset[TopicPartition]:
        """Return when the logs that were to be deleted are so on the disk; those for which that
        failed.
        """
        future: asyncio.Future[frozenset[TopicPartition]]
        future = asyncio.get_running_loop().create_future()

        def finished(failed: frozenset[TopicPartition]) -> None:
            if not future.done():
                future.set_result(failed)

        self._leadership.finish_deletions(finished)
        return await future

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Take over what the controller says about the cluster, unless it was replaced since."""
        if request.controller_epoch < self._leadership.controller_epoch:
            return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        self._leadership.controller_epoch = request.controller_epoch
        deleted = self._metadata.update(request)
        if deleted:
            for listener in self._deletion_listeners:
                listener(deleted)
        return UpdateMetadataResponse()

    def partitions_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """The disk of these partitions has failed: they answer KAFKA_STORAGE_ERROR from now on.

        Announced a moment later, because the failed append of a listener may be what has found it
        out.
        """
        change = self._leadership.take_offline(partitions)
        self._metadata.replicas_failed(change.errors)
        self._timer.call_later(0, lambda: self._announce(change))

    def _announce(self, change: LeadershipChange) -> None:
        if change.became_leader or change.became_follower:
            for listener in self._listeners:
                listener(change.became_leader, change.became_follower)
        for topic_partition in change.errors:
            self.wake(topic_partition)
            self._deletions.wake(topic_partition)

    # Fetch

    def fetch(
        self, params: FetchParams, asked_for: Sequence[FetchPartition]
    ) -> list[FetchResponse.PartitionData] | Awaitable[list[FetchResponse.PartitionData]]:
        """Read from each partition; a plain list where nothing has to be waited for.

        Entries are in the order asked for. It waits, up to `max_wait_ms`, while there is less than
        `min_bytes` to read and nothing that does not wait (see `FetchOutcome`).
        """
        outcome = self._reader.read(params, asked_for)
        if params.replica_id >= 0:
            self._note_follower(params, asked_for, outcome)
        if (
            outcome.available_bytes >= params.min_bytes
            or outcome.must_answer
            or params.max_wait_ms <= 0
            or not asked_for
        ):
            return outcome.partitions
        future: asyncio.Future[list[FetchResponse.PartitionData]] = self.create_future()
        operation = DelayedFetch(params, asked_for, outcome, self._reader.read, future)
        keys = [asked.topic_partition for asked in asked_for]
        self.fetch_purgatory.watch(operation, keys, params.max_wait_ms)
        future.add_done_callback(lambda _done: self.fetch_purgatory.drop(operation))
        return future

    def _note_follower(
        self, params: FetchParams, asked_for: Sequence[FetchPartition], outcome: FetchOutcome
    ) -> None:
        now_ms = self._clock.now_ms()
        for asked, data in zip(asked_for, outcome.partitions, strict=True):
            partition = self._hosted.find(asked.topic_partition)
            if partition is None or data.error_code or data.diverging_epoch.epoch >= 0:
                continue
            if partition.follower_fetched(
                params.replica_id, asked.fetch_offset, asked.log_start_offset, now_ms
            ):
                self.wake(asked.topic_partition)
            self._deletions.wake(asked.topic_partition)

    # Waiting requests

    def wake(self, topic_partition: TopicPartition) -> None:
        """Look at the requests that wait for this partition: its end, high watermark, LSO or
        leadership changed.
        """
        self.fetch_purgatory.check_and_complete(topic_partition)
        self.produce_purgatory.check_and_complete(topic_partition)

    def isr_settled(
        self, topic_partition: TopicPartition, isr: tuple[int, ...], partition_epoch: int
    ) -> None:
        """A proposed ISR has been written, or replaced by another one, at version
        `partition_epoch`.
        """
        partition = self._hosted.find(topic_partition)
        if partition is not None and partition.isr_settled(
            isr, partition_epoch, self._clock.now_ms()
        ):
            self.wake(topic_partition)

    def create_future(self) -> asyncio.Future[list]:  # type: ignore[type-arg]
        """A future of the running event loop."""
        return asyncio.get_running_loop().create_future()

    # Periodic work

    def maybe_shrink_isr(self) -> None:
        """Propose smaller ISRs where followers lag; due every half `replica.lag.time.max.ms`."""
        now_ms = self._clock.now_ms()
        for partition in self._hosted:
            partition.maybe_shrink_isr(now_ms)

    def checkpoint_high_watermarks(self) -> None:
        """Write `replication-offset-checkpoint`; due every
        `replica.high.watermark.checkpoint.interval.ms`.
        """
        self._leadership.checkpoint_high_watermarks()

    def stop_appends(self) -> None:
        """Append nothing more of what is being prepared: it is refused."""
        self._appends.shutdown()

    def shutdown(self) -> None:
        """Answer everything that waits and write the high watermarks."""
        self.fetch_purgatory.shutdown()
        self.produce_purgatory.shutdown()
        self._deletions.shutdown()
        self.checkpoint_high_watermarks()
