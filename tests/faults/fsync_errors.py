"""The n-th sync fails, under a load with acks=all: nothing that is not on the disk is acknowledged.

    python -m tests.faults.fsync_errors --rounds 300

Every round runs a broker's storage over a recording disk, whose kernel behaves as Linux does: a
failed sync is reported once, the pages count as clean, and later syncs succeed without writing
them. One sync of any kind fails (data file, index, checkpoint, directory, tree; of a group commit,
a roll, a background flush, a start or a stop). Then the power is lost, and every acknowledged
record must be on what is left.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from kbroker.config.replication_config import ReplicationConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.record.record_batch import Record, build
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.replication.writes.shared_flush import FlushPolicy
from kbroker.zk.tree import TreeUnavailableError
from tests.fakes.clusters.replication_cluster import leader_and_isr, update_metadata
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.running.loop_turns import run_ready
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.crash_model import split
from tests.faults.crash_storage import BROKER_ID, LOG_DIRS, CrashStorage

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
STEPS = 120
RESTARTS = 0.03  # per step
LATEST_FAULT = 200  # about as many syncs as there are in a round
ALLOWED = {
    ErrorCode.NONE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


@dataclass
class Outcome:
    """What all rounds came to."""

    struck: Counter[str] = field(default_factory=Counter)  # kinds of files whose sync failed
    acknowledged: int = 0
    findings: list[str] = field(default_factory=list)


class FailingSync:
    """Fails the sync number `at`, and no other."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.struck: str | None = None

    def __call__(self, operation: str, path: str) -> None:
        if operation != "fsync":
            return
        self.left -= 1
        if self.left == 0:
            self.struck = path
            raise StorageError(path, operation, errno.EIO)


class Round:
    """One broker, one failing sync, one loss of power."""

    def __init__(self, seed: int, outcome: Outcome, policy: FlushPolicy) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.outcome = outcome
        self.policy = policy
        self.time = VirtualTime()
        self.loop = asyncio.new_event_loop()
        self.disk = RecordingFileSystem()
        self.fault = FailingSync(self.random.randrange(1, LATEST_FAULT))
        self.disk.before_change = self.fault
        self.acknowledged: list[tuple[TopicPartition, bytes]] = []
        self.topic_ids: dict[str, UUID] = {}
        self._waiting: list[tuple[asyncio.Future[list[object]], TopicPartition, memoryview]] = []
        self._flushes: list[tuple[Callable[[], None], asyncio.Future[None]]] = []
        self._writes: list[Callable[[], None]] = []

    def run(self) -> None:
        """All of it; findings go to the outcome."""
        if self._start() and self._load():
            self._check_others_live()
            self._stop()
        if self.fault.struck is not None:
            self.outcome.struck[_kind(self.fault.struck)] += 1
        self._check_image("lost")
        self._check_image(None)
        self.outcome.acknowledged += len(self.acknowledged)
        self.loop.close()

    def _start(self) -> bool:
        try:
            self.storage = CrashStorage(self.disk, self.time)
        except (LogDirectoryError, TreeUnavailableError):
            return False  # the tree or its directory cannot be written: the broker does not start
        logs = self.storage.logs
        metadata = MetadataCache(BROKER_ID, "cluster")
        self.replicas = ReplicaManager(
            logs,
            metadata,
            self.time,
            self.time,
            ReplicationConfig(),
            create_future=self.loop.create_future,
        )
        self.replicas.leadership.update_metadata(update_metadata())
        self.replicas.set_group_commit(self.policy, self._flush_later)
        logs.write_with(lambda work, done: self._writes.append(lambda: _do(work, done)))
        logs.on_directory_offline(
            lambda _, lost, __: self.replicas.leadership.partitions_offline(lost)
        )
        for name in self.storage.topics():
            self._lead(name, is_new=False)
        return True

    def _load(self) -> bool:
        """False where the broker is down at the end."""
        things = [self._produce] * 10 + [self._do_thread_work] * 6
        things += [self._look_after, self._create_topic]
        self._create_topic()
        for _ in range(STEPS):
            self.random.choice(things)()
            self._spin()
            if self.fault.struck is None and self.random.random() < RESTARTS:
                self._stop()
                if self.fault.struck is not None or not self._start():
                    return False
        return True

    # What happens

    def _create_topic(self) -> None:
        name = f"t{len(self.topic_ids)}"
        topic_id = UUID(int=self.random.getrandbits(128), version=4)
        try:
            self.storage.create_topic(name, topic_id, 3)
        except TreeUnavailableError:
            return
        self.topic_ids[name] = topic_id
        self._lead(name, is_new=True)

    def _lead(self, name: str, *, is_new: bool) -> None:
        for index in range(3):
            try:
                epoch = self.storage.next_leader_epoch(name, index)
            except TreeUnavailableError:
                return
            request = leader_and_isr(
                name,
                index,
                leader_epoch=epoch,
                topic_id=self.storage.topics()[name].topic_id,
            )
            request.topic_states[0].partition_states[0].is_new = is_new
            self.replicas.leadership.become_leader_or_follower(request)

    def _produce(self) -> None:
        partitions = list(self.replicas.hosted)
        if not partitions:
            return
        topic_partition = self.random.choice(partitions).topic_partition
        value = self.random.randbytes(self.random.choice((10, 100, 600)))
        batch = memoryview(bytearray(build([Record(0, self.time.now_ms(), b"k", value)])))
        acks = self.random.choice((-1, -1, 1)) if self.policy is FlushPolicy.ALWAYS else -1
        results, settled, _ = self.replicas.appends.append_records(
            [(topic_partition, batch)], acks, 30_000
        )
        if settled is None:
            self._answered(results, topic_partition, batch)
        else:
            self._waiting.append((settled, topic_partition, batch))  # type: ignore[arg-type]

    def _answered(self, answer: list[object], where: TopicPartition, batch: memoryview) -> None:
        code = answer[0].error_code  # type: ignore[attr-defined]
        if code not in ALLOWED:
            self._found(f"{where} answers {code!r}")
        if code is ErrorCode.NONE:
            self.acknowledged.append((where, bytes(batch)))

    def _look_after(self) -> None:
        logs = self.storage.logs
        self.time.advance(self.random.choice((10, 500)))
        logs.cleanup(self.time.now_ms())
        list(logs.dirty.flush(self.time.now_ms()))
        logs.checkpoint_recovery_points()
        logs.checkpoint_log_start_offsets()
        self.replicas.logs.checkpoint_high_watermarks()

    def _stop(self) -> None:
        while self._writes or self._flushes:
            self._do_thread_work()
        self.storage.logs.write_with(_do)
        self.replicas.shutdown()
        self._spin()
        offline = {d.path for d in self.storage.logs.directories() if d.failure is not None}
        self.storage.logs.shutdown()
        struck = self.fault.struck
        if struck is not None:
            offline |= {path for path in LOG_DIRS if f"{struck}/".startswith(f"{path}/")}
        for path in offline:
            if self.disk.exists(f"{path}/{CLEAN_SHUTDOWN}"):
                self._found(f"{path} is marked clean after the sync of {struck} failed")
        with suppress(TreeUnavailableError):
            self.storage.tree.close()

    def _check_others_live(self) -> None:
        """The directories whose disk works are served as before."""
        while self._writes or self._flushes:
            self._do_thread_work()
        online = self.storage.logs.online_directories
        if len(online) < len(LOG_DIRS) - 1:
            self._found(f"one failed sync of {self.fault.struck} leaves {online} online")
        for partition in self.replicas.hosted:
            if partition.log.directory.rpartition("/")[0] not in online:
                self._found(f"{partition.topic_partition} is served from an offline directory")

    # Threads

    def _flush_later(self, work: Callable[[], None]) -> asyncio.Future[None]:
        future = self.loop.create_future()
        self._flushes.append((work, future))
        return future

    def _do_thread_work(self) -> None:
        if self._writes and (not self._flushes or self.random.random() < 0.3):
            self._writes.pop(0)()
        elif self._flushes:
            work, future = self._flushes.pop(self.random.randrange(len(self._flushes)))
            work()
            future.set_result(None)
        self._spin()

    def _spin(self) -> None:
        run_ready(self.loop)
        self.time.advance(0)
        waiting, self._waiting = self._waiting, []
        for future, where, batch in waiting:
            if future.done():
                self._answered(future.result(), where, batch)
            else:
                self._waiting.append((future, where, batch))

    # After the loss of power

    def _check_image(self, mode: str | None) -> None:
        image = self.disk.image(self.random, mode)
        storage = CrashStorage(image, VirtualTime())
        batches: dict[TopicPartition, dict[int, bytes]] = {}
        for where, batch in self.acknowledged:
            log = storage.logs.get_log(where)
            if where not in batches:
                batches[where] = _batches(log) if log is not None else {}
            base_offset = int.from_bytes(batch[:8], "big")
            if batches[where].get(base_offset) != batch:
                self._found(
                    f"{where} offset {base_offset} was acknowledged and is lost ({image.made_as}); "
                    f"the sync of {self.fault.struck} failed"
                )
                return

    def _found(self, text: str) -> None:
        self.outcome.findings.append(f"seed {self.seed}: {text}")


