"""Known mistakes of brokers, each a context manager that makes this one commit it.

The crash images must find every one of them: otherwise that they find nothing means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kbroker.log.directories import log_directory
from kbroker.log.directories.gapless_offsets import GaplessOffsets
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk import checkpoint
from kbroker.log.manager.log_checkpoints import LogCheckpoints, OnStartsWritten
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.manager.partition_deletion import OnSettled
from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.partition.log_state import LogEnvironment, PendingFlush
from kbroker.log.producers.producer_state import (
    BATCHES_TO_RETAIN,
    BatchMetadata,
    ProducerStateEntry,
)
from kbroker.log.recovery import segment_recovery
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import LogLoader
from kbroker.log.recovery.segment_recovery import SegmentRecovery
from kbroker.log.segments.index_file import IndexFile
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.transaction_index import TransactionIndex
from kbroker.log.segments.unsynced_files import UnsyncedFiles
from kbroker.replication.writes.shared_flush import SharedFlush
from kbroker.zk.embedded.tree_journal import TreeJournal

Mistake = Callable[[], AbstractContextManager[Any]]


def ack_before_fsync() -> AbstractContextManager[Any]:
    """acks=all is answered while the records are in the page cache."""
    return patch.object(SharedFlush, "must_flush", lambda *_: False)


def no_fsync_at_all() -> AbstractContextManager[Any]:
    """The flush says that it has synced."""
    return patch.object(PendingFlush, "sync", lambda _: None)


def no_directory_fsync() -> AbstractContextManager[Any]:
    """Files are synced, their names are not (KAFKA-3968)."""

    return patch.object(PendingFlush, "sync", PendingFlush.sync_files)


@contextmanager
def no_fsync_of_the_partitions_name() -> Iterator[None]:
    """The directory of a new partition is synced, its name in the data directory is not: nor by
    chance, with what is written there of new logs.
    """

    def place_changed(_files: UnsyncedFiles) -> None:
        pass

    def init(files: UnsyncedFiles, *arguments: Any) -> None:
        original(files, *arguments)
        files._synced = files._synced._replace(place=files._place)

    original = UnsyncedFiles.__init__
    with (
        patch.multiple(UnsyncedFiles, __init__=init, place_changed=place_changed),
        patch.object(LogDirectories, "_write_gapless", lambda *_: None),
    ):
        yield


def rename_without_fsync_of_the_content() -> AbstractContextManager[Any]:
    """Checkpoints are renamed into place before they are on the disk."""

    def write(file_system: Any, path: str, content: str, *, sync: bool = True) -> None:
        file_system.write_bytes(f"{path}.tmp", content.encode())
        file_system.rename(f"{path}.tmp", path)
        file_system.sync_directory(path.rpartition("/")[0])

    return patch.object(checkpoint, "write_atomically", write)


@contextmanager
def stale_clean_marker() -> Iterator[None]:
    """The word that all is whole stays while the broker writes (redpanda #9711)."""
    with (
        patch.object(checkpoint, "remove_clean_shutdown", lambda *_: None),
        patch.object(log_directory.checkpoint, "remove_clean_shutdown", lambda *_: None),
    ):
        yield


def forgotten_producers() -> AbstractContextManager[Any]:
    """Recovery does not replay the producers."""
    return patch.object(segment_recovery, "replay_batch", lambda *_: None)


def rows_of_sequences_mixed() -> AbstractContextManager[Any]:
    """A producer that was forgotten and starts anew keeps the batches of before."""

    def add_batch(entry: ProducerStateEntry, batch: BatchMetadata) -> None:
        entry.batches = [*entry.batches, batch][-BATCHES_TO_RETAIN:]
        entry.last_timestamp = batch.timestamp

    return patch.object(ProducerStateEntry, "add_batch", add_batch)


def recovery_point_ahead_of_fsync() -> AbstractContextManager[Any]:
    """The log end is checkpointed as the recovery point."""

    def checkpoint_all(logs: LogManager) -> None:
        file = "recovery-point-offset-checkpoint"
        logs.checkpoints._write(file, lambda log: log.log_end_offset)

    return patch.object(LogManager, "checkpoint_recovery_points", checkpoint_all)


def torn_tail_not_cut() -> AbstractContextManager[Any]:
    """Recovery notices where the batches end and leaves what follows."""
    original = LogSegment.recover

    def recover(segment: LogSegment, *arguments: Any, **named: Any) -> int:
        size = segment.records.size_bytes
        with patch.object(type(segment.records), "truncate_to", lambda *_: 0):
            original(segment, *arguments, **named)
        segment.records.size_bytes = size
        return 0

    return patch.object(LogSegment, "recover", recover)


def later_segments_kept() -> AbstractContextManager[Any]:
    """Keep the segments after one that had to be cut."""
    original = SegmentRecovery.recover

    def recover(recovery: SegmentRecovery, segment: LogSegment) -> int:
        original(recovery, segment)
        return 0

    return patch.multiple(SegmentRecovery, recover=recover, misses_records_before=lambda *_: False)


def gap_taken_for_damage() -> AbstractContextManager[Any]:
    """Recovery holds the settings of now against offsets that an earlier cleaning has taken."""
    original = LogLoader.__init__

    def init(loader: LogLoader, request: LoadRequest, environment: LogEnvironment) -> None:
        gapless_from = None if request.config.is_compacted else 0
        original(loader, replace(request, gapless_from=gapless_from), environment)

    return patch.object(LogLoader, "__init__", init)


def cleaning_not_noted() -> AbstractContextManager[Any]:
    """The cleaner leaves gaps where none are said to be."""
    return patch.object(GaplessOffsets, "withdraw", lambda *_: None)


def index_not_trimmed() -> AbstractContextManager[Any]:
    """Index entries beyond the cut stay, and recovery believes them."""
    return patch.multiple(
        IndexFile, reset=lambda index: index.entry_count and None, _truncate_entries=lambda *_: None
    )


def epochs_not_cut() -> AbstractContextManager[Any]:
    """Truncation leaves the leader epochs of what it cut."""
    return patch.object(LeaderEpochCache, "truncate_from_end", lambda *_: None)


def checkpoints_beyond_a_cut() -> AbstractContextManager[Any]:
    """A log is cut, and the files go on to name the start and recovery point it had."""
    return patch.object(LogDirectories, "before_cut", lambda *_: None)


def log_start_forgotten() -> AbstractContextManager[Any]:
    """DeleteRecords is answered and not written down."""

    def write_starts(
        _: LogCheckpoints, wanted: object = None, on_written: OnStartsWritten = lambda _: None
    ) -> None:
        on_written(frozenset())

    return patch.object(LogCheckpoints, "write_log_starts", write_starts)


def aborted_transactions_not_indexed() -> AbstractContextManager[Any]:
    """Recovery makes no transaction index, so readers see aborted records."""
    return patch.object(TransactionIndex, "append", lambda *_: None)


def truncate_to_the_high_watermark() -> AbstractContextManager[Any]:
    """Recovery cuts to the checkpointed high watermark, as before KIP-101."""
    original = LogManager.load

    def load(logs: LogManager, *arguments: Any) -> Any:
        recovered = original(logs, *arguments)
        marks = logs.read_high_watermarks()
        for topic_partition in recovered:
            log = logs.get_log(topic_partition)
            if log is not None:
                log.truncate_to(max(log.log_start_offset, marks.get(topic_partition, 0)))
        return recovered

    return patch.object(LogManager, "load", load)


def topics_not_synced() -> AbstractContextManager[Any]:
    """The tree's journal is never synced."""
    return patch.object(TreeJournal, "_sync", lambda *_: None)


def deleted_partition_comes_back() -> AbstractContextManager[Any]:
    """The rename of a deleted partition is not synced."""

    def finish(logs: LogManager, on_finished: OnSettled = lambda _: None) -> None:
        logs._deletions._settled(list(logs._deletions._renamed))
        for directory in logs.directories():
            directory.gone.clear()  # nor are checkpoints written, which sync the same directory
        on_finished(frozenset())

    return patch.object(LogManager, "finish_deletions", finish)


def ack_before_append() -> AbstractContextManager[Any]:
    """The offset is given out, and the batch is written with the next one."""
    original = LogSegment.append
    held: dict[int, tuple[Any, ...]] = {}

    def append(segment: LogSegment, *arguments: Any) -> int:
        before = held.pop(id(segment), None)
        if before is not None:
            original(segment, *before)
        *others, data = arguments
        held[id(segment)] = (*others, bytes(data))
        return segment.size_bytes

    return patch.object(LogSegment, "append", append)


# Each with the kinds of violation by which it is found.
PLANTED: dict[Mistake, frozenset[str]] = {
    ack_before_append: frozenset({"lost record", "hole", "wrong bytes", "broker failed"}),
    ack_before_fsync: frozenset({"lost record"}),
    no_fsync_at_all: frozenset({"lost record", "lost log"}),
    no_directory_fsync: frozenset({"lost record", "lost log"}),
    no_fsync_of_the_partitions_name: frozenset({"lost log", "wrong topic id"}),
    rename_without_fsync_of_the_content: frozenset({"start failure", "lost log", "lost record"}),
    stale_clean_marker: frozenset({"wrong bytes", "wrong read", "lost record", "hole"}),
    forgotten_producers: frozenset({"wrong producer state", "wrong transactions"}),
    rows_of_sequences_mixed: frozenset({"wrong producer state", "new batch taken for an old one"}),
    recovery_point_ahead_of_fsync: frozenset({"wrong bytes", "wrong read", "hole", "lost record"}),
    torn_tail_not_cut: frozenset({"wrong bytes", "wrong read", "hole", "refused append"}),
    later_segments_kept: frozenset({"hole", "wrong read"}),
    gap_taken_for_damage: frozenset({"lost record", "hole"}),
    cleaning_not_noted: frozenset({"lost record"}),
    index_not_trimmed: frozenset({"wrong read", "start failure", "wrong transactions", "hole"}),
    epochs_not_cut: frozenset({"wrong epoch"}),
    checkpoints_beyond_a_cut: frozenset({"record is back", "hole", "wrong epoch"}),
    log_start_forgotten: frozenset({"record is back"}),
    aborted_transactions_not_indexed: frozenset({"wrong transactions"}),
    truncate_to_the_high_watermark: frozenset({"lost record"}),
    topics_not_synced: frozenset({"lost topic", "topic is back", "lost log"}),
    deleted_partition_comes_back: frozenset({"wrong topic id", "lost log", "topic is back"}),
}
