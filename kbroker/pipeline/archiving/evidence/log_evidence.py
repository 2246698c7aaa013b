"""Evidence from log directories: cluster id and leader epochs (`meta.properties`,
`leader-epoch-checkpoint`), and what is around holes, read from segments and their indexes.

Law: epochs are asked for with every batch, so no log is read for one. A file that is gone, or that
the disk refuses, says nothing: a reader of its records finds that out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeVar

from kbroker.inspection.data_directory import read_data_directory
from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    EpochEntry,
    read_leader_epochs,
    read_meta_properties,
)
from kbroker.log.disk.file_system import StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.hole_reasons import Cover, CoverKind, HoleContext
from kbroker.pipeline.archiving.evidence.same_source import Epochs, time_at
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.disk_refusal import refused_by_disk
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog
from kbroker.pipeline.logdir.directory.partition_log import Disk, PartitionLog, real_disk
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup
from kbroker.pipeline.logdir.directory.transaction_scan import (
    LogTransactions,
    aborted_transactions,
)
from kbroker.pipeline.logdir.segment_task import AbortedTransaction
from kbroker.record.record_batch import MAGIC, BatchHeader

_T = TypeVar("_T")

_GOES_ON = 2**63 - 1  # the newest epoch has no end; the end of the log is checked elsewhere


class LogIdentity:
    """Looks at the directories of a `LogDirectorySource`."""

    def __init__(self, directories: Sequence[str], disk: Disk | None = None) -> None:
        self._directories = tuple(directories)
        self._disk = disk or real_disk()

    def cluster_id(self) -> str | None:
        """Read the id from the first directory that has it, or from the folder above."""
        for directory in self._directories:
            for path in (directory, directory.rpartition("/")[0]):
                found = _known(partial(read_meta_properties, self._disk.file_system, path))
                if found is not None and found.cluster_id:
                    return found.cluster_id
        return None

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """Return the last epochs written down, each before its first record."""
        entries = self._entries(set(partitions))
        return {each: found[-1].epoch for each, found in entries.items()}

    def end_offsets(self, epochs: Epochs) -> Mapping[TopicPartition, int]:
        """Return where the next higher epoch begins."""
        return {
            each: next(
                (entry.start_offset for entry in found if entry.epoch > epochs[each]), _GOES_ON
            )
            for each, found in self._entries(set(epochs)).items()
        }

    def record_times(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Read times from the segments, by their indexes."""
        catalog = LogCatalog(self._disk, self._directories, set(offsets).__contains__)
        logs = catalog.by_partition(is_committed=False)
        times = {each: _known(partial(self._time, log.log, offsets[each]))
                 for each, log in logs.items()}  # fmt: skip
        return {each: at_ms for each, at_ms in times.items() if at_ms is not None}

    def _time(self, log: PartitionLog, offset: int) -> int | None:
        bases = [each.base_offset for each in log.segments if each.base_offset <= offset]
        if not bases or offset >= log.end_offset:
            return None
        lookup = SegmentLookup(self._disk.file_system, log.directory, bases[-1])
        start = lookup.floor(offset)
        scan = SegmentScan(self._disk.file_system, lookup.path, checks_crc=False, start=start)
        for batch in scan.batches():
            if batch.header.last_offset >= offset:
                return time_at(batch.header, scan.read(batch), offset)
        return None

    def _entries(self, wanted: set[TopicPartition]) -> dict[TopicPartition, list[EpochEntry]]:
        catalog = LogCatalog(self._disk, self._directories, wanted.__contains__)
        file_system = self._disk.file_system
        found = {
            each: _known(partial(read_leader_epochs, file_system, directory))
            for each, directory in catalog.directories().items()
        }
        return {each: entries for each, entries in found.items() if entries}


def _known(look: Callable[[], _T]) -> _T | None:
    """Return the result of a look at a file; None if the file says nothing. Raises PipelineError if
    the same look may say more in a moment.
    """
    try:
        return look()
    except CheckpointError:
        return None  # an audit reports it
    except StorageError as error:
        if error.is_passing:
            raise refused_by_disk(error) from error
        return None


class LogWitness:
    """Looks at the directories of a `LogDirectorySource`. Owned by one thread."""

    def __init__(self, directories: Sequence[str], disk: Disk | None = None) -> None:
        self._directories = tuple(directories)
        self._disk = disk or real_disk()
        self._catalogs: dict[str, LogCatalog] = {}

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> HoleContext:
        """Return the batches that hold offsets of these holes."""
        catalog = self._catalogs.setdefault(
            partition.topic,
            LogCatalog(self._disk, self._directories, lambda found: found.topic == partition.topic),
        )
        found = catalog.by_partition(is_committed=True).get(partition)
        if found is None:
            raise PipelineError(
                f"{partition} was removed from {', '.join(self._directories)} while it was archived"
            )
        log = found.log
        try:
            covers = self._covers(log, found.transactions, holes)
            data_directory = log.directory.rpartition("/")[0] or "/"
            view = read_data_directory(self._disk.file_system, data_directory).of(partition)
        except StorageError as error:
            raise PipelineError(f"cannot {error}") from error
        return HoleContext(
            covers=covers,
            log_start_offset=log.start_offset,
            # An entry is there as long as the topic is compacted.
            compacted_end_offset=view.cleaner_offset or 0,
        )

    def _covers(
        self, log: PartitionLog, state: LogTransactions | None, holes: Sequence[Stretch]
    ) -> list[Cover]:
        file_system = self._disk.file_system
        aborted: tuple[AbortedTransaction, ...] = ()
        if state is not None:
            aborted = aborted_transactions(file_system, log, state, holes[0].start_offset)
        found: dict[int, Cover] = {}
        for hole in holes:
            for header in self._batches(log, hole):
                kind = _kind(header, aborted)
                count = header.record_count if header.magic == MAGIC else -1
                found[header.base_offset] = Cover(
                    header.base_offset, header.last_offset, count, kind
                )
        return [found[base] for base in sorted(found)]

    def _batches(self, log: PartitionLog, hole: Stretch) -> Iterator[BatchHeader]:
        """Yield the batches that hold an offset of the hole."""
        bases = [*(segment.base_offset for segment in log.segments), log.end_offset]
        for base_offset, next_base in pairwise(bases):
            if next_base <= hole.start_offset or base_offset >= hole.end_offset:
                continue
            lookup = SegmentLookup(self._disk.file_system, log.directory, base_offset)
            start = lookup.floor(hole.start_offset)
            scan = SegmentScan(self._disk.file_system, lookup.path, checks_crc=False, start=start)
            for batch in scan.batches():
                if batch.header.base_offset >= hole.end_offset:
                    break
                if batch.header.last_offset >= hole.start_offset:
                    yield batch.header


def _kind(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> CoverKind:
    if header.is_control:
        return CoverKind.MARKER
    if header.is_transactional and any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    ):
        return CoverKind.ABORTED
    return CoverKind.RECORDS
