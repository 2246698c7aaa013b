"""A broker at work over a recording disk: everything that writes, in random order under a seed.

Work that a real broker gives to threads waits in a queue and is done at a random later step; while
it is, the event loop may append. `on_moment` is called between any two changes of the disk, with
the promises that hold at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from uuid import UUID

from kbroker.config.config_def import replace
from kbroker.config.replication_config import ReplicationConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.cleaner.log_cleaner import LogCleaner
from kbroker.log.disk.file_system import StorageError
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.record import record_batch
from kbroker.record.record_batch import (
    build,
)
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.replication.writes.shared_flush import FlushPolicy
from tests.fakes.clusters.replication_cluster import leader_and_isr, stop_replica, update_metadata
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.verified_batches import verified
from tests.fakes.running.loop_turns import run_ready
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.crash_cleaning import CHANGES, CLEANER_SETTINGS, CleaningThread
from tests.faults.crash_model import PartitionPromise, Promises, split
from tests.faults.crash_records import RecordMaker
from tests.faults.crash_storage import BROKER_ID, TOPIC_CONFIG, CrashStorage

OFFSETS_TOPIC = "__consumer_offsets"
TOPIC_NAMES = ("orders", "payments", "clicks")
PRODUCERS = range(1, 5)  # the last two write transactions
OTHER_BROKER = 1

Moment = Callable[["CrashLoad"], None]


class CrashLoad:
    """One broker, restarted now and then; `step` does one thing."""

    def __init__(self, random: Random, flush: str, disk: RecordingFileSystem) -> None:
        self.random = random
        self.flush = flush
        self.disk = disk
        self.time = VirtualTime()
        self.loop = asyncio.new_event_loop()
        self.promises = Promises()
        self.on_moment: Moment = lambda _: None
        self.acked = 0
        self._waiting: list[tuple[asyncio.Future[list[object]], TopicPartition, bytes]] = []
        self._deletions: list[tuple[asyncio.Task[object], PartitionPromise, int]] = []
        self._in_flight: tuple[TopicPartition, memoryview] | None = None
        self._flushes: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self._writes: list[Callable[[], None]] = []
        self._is_in_thread = False
        self._maker = RecordMaker(random, self.time)
        self._kinds = [(method, weight) for method, weight in self._work().items()]
        self._start()

    def close(self) -> None:
        self.cleaner.stop()
        for task, _, _ in self._deletions:
            task.cancel()
        self._spin()
        self.loop.close()

    def step(self) -> None:
        """One thing a broker does."""
        methods, weights = zip(*self._kinds, strict=True)
        self.random.choices(methods, weights)[0]()
        self._spin()

    def settle(self) -> None:
        """Note which answers have left."""
        waiting = []
        for entry in self._waiting:
            future, topic_partition, data = entry
            if not future.done():
                waiting.append(entry)
            elif not future.cancelled() and future.result()[0].error_code is ErrorCode.NONE:  # type: ignore[attr-defined]
                self._acknowledged(topic_partition, data)
        self._waiting = waiting
        deletions = []
        for deletion in self._deletions:
            task, promise, offset = deletion
            if not task.done():
                deletions.append(deletion)
            elif not task.cancelled() and task.result()[0].error_code is ErrorCode.NONE:  # type: ignore[index]
                promise.must_lack_below = max(promise.must_lack_below, offset)
        self._deletions = deletions

    def promises_now(self) -> Promises:
        """Return what holds at this moment, in the middle of whatever is going on."""
        self.settle()
        for topic_partition, promise in self.promises.partitions.items():
            log = self.storage.logs.get_log(topic_partition)
            if log is not None:
                promise.promise_up_to(log.offsets.recovery_point)
                promise.may_lack_below = max(promise.may_lack_below, log.log_start_offset)
        frozen = self.promises.copy()
        if self._in_flight is not None:
            topic_partition, records = self._in_flight
            for _, data in split(bytes(records)):
                frozen.partitions[topic_partition].wrote(data)
        return frozen

    def adopt(self, image: RecordingFileSystem, promises: Promises) -> None:
        """Lose power, and go on with an image of a moment ago and the promises of then."""
        self.cleaner.stop()
        for task, _, _ in self._deletions:
            task.cancel()
        self._spin()
        self.disk.before_change = None
        self.disk = image
        self.promises = promises
        self._waiting, self._deletions, self._flushes, self._writes = [], [], [], []
        self._start()
        self._promise_what_was_found()

    # Start and stop

    def _start(self) -> None:
        self.disk.before_change = self._before_change
        self.storage = CrashStorage(self.disk, self.time, self.promises.settings)
        self.replicas = ReplicaManager(
            self.storage.logs,
            MetadataCache(BROKER_ID, "cluster"),
            self.time,
            self.time,
            ReplicationConfig(),
            create_future=self.loop.create_future,
        )
        self.replicas.leadership.update_metadata(update_metadata())
        self.storage.logs.write_with(self._write_later)
        self.replicas.set_group_commit(FlushPolicy(self.flush), self._flush_later)
        self.cleanings = CleaningThread(self.disk, self.promises)
        self.cleaner = LogCleaner(
            self.storage.logs,
            lambda: CLEANER_SETTINGS,
            self.disk,
            (self.time, self.time),
            self.cleanings,
            self._write_later,
        )
        self.cleaner.start()
        for name in self.storage.topics_to_delete():
            self._finish_deletion(name)
        for name, assignment in self.storage.topics().items():
            for index in assignment.partitions:
                self._lead(TopicPartition(name, index), assignment.topic_id)

    def _restart(self) -> None:
        """Stop cleanly and start again."""
        self.cleaner.stop()
        while self._writes or self._flushes:
            self._do_thread_work()
        self.storage.logs.write_with(_do_now)
        self.replicas.shutdown()
        self._spin()
        self.settle()
        self.storage.close()
        self._waiting = []
        self._start()

    def _promise_what_was_found(self) -> None:
        """Recovery has shown these records to consumers, and they are on the disk."""
        topics = self.storage.topics()
        for name in [n for n in self.promises.topics if n not in topics]:
            del self.promises.topics[name]
        self.promises.deleting &= set(topics)
        for topic_partition, promise in self.promises.partitions.items():
            log = self.storage.logs.get_log(topic_partition)
            if log is None or log.topic_id != promise.topic_id:
                continue
            found = [
                data
                for segment in log.segments
                for _, data in split(segment.records.read(0, segment.size_bytes))
            ]
            promise.current.clear()
            promise.promised.clear()
            promise.promised_up_to = 0
            promise.grew(*found)
            promise.promise_up_to(log.log_end_offset)
            promise.must_lack_below = min(promise.must_lack_below, log.log_start_offset)

    # The things that happen

    def _work(self) -> dict[Callable[[], None], int]:
        logs = lambda: self.storage.logs  # noqa: E731 - the one of now
        return {
            self._produce: 60,
            self._write_marker: 8,
            self._commit_offset: 6,
            self._do_thread_work: 45,
            self._elect: 3,
            self._follow: 2,
            self._delete_records: 2,
            self._pass_time: 6,
            self._change_settings: 3,
            self._clean: 4,
            lambda: logs().cleanup(self.time.now_ms()) and None: 2,
            lambda: sum(logs().dirty.flush(self.time.now_ms())) and None: 3,
            lambda: logs().checkpoint_recovery_points(): 3,
            lambda: logs().checkpoint_log_start_offsets(): 2,
            lambda: self.replicas.logs.checkpoint_high_watermarks(): 2,  # noqa: PLW0108 - of now
            self._create_topic: 3,
            self._delete_topic: 2,
            self._restart: 1,
        }

    def _produce(self) -> None:
        partition = self._some_partition()
        if partition is None:
            return
        producer_id = self.random.choice((-1, *PRODUCERS))
        entry = partition.log.producer_state.producers.get(producer_id)
        self._append(partition, self._maker.batch(producer_id, entry), AppendOrigin.CLIENT)

    def _change_settings(self) -> None:
        """Anything about a topic that an operator may change at any time."""
        names = [n for n in (*TOPIC_NAMES, OFFSETS_TOPIC) if n in self.promises.topics]
        if names:
            name = self.random.choice(names)
            setting = self.random.choice(list(CHANGES))
            before = self.promises.settings.get(name, TOPIC_CONFIG)
            changed = replace(before, **{setting: self.random.choice(CHANGES[setting])})
            self.promises.settings[name] = changed
            self.storage.logs.update_topic_config(name, changed)

    def _clean(self) -> None:
        """One cleaning goes on, or the cleaner looks for work."""
        if self.cleanings.waiting:
            self._in_thread(self.cleanings.work)
            self.cleanings.tell()
        else:
            self.cleaner.look()

    def _commit_offset(self) -> None:
        partition = self.replicas.hosted.find(TopicPartition(OFFSETS_TOPIC, 0))
        if partition is not None:
            self._append(partition, build(self._maker.records()), AppendOrigin.COORDINATOR)

    def _write_marker(self) -> None:
        partition = self._some_partition()
        if partition is None:
            return
        open_txns = [
            entry
            for entry in partition.log.producer_state.producers.values()
            if entry.current_txn_first_offset is not None
        ]
        if open_txns:
            entry = self.random.choice(open_txns)
            marker = self._maker.marker(entry)
            self._append(partition, marker, AppendOrigin.COORDINATOR)

    def _append(self, partition: Partition, data: bytes, origin: AppendOrigin) -> None:
        topic_partition = partition.topic_partition
        records = verified(partition.log, memoryview(bytearray(data)))
        acks = -1 if self.random.random() < 0.8 or origin is not AppendOrigin.CLIENT else 1
        before = self._in_flight
        self._in_flight = (topic_partition, records)
        end_before = partition.log.log_end_offset
        promise = self.promises.partitions[topic_partition]
        promise.wrote_records(end_before, record_batch.records(records))
        try:
            answer = self.replicas.appends.append_records(
                [(topic_partition, records)], acks, 30_000, origin
            )
        finally:
            self._in_flight = before
        if answer.settled is None:
            assert answer.results[0].error_code is ErrorCode.NONE, answer
        # All batches are new.
        assert partition.log.log_end_offset > end_before, f"taken for an old batch: {answer}"
        # In another codec, where the topic wants one.
        found = partition.log.read(end_before, len(records), FetchIsolation.LOG_END, True)
        batches = split(found.records.read())
        assert batches, f"{topic_partition} has no batch at {end_before}"
        stored = batches[0][1]
        promise.grew(stored)
        if acks == -1:
            if answer.settled is None:
                self._acknowledged(topic_partition, stored)
            else:
                self._waiting.append((answer.settled, topic_partition, stored))

    def _acknowledged(self, topic_partition: TopicPartition, data: bytes) -> None:
        """An acks=all answer has left: with group commit, that is a promise."""
        self.acked += 1
        promise = self.promises.partitions.get(topic_partition)
        if promise is not None and self.flush != "never":
            header = split(data)[0][0]
            if data in promise.known.get(header.base_offset, ()):
                promise.promised[header.base_offset] = data

    def _elect(self) -> None:
        """This broker leads again, with a new epoch."""
        partition = self._some_partition(internal=True)
        if partition is not None:
            self._lead(partition.topic_partition, partition.topic_id)

    def _follow(self) -> None:
        """Another broker leads for a while: what was not acknowledged may be cut and replaced."""
        partition = self._some_partition()
        if partition is None:
            return
        topic_partition, log = partition.topic_partition, partition.log
        epoch = self.storage.next_leader_epoch(*topic_partition)
        self._order(topic_partition, partition.topic_id, OTHER_BROKER, epoch)
        self._spin()
        self.settle()
        promise = self.promises.partitions[topic_partition]
        promise.promise_up_to(log.offsets.recovery_point)
        kept = max((split(d)[0][0].next_offset for d in promise.promised.values()), default=0)
        lowest = max(kept, log.log_start_offset)
        if self.random.random() < 0.15:
            lowest = 0  # an unclean election
        # What is cleaned is replicated: nothing of it is cut.
        lowest = max(lowest, promise.may_have_gaps_below)
        ends = [end for end, _ in promise.current if end >= lowest]
        if ends and self.random.random() < 0.7:
            cut = self.random.choice(ends)
            promise.cut(cut)
            log.truncate_to(cut, self.time.now_ms())
        has_gap = False
        for _ in range(self.random.randrange(3)):
            base_offset = log.log_end_offset
            if promise.may_have_gaps_below and self.random.random() < 0.5:
                base_offset += self.random.randrange(20)  # the leader's cleaner was here
            has_gap = has_gap or base_offset > log.log_end_offset
            if has_gap:  # until it leads, nothing is known of what it is sent
                promise.may_have_gaps_below = base_offset + 10
            written, data = self._maker.sent_by_leader(base_offset, epoch)
            promise.wrote_records(base_offset, written)
            promise.wrote(data)
            log.append_as_follower(data, self.time.now_ms())
            promise.grew(data)
            log.update_high_watermark(log.log_end_offset)
        if has_gap:
            promise.may_have_gaps_below = log.log_end_offset
        self._lead(topic_partition, partition.topic_id)
        self._write_all()  # before two segments are full

    def _delete_records(self) -> None:
        partition = self._some_partition()
        if partition is None or partition.log.high_watermark <= partition.log.log_start_offset:
            return
        if partition.log.config.cleanup_policy == ("compact",):
            return  # refused
        log, topic_partition = partition.log, partition.topic_partition
        offset = self.random.randrange(log.log_start_offset, log.high_watermark) + 1
        promise = self.promises.partitions[topic_partition]
        promise.may_lack_below = max(promise.may_lack_below, offset)
        task = self.loop.create_task(
            self.replicas.deletions.delete({topic_partition: offset}, 1000)
        )
        self._deletions.append((task, promise, offset))

    def _pass_time(self) -> None:
        self.time.advance(self.random.choice((10, 1_000, 15_000)))

    def _create_topic(self) -> None:
        names = (*TOPIC_NAMES, OFFSETS_TOPIC)
        missing = [n for n in names if n not in self.storage.topics()]
        if not missing:
            return
        name = self.random.choice(missing)
        self.promises.settings.pop(name, None)
        partitions = 1 if name in INTERNAL_TOPICS else self.random.choice((1, 2))
        topic_id = UUID(int=self.random.getrandbits(128), version=4)
        for index in range(partitions):
            self.promises.partitions[TopicPartition(name, index)] = PartitionPromise(topic_id)
        self._write_all()  # a deletion before has taken far longer than a write in the background
        self.storage.create_topic(name, topic_id, partitions)
        self.promises.topics[name] = topic_id
        for index in range(partitions):
            self._lead(TopicPartition(name, index), topic_id)
        self._write_all()  # nor can a client be this quick

    def _delete_topic(self) -> None:
        topics = self.storage.topics()
        names = [name for name in TOPIC_NAMES if name in topics]
        if len(names) < 2:
            return
        name = self.random.choice(names)
        self.promises.deleting.add(name)
        self.promises.topics.pop(name, None)
        self.storage.mark_for_deletion(name)
        topic_id = topics[name].topic_id
        self._finish_deletion(name)
        self.promises.deleted.add(topic_id)

    def _finish_deletion(self, name: str) -> None:
        assignment = self.storage.topics().get(name)
        for index in assignment.partitions if assignment else ():
            self.replicas.leadership.stop_replicas(stop_replica(name, index))
            self.promises.partitions.pop(TopicPartition(name, index), None)
        self._spin()
        finished: list[frozenset[TopicPartition]] = []
        self.storage.logs.finish_deletions(finished.append)
        while not finished:  # the controller waits for the answer
            self._in_thread(self._writes.pop(0))
        self.storage.remove_topic(name)
        self.promises.deleting.discard(name)

    # Threads

    def _flush_later(self, work: Callable[[], None]) -> asyncio.Future[None]:
        future = self.loop.create_future()
        self._flushes.append((work, future))
        return future

    def _write_later(
        self, work: Callable[[], None], done: Callable[[StorageError | None], None]
    ) -> None:
        def write() -> None:
            _do_now(work, done)

        self._writes.append(write)

    def _write_all(self) -> None:
        while self._writes:
            self._in_thread(self._writes.pop(0))

    def _do_thread_work(self) -> None:
        if self._writes and (not self._flushes or self.random.random() < 0.3):
            self._in_thread(self._writes.pop(0))
        elif self._flushes:
            work, future = self._flushes.pop(self.random.randrange(len(self._flushes)))
            error: StorageError | None = None
            try:
                self._in_thread(work)
            except StorageError as failure:
                error = failure
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        self._spin()

    def _in_thread(self, work: Callable[[], None]) -> None:
        self._is_in_thread = True
        try:
            work()
        finally:
            self._is_in_thread = False

    def _before_change(self, _operation: str, _path: str) -> None:
        self.on_moment(self)
        if self._is_in_thread and self.random.random() < 0.1 and not self._would_wait():
            self._is_in_thread = False
            self._produce()  # the event loop goes on meanwhile
            self._is_in_thread = True

    def _would_wait(self) -> bool:
        """A log that rolls waits for the thread that notes where logs have no gap."""
        homes = self.storage.logs.directories()
        return any(home.gapless._write_lock.locked() for home in homes)

    # Inside

    def _some_partition(self, *, internal: bool = False) -> Partition | None:
        found = [
            partition
            for partition in self.replicas.hosted
            if partition.is_leader
            and (internal or partition.topic_partition.topic not in INTERNAL_TOPICS)
        ]
        return self.random.choice(found) if found else None

    def _lead(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        epoch = self.storage.next_leader_epoch(*topic_partition)
        self._order(topic_partition, topic_id, BROKER_ID, epoch)

    def _order(
        self, topic_partition: TopicPartition, topic_id: UUID, leader: int, epoch: int
    ) -> None:
        response = self.replicas.leadership.become_leader_or_follower(
            leader_and_isr(
                *topic_partition,
                leader=leader,
                leader_epoch=epoch,
                isr=(leader,),
                replicas=(BROKER_ID,),
                topic_id=topic_id,
            )
        )
        for error in response.partition_errors:
            if error.error_code:
                raise KafkaError(ErrorCode(error.error_code), f"{topic_partition} is not led")

    def _spin(self) -> None:
        run_ready(self.loop)


def _do_now(work: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
    try:
        work()
    except StorageError as error:
        done(error)
    else:
        done(None)