def _batches(log: Log) -> dict[int, bytes]:
    found = {}
    for segment in log.segments:
        with suppress(KafkaError):  # bytes that are no batch
            for header, data in split(segment.records.read(0, segment.size_bytes)):
                found[header.base_offset] = data
    return found


def _do(work: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
    try:
        work()
    except StorageError as error:
        done(error)
    else:
        done(None)


def _kind(path: str) -> str:
    name = path.rpartition("/")[2]
    if path in LOG_DIRS:
        return "data directory"
    if name.startswith("kbroker-"):
        return "tree"
    if path.count("/") == 3 and "." in name:
        return name.rpartition(".")[2] if name[:1].isdigit() else name
    return "partition directory" if path.count("/") == 2 and "-" in name[-3:] else name


def run(rounds: int, first_seed: int = 0) -> Outcome:
    """So many rounds, most with acks-all."""
    outcome = Outcome()
    for seed in range(first_seed, first_seed + rounds):
        policy = FlushPolicy.ALWAYS if seed % 4 == 3 else FlushPolicy.ACKS_ALL
        Round(seed, outcome, policy).run()
    return outcome


def main() -> None:
    """Run the rounds and say what came of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fsync_errors")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    outcome = run(options.rounds, options.seed)
    print(f"{sum(outcome.struck.values())} failed syncs in {options.rounds} rounds, by file:")
    for kind, count in outcome.struck.most_common():
        print(f"  {count:5}  {kind}")
    print(f"{outcome.acknowledged} records acknowledged, {len(outcome.findings)} findings")
    for finding in outcome.findings[:20]:
        print(f"  {finding}")
    sys.exit(1 if outcome.findings else 0)


if __name__ == "__main__":
    main()
