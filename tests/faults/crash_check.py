"""Opens what a power loss left, and holds it against what was promised.

Every finding is a Violation whose `kind` is one of the KINDS; the text says where and what. The
checks use the log through its public methods, as the broker does; what they expect comes from the
batches that are found on the disk, by a model of a few lines.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from struct import error as struct_error
from typing import NamedTuple

from kbroker.errors import KafkaError
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.checkpoint import CheckpointError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.log.producers.producer_state import advance_sequence
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.record_batch import (
    BatchHeader,
    BatchOptions,
    Record,
    build,
    read_control,
    records,
)
from kbroker.zk.embedded.tree_journal import CorruptTreeError
from kbroker.zk.tree import TreeError
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.fakes.logs.time_search import first_at
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.crash_model import PartitionPromise, Promises, split
from tests.faults.crash_producers import faults_of_remembered
from tests.faults.crash_storage import CrashStorage

KINDS = (
    "broker failed",  # before any loss of power
    "start failure",  # the broker does not start
    "lost topic",
    "topic is back",  # deleted, and answered so
    "wrong topic id",
    "lost log",  # the directory of a partition with promised records
    "lost record",
    "record is back",  # below an answered DeleteRecords
    "wrong bytes",
    "hole",
    "wrong read",  # an index leads to a wrong place
    "wrong epoch",
    "wrong producer state",
    "wrong transactions",
    "refused append",
    "new batch taken for an old one",
    "wrong restart",  # a clean restart right after shows something else
)
ALL_BYTES = 1 << 20


class Violation(NamedTuple):
    """A broken promise."""

    kind: str
    text: str


Found = list[tuple[BatchHeader, bytes]]


class ImageCheck:
    """The check of one image; used once. `violations` fills up."""

    def __init__(self, image: RecordingFileSystem, promises: Promises, random: Random) -> None:
        self.image = image
        self.promises = promises
        self.random = random
        self.time = VirtualTime()
        self.violations: list[Violation] = []

    def run(self) -> list[Violation]:
        """Start a broker on the image, look, stop it cleanly and start again."""
        storage = self.open()
        if storage is None:
            return self.violations
        self._check_topics(storage)
        found = self._check_logs(storage)
        if not self.violations and self.random.random() < 0.3:
            self._check_restart(storage, found)
        return self.violations

    def report(self, kind: str, text: str) -> None:
        assert kind in KINDS, kind
        self.violations.append(Violation(kind, text))

    def open(self) -> CrashStorage | None:
        """The storage of a broker that starts on the image; None where it does not."""
        try:
            return CrashStorage(self.image, self.time, self.promises.settings)
        except (
            KafkaError,
            StorageError,
            CheckpointError,
            LogDirectoryError,
            CorruptTreeError,
            TreeError,
            AssertionError,
            KeyError,
            IndexError,
            ValueError,
            TypeError,
            struct_error,
        ) as error:
            self.report("start failure", repr(error))
            return None

    def _check_topics(self, storage: CrashStorage) -> None:
        topics = storage.topics()
        for name, topic_id in self.promises.topics.items():
            if name not in topics:
                self.report("lost topic", name)
            elif topics[name].topic_id != topic_id:
                self.report("wrong topic id", f"{name}: {topics[name].topic_id} in the tree")
        for name, assignment in topics.items():
            if assignment.topic_id in self.promises.deleted:
                self.report("topic is back", name)
            for index in assignment.partitions:
                log = storage.logs.get_log(TopicPartition(name, index))
                if log is not None and log.topic_id not in (None, assignment.topic_id):
                    self.report("wrong topic id", f"{name}-{index}: {log.topic_id} in its files")

    def _check_logs(self, storage: CrashStorage) -> dict[TopicPartition, Found]:
        found = {}
        for topic_partition, promise in self.promises.partitions.items():
            log = storage.logs.get_log(topic_partition)
            is_ours = topic_partition.topic in self.promises.topics
            if log is None:
                if is_ours and promise.promised:
                    self.report("lost log", f"{topic_partition}")
                continue
            if log.topic_id not in (None, promise.topic_id):
                continue  # of an earlier topic of that name; said above where it matters
            try:
                found[topic_partition] = self._check_log(log, promise, is_ours=is_ours)
            except (KafkaError, AssertionError, IndexError) as error:
                self.report("wrong read", f"{topic_partition}: {error!r}")
        return found

    def _check_log(self, log: Log, promise: PartitionPromise, *, is_ours: bool) -> Found:
        where = f"{log.topic_partition}"
        found = _read(log)
        expected = found[0][0].base_offset if found else log.log_end_offset
        for header, data in found:
            if not promise.knows(header, data):
                self.report("wrong bytes", f"{where} at {header.base_offset}: {header}")
            if header.base_offset != expected and header.base_offset > promise.may_have_gaps_below:
                self.report("hole", f"{where} from {expected} to {header.base_offset}")
            expected = header.next_offset
        if expected != log.log_end_offset and log.log_end_offset > promise.may_have_gaps_below:
            self.report("hole", f"{where}: last batch ends at {expected}, {log.log_end_offset=}")
        if is_ours:
            self._check_promised(log, promise, found)
        if not self.violations:
            self._check_lookups(log, found)
            self._check_epochs(log, found, promise.may_lack_below)
            was_cleaned = log.log_start_offset < promise.may_have_gaps_below
            self._check_transactions(log, found, was_cleaned=was_cleaned)
            self._check_producers(log, found, promise.may_have_gaps_below)
        return found

    def _check_promised(self, log: Log, promise: PartitionPromise, found: Found) -> None:
        present = {header.base_offset: data for header, data in found}
        newest = _newest_offsets(found)
        for base_offset, data in promise.promised.items():
            if split(data)[0][0].next_offset <= promise.may_lack_below:
                continue
            if present.get(base_offset) == data:
                continue
            if base_offset < promise.may_have_gaps_below:
                self._check_cleaned(log, promise, (base_offset, data), newest)
            elif base_offset not in present:
                self.report(
                    "lost record",
                    f"{log.topic_partition} at {base_offset}: log is "
                    f"{log.log_start_offset} to {log.log_end_offset}",
                )
            else:
                self.report(
                    "wrong bytes", f"{log.topic_partition} at {base_offset}: an older batch"
                )
        if log.log_start_offset < promise.must_lack_below:
            self.report(
                "record is back",
                f"{log.topic_partition}: {log.log_start_offset=}, deleted up to "
                f"{promise.must_lack_below}",
            )

    def _check_cleaned(
        self,
        log: Log,
        promise: PartitionPromise,
        promised: tuple[int, bytes],
        newest: dict[bytes | None, int],
    ) -> None:
        """Of a promised batch that is not there as it was: each record is, or a later one of its
        key; those of an aborted transaction may be gone.
        """
        base_offset, data = promised
        header = split(data)[0][0]
        if header.is_control or (header.is_transactional and promise.may_be_aborted(header)):
            return
        for record in records(data):
            offset = record.offset
            if offset >= promise.may_lack_below and newest.get(record.key, -1) < offset:
                self.report(
                    "lost record",
                    f"{log.topic_partition} at {offset} of {base_offset}: the last of its key "
                    f"{record.key!r} is at {newest.get(record.key)}; cleaned up to "
                    f"{promise.may_have_gaps_below}",
                )

    def _check_lookups(self, log: Log, found: Found) -> None:
        readable = [(h, d) for h, d in found if h.next_offset > log.log_start_offset]
        for header, data in self.random.sample(readable, min(3, len(readable))):
            offset = self.random.randint(
                max(header.base_offset, log.log_start_offset), header.last_offset
            )
            read = log.read(offset, ALL_BYTES, FetchIsolation.LOG_END).records.read()
            if not read.startswith(data):
                self.report("wrong read", f"{log.topic_partition} from {offset}")
            wanted = header.max_timestamp
            expected = _earliest(readable, wanted, log.log_start_offset)
            answer = first_at(log, wanted)
            if (answer and (answer.offset, answer.timestamp)) != expected:
                self.report(
                    "wrong read",
                    f"{log.topic_partition} at time {wanted}: {answer}, expected {expected}",
                )

    def _check_epochs(self, log: Log, found: Found, start_offset: int) -> None:
        """From the log start before the crash on: for records below it epochs were given up."""
        for header, _ in found:
            offset = max(header.base_offset, log.log_start_offset, start_offset)
            if header.next_offset <= offset:
                continue
            epoch = log.leader_epoch_cache.epoch_for_offset(offset)
            if epoch != header.partition_leader_epoch:
                self.report(
                    "wrong epoch",
                    f"{log.topic_partition} at {offset}: {epoch}, batch has "
                    f"{header.partition_leader_epoch}; {log.leader_epoch_cache.entries}",
                )
                return
        for entry in log.leader_epoch_cache.entries:
            if entry.start_offset > log.log_end_offset:
                self.report("wrong epoch", f"{log.topic_partition}: {entry} behind the log end")

    def _check_transactions(self, log: Log, found: Found, *, was_cleaned: bool) -> None:
        open_txns, aborted, markers = _replay(found)
        log.update_high_watermark(log.log_end_offset)
        first_open = min(open_txns.values(), default=log.log_end_offset)
        stable = max(first_open, log.log_start_offset)
        whole = log.log_start_offset == 0 and not was_cleaned
        if (whole and log.last_stable_offset != stable) or log.last_stable_offset > stable:
            self.report(
                "wrong transactions",
                f"{log.topic_partition}: {log.last_stable_offset=}, expected {stable}",
            )
        noted = {
            # Where the log no longer holds its beginning, the index alone knows the first offset.
            (entry.producer_id, entry.first_offset if whole else -1, entry.last_offset)
            for segment in log.segments
            for entry in segment.transaction_index.entries
            if entry.last_offset >= log.log_start_offset
        }
        if not whole:
            # An index that is rebuilt cannot know those that began before the log start, nor can
            # Apache Kafka's.
            aborted = set()
        if not aborted <= noted or any(last not in markers for _, _, last in noted):
            self.report(
                "wrong transactions",
                f"{log.topic_partition}: index has {sorted(noted)}, log has {sorted(aborted)}",
            )

    def _check_producers(self, log: Log, found: Found, cleaned_up_to: int) -> None:
        """The last batch of each producer, sent again, is known; the next one is accepted."""
        for fault in faults_of_remembered(log, (header for header, _ in found), cleaned_up_to):
            self.report("wrong producer state", f"{log.topic_partition} {fault}")
        last: dict[int, tuple[BatchHeader, bytes]] = {}
        for header, data in found:
            if header.producer_id >= 0:
                last[header.producer_id] = (header, data)
        for producer_id, (header, data) in last.items():
            entry = log.producer_state.producers.get(producer_id)
            if entry is None:
                where = f"{log.topic_partition} producer {producer_id}"
                self.report("wrong producer state", f"{where} is forgotten")
                continue
            known = entry.batches[-1].last_offset if entry.batches else -1
            if header.last_offset < known < cleaned_up_to:
                continue  # the cleaner has taken its last one: a later one was there, and is lost
            if not header.is_control and header.record_count > header.last_offset_delta:
                self._check_sent_again(log, header, data)
        for producer_id in list(log.producer_state.producers):
            if not self.violations:
                self._check_next(log, producer_id)

    def _check_sent_again(self, log: Log, header: BatchHeader, data: bytes) -> None:
        where = f"{log.topic_partition} producer {header.producer_id}"
        again = memoryview(bytearray(bytes(8) + data[8:]))
        try:
            info = log.append_as_leader(again, header.partition_leader_epoch, 0)
        except KafkaError as error:
            self.report("wrong producer state", f"{where}: {error}")
            return
        if not info.duplicate or info.first_offset != header.base_offset:
            self.report("wrong producer state", f"{where}: {info} for {header}")

    def _check_next(self, log: Log, producer_id: int) -> None:
        entry = log.producer_state.producers[producer_id]
        flags = 16 if entry.current_txn_first_offset is not None else 0
        options = BatchOptions(
            flags=flags,
            producer_id=producer_id,
            producer_epoch=entry.producer_epoch,
            base_sequence=advance_sequence(entry.last_sequence, 1),
        )
        end_offset = log.log_end_offset
        batch = build([Record(0, self.time.now_ms(), b"k", b"after")], options=options)
        epoch = max(0, log.leader_epoch_cache.latest_epoch)
        try:
            info = log.append_as_leader(memoryview(bytearray(batch)), epoch, self.time.now_ms())
        except KafkaError as error:
            self.report("refused append", f"{log.topic_partition}: {error}")
            return
        if info.duplicate:
            self.report(
                "new batch taken for an old one",
                f"{log.topic_partition} producer {producer_id}: {info}, {log.log_start_offset=}, "
                f"{end_offset=}",
            )
        elif info.first_offset != end_offset:
            self.report("refused append", f"{log.topic_partition}: {info}, {end_offset=}")

    def _check_restart(self, storage: CrashStorage, _found: dict[TopicPartition, Found]) -> None:
        before = {
            log.topic_partition: (log.log_start_offset, _read(log))
            for log in storage.logs.all_logs()
        }
        storage.close()
        again = self.open()
        if again is None:
            return
        if again.recovered:
            self.report("wrong restart", f"recovery of {again.recovered} after a clean stop")
        for topic_partition, expected in before.items():
            log = again.logs.get_log(topic_partition)
            if log is None or (log.log_start_offset, _read(log)) != expected:
                self.report(
                    "wrong restart",
                    f"{topic_partition}: {log and (log.log_start_offset, log.log_end_offset)}, "
                    f"{expected[0]} and {len(expected[1])} batches before",
                )


def _read(log: Log) -> Found:
    """All batches from the log start on, read as a consumer does."""
    found: Found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, ALL_BYTES, FetchIsolation.LOG_END).records.read()
        batches = split(data)
        if not batches:
            break  # the cleaner has taken the last ones; told of where it was not there
        found += batches
        assert batches[-1][0].next_offset > offset, f"no way past {offset}"
        offset = batches[-1][0].next_offset
    return found


def _newest_offsets(found: Found) -> dict[bytes | None, int]:
    """Offset of the last record of each key that readers of committed records may see."""
    _, aborted, _ = _replay(found)
    newest: dict[bytes | None, int] = {}
    for header, data in found:
        is_aborted = header.is_transactional and any(
            producer_id == header.producer_id and first <= header.base_offset < last
            for producer_id, first, last in aborted
        )
        if not header.is_control and not is_aborted:
            newest.update((record.key, record.offset) for record in records(data))
    return newest


def _earliest(readable: Found, wanted: int, start_offset: int) -> tuple[int, int] | None:
    """(offset, time) of the first record not before a time and an offset."""
    for header, data in readable:
        if header.max_timestamp >= wanted:
            for record in records(data):
                if record.timestamp >= wanted and record.offset >= start_offset:
                    return record.offset, record.timestamp
    return None


def _replay(
    found: Found,
) -> tuple[dict[int, int], set[tuple[int, int, int]], set[int]]:
    """(open transactions: first offsets; aborted: producer, first, last; offsets of markers)."""
    open_txns: dict[int, int] = {}
    aborted = set()
    markers = set()
    for header, data in found:
        if header.is_control:
            marker = read_control(next(records(data))) if header.record_count else None
            first = open_txns.pop(header.producer_id, None)
            markers.add(header.base_offset)
            if marker is not None and not marker.is_commit and first is not None:
                aborted.add((header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            open_txns.setdefault(header.producer_id, header.base_offset)
    return open_txns, aborted, markers


def summary(violations: list[Violation]) -> str:
    """How many of each kind."""
    counts: dict[str, int] = defaultdict(int)
    for violation in violations:
        counts[violation.kind] += 1
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "none"
