"""ReplicaManager: the partitions of this broker, and the parts that work on them.

The part that appends (`appends`), the one that fetches (`fetches`) and the one that obeys the
controller (`leadership`) know nothing of each other: they share the hosted partitions and the
requests that wait at them. Whoever needs one of the parts holds that part.

Law: owned by the event loop. Whatever can be answered now is answered with a plain value; only a
wait (acks=all for its followers, a fetch for its bytes) costs a future and a place in a purgatory.
A refusal is the error code of one partition and never spoils the others. Expected faults have their
own codes: on UNKNOWN_SERVER_ERROR a producer gives up a batch that may have been written, and sends
it again as a new one (KAFKA-14034).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kbroker.clock import Clock, Timer
from kbroker.config.replication_config import ReplicationConfig
from kbroker.counters import Counter, CounterRegistry, MetricName
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.replication.controller_requests.leadership import Leadership
from kbroker.replication.controller_requests.replica_logs import ReplicaLogs
from kbroker.replication.fetchers.fetcher_parts import CopyParts
from kbroker.replication.fetchers.replica_alter_log_dirs import ReplicaAlterLogDirsManager
from kbroker.replication.long_work import LongWork
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.reads.down_conversion import DownConversion
from kbroker.replication.reads.fetch_session_cache import FetchSessions
from kbroker.replication.reads.fetches import Fetches
from kbroker.replication.reads.log_dirs import LogDirs
from kbroker.replication.reads.offset_lookup import OffsetLookup
from kbroker.replication.reads.quiet_partitions import QuietPartitions
from kbroker.replication.replication_quota import ReplicationQuotas
from kbroker.replication.waiting.purgatories import CreateFuture, Purgatories, running_loop_future
from kbroker.replication.writes.appends import Appends
from kbroker.replication.writes.delete_records import RecordDeletions
from kbroker.replication.writes.last_replica import LastReplica
from kbroker.replication.writes.shared_flush import FlushPolicy, RunInThread, SharedFlush


class ReplicaManager:
    """Makes the parts, and does what is due for all partitions now and then."""

    def __init__(
        self,
        log_manager: LogManager,
        metadata: MetadataCache,
        clock: Clock,
        timer: Timer,
        config: ReplicationConfig,
        *,
        create_future: CreateFuture = running_loop_future,
    ) -> None:
        self._clock = clock
        self._timer = timer
        self.config = config
        hosted = self.hosted = HostedPartitions(metadata)
        self.isr_expands = Counter()
        self.isr_shrinks = Counter()
        metadata.is_offline_here = hosted.is_offline
        waiting = self.waiting = Purgatories(clock, timer, config, create_future)
        work = LongWork()
        self.appends = Appends(hosted, clock, waiting, work)
        self.quotas = ReplicationQuotas(metadata.broker_id)
        self.fetches = Fetches(hosted, clock, waiting, self.quotas)
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            clock,
            partial(QuietPartitions, hosted, waiting.fetches),
        )
        self.down_conversion = DownConversion(self.fetches.fetch, work)
        self.offsets = OffsetLookup(hosted, work)
        self.deletions = RecordDeletions(hosted, log_manager.checkpoints.write_log_starts, waiting)
        self.log_dirs = LogDirs(hosted, log_manager)
        self.logs = ReplicaLogs(hosted, log_manager)
        self.leadership = Leadership(
            hosted, self.logs, waiting, clock, timer, config.replica_lag_time_max_ms
        )
        self.log_dir_moves = ReplicaAlterLogDirsManager(
            CopyParts(
                hosted=hosted,
                wake=waiting.wake,
                clock=clock,
                backoff_ms=lambda: config.replica_fetch_backoff_ms,
            ),
            lambda: log_manager.futures,
            lambda: config.num_replica_alter_log_dirs_threads or len(log_manager.directories()),
            self.quotas.moving,
        )
        self.leadership.add_leadership_listener(self.log_dir_moves.on_leadership_change)
        self.last_replica: LastReplica | None = None  # while answers wait for no disk

    def register(self, counters: CounterRegistry) -> None:
        """Register what is counted here and in the parts."""
        for name, counter in (
            ("IsrExpandsPerSec", self.isr_expands),
            ("IsrShrinksPerSec", self.isr_shrinks),
        ):
            counters.add(MetricName("kafka.server", "ReplicaManager", name), counter)
        for part in (self.hosted.topics, self.fetch_sessions, self.waiting):
            part.register(counters)

    def set_group_commit(self, policy: FlushPolicy, run_in_thread: RunInThread) -> None:
        """Let answers wait for an fsync if `policy`, or a topic's flush.messages, wants it."""
        leadership, waiting = self.leadership, self.waiting
        shared_flush = self.appends.shared_flush = SharedFlush(
            policy,
            run_in_thread,
            self._clock,
            self._timer,
            waiting.wake,
            leadership.partitions_offline,
        )
        if policy is not FlushPolicy.NEVER:
            self.last_replica = LastReplica(self.hosted, waiting, shared_flush)
            leadership.add_leadership_listener(self.last_replica.on_leadership_change)

    def isr_settled(
        self, topic_partition: TopicPartition, isr: tuple[int, ...], partition_epoch: int
    ) -> None:
        """Take over the ISR that was written at version `partition_epoch`, as proposed or not."""
        partition = self.hosted.find(topic_partition)
        if partition is not None:
            grown = len(isr) - len(partition.state.isr)
            self.isr_expands.value += grown > 0
            self.isr_shrinks.value += grown < 0
            partition.isr_settled(isr, partition_epoch, self._clock.now_ms())
            self.waiting.wake(topic_partition)

    def maybe_shrink_isr(self) -> None:
        """Do all of `isr_check` at once."""
        for _ in self.isr_check():
            pass

    def isr_check(self) -> Iterator[None]:
        """Propose smaller ISRs if followers lag, and stop waiting for those that lag outside them,
        a partition at each step; due every half `replica.lag.time.max.ms`.
        """
        for partition in self.hosted:
            now_ms = self._clock.now_ms()
            partition.maybe_shrink_isr(now_ms)
            if partition.maybe_increment_high_watermark(now_ms):
                self.waiting.wake(partition.topic_partition)
            yield

    def shutdown(self) -> None:
        """Answer everything that waits and write the high watermarks."""
        self.waiting.shutdown()
        self.logs.checkpoint_high_watermarks()
