"""What stands in log directories around holes: read from segments and their indexes, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kbroker.inspection.log_directory_view import view_log_directory
from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.file_system import StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.archive.holes.hole_reasons import Cover, CoverKind, Surroundings
from kbroker.pipeline.archive.manifests.covered_ranges import Stretch
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog
from kbroker.pipeline.logdir.directory.partition_log import Disk, PartitionLog, real_disk
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup
from kbroker.pipeline.logdir.directory.transaction_scan import (
    TransactionState,
    aborted_transactions,
)
from kbroker.pipeline.logdir.segment_task import AbortedTransaction
from kbroker.record.record_batch import MAGIC, BatchHeader


class LogWitness:
    """Looks at the directories of a `LogDirectorySource`. Owned by one thread."""

    def __init__(self, directories: Sequence[str], disk: Disk | None = None) -> None:
        self._directories = tuple(directories)
        self._disk = disk or real_disk()
        self._catalogs: dict[str, LogCatalog] = {}

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> Surroundings:
        """The batches that hold offsets of these holes."""
        catalog = self._catalogs.setdefault(
            partition.topic,
            LogCatalog(self._disk, self._directories, lambda found: found.topic == partition.topic),
        )
        found = catalog.by_partition(is_committed=True).get(partition)
        if found is None:
            raise PipelineError(
                f"{partition} has gone from {', '.join(self._directories)} while it was archived"
            )
        log = found.log
        try:
            covers = self._covers(log, found.transactions, holes)
            data_directory = log.directory.rpartition("/")[0] or "/"
            view = view_log_directory(self._disk.file_system, data_directory).of(partition)
        except StorageError as error:
            raise PipelineError(f"cannot {error}") from error
        return Surroundings(
            covers=covers,
            log_start_offset=log.start_offset,
            # An entry stands there as long as the topic is compacted.
            compacted_end_offset=view.cleaner_offset or 0,
        )

    def _covers(
        self, log: PartitionLog, state: TransactionState | None, holes: Sequence[Stretch]
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
        """The batches that hold an offset of the hole."""
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
