"""Which transactions of a log are open, and which were aborted (KIP-98).

Both are read as a broker does when it opens the log: the newest producer snapshot that can be
trusted tells the transactions open at its offset, the batches behind it what came of them. Aborted
ones that ended before the snapshot are in the `.txnindex` files; those behind it are found by the
walk, since a running broker writes its index after the batch, and a killed one may have lost it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kbroker.errors import KafkaError
from kbroker.log.file_system import FileSystem
from kbroker.log.format import PRODUCER_SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, file_name
from kbroker.log.index.index_file import CorruptIndexError
from kbroker.log.index.transaction_index import TransactionIndex
from kbroker.log.inspection.segment_scan import ScannedBatch, SegmentScan
from kbroker.log.producer_replay import first_record
from kbroker.log.producer_snapshot import SnapshotError, decode_snapshot
from kbroker.pipeline.logdir.directory.partition_log import PartitionLog
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup
from kbroker.pipeline.logdir.segment_task import AbortedTransaction
from kbroker.record.record_batch import read_control


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """What is known of a log's transactions up to `end_offset`; a later scan may go on from it."""

    first_offset: int  # where the walk began
    end_offset: int
    open: Mapping[int, int] = field(default_factory=dict)  # producer id -> first offset
    aborted: tuple[AbortedTransaction, ...] = ()  # that ended behind `first_offset`

    @property
    def last_stable_offset(self) -> int:
        """Before it, every transaction is decided."""
        return min((self.end_offset, *self.open.values()))


def scan_transactions(
    file_system: FileSystem, log: PartitionLog, known: TransactionState | None = None
) -> TransactionState:
    """The transactions of the readable part of a log. Raises StorageError."""
    if known is None or known.end_offset > log.end_offset or known.end_offset < log.start_offset:
        known = _from_snapshot(file_system, log)
    open_since = dict(known.open)
    aborted = list(known.aborted)
    for scan, batch in _batches(file_system, log, known.end_offset):
        header = batch.header
        if not header.is_control:
            open_since.setdefault(header.producer_id, header.base_offset)
            continue
        is_commit = _is_commit(scan, batch)
        first_offset = None if is_commit is None else open_since.pop(header.producer_id, None)
        if first_offset is not None and not is_commit:
            ended = AbortedTransaction(header.producer_id, first_offset, header.last_offset)
            aborted.append(ended)
    return TransactionState(
        first_offset=known.first_offset,
        end_offset=log.end_offset,
        open=open_since,
        aborted=tuple(aborted),
    )


def aborted_transactions(
    file_system: FileSystem, log: PartitionLog, state: TransactionState, start_offset: int
) -> tuple[AbortedTransaction, ...]:
    """All aborted transactions that ended at or behind `start_offset`, by their ends.

    Raises StorageError.
    """
    found = []
    for segment in log.segments:
        if segment.base_offset > state.first_offset:
            break
        path = f"{log.directory}/{file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)}"
        if not file_system.exists(path):
            continue
        try:
            entries = TransactionIndex(file_system, path, segment.base_offset).entries
        except CorruptIndexError:
            return _walked(file_system, log, start_offset)
        found += [AbortedTransaction(*entry[:3]) for entry in entries]
    before = [each for each in found if start_offset <= each.last_offset < state.first_offset]
    return (*before, *(each for each in state.aborted if each.last_offset >= start_offset))


def _walked(
    file_system: FileSystem, log: PartitionLog, start_offset: int
) -> tuple[AbortedTransaction, ...]:
    """The same from the batches alone: an index cannot be read."""
    first = log.segments[0].base_offset
    whole = scan_transactions(
        file_system, log, TransactionState(first_offset=first, end_offset=log.start_offset)
    )
    return tuple(each for each in whole.aborted if each.last_offset >= start_offset)


def _from_snapshot(file_system: FileSystem, log: PartitionLog) -> TransactionState:
    bound = min(log.end_offset, _recovered_from(log))
    for offset in sorted(log.snapshot_offsets, reverse=True):
        if not log.start_offset < offset <= bound:
            continue
        path = f"{log.directory}/{file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)}"
        if not file_system.exists(path):
            continue
        try:
            entries = decode_snapshot(file_system.read_bytes(path))
        except SnapshotError:
            continue
        since = {
            entry.producer_id: entry.current_txn_first_offset
            for entry in entries
            if entry.current_txn_first_offset is not None
        }
        return TransactionState(first_offset=offset, end_offset=offset, open=since)
    return TransactionState(first_offset=log.start_offset, end_offset=log.start_offset)


def _recovered_from(log: PartitionLog) -> int:
    """Base of the first segment that a start would recover; later snapshots are not believed."""
    bases = [s.base_offset for s in log.segments if s.base_offset <= log.trusted_offset]
    is_whole = log.is_live or log.trusted_offset == log.end_offset
    return log.end_offset if is_whole else max(bases, default=log.start_offset)


def _batches(
    file_system: FileSystem, log: PartitionLog, start_offset: int
) -> Iterator[tuple[SegmentScan, ScannedBatch]]:
    """The transactional batches in [start_offset, end of the log)."""
    if start_offset >= log.end_offset:
        return
    bases = [segment.base_offset for segment in log.segments]
    ends = [*bases[1:], log.end_offset]
    for base_offset, end_offset in zip(bases, ends, strict=True):
        if end_offset <= start_offset or base_offset >= log.end_offset:
            continue
        lookup = SegmentLookup(file_system, log.directory, base_offset)
        start = lookup.floor(start_offset)
        scan = SegmentScan(file_system, lookup.path, checks_crc=False, start=start)
        for batch in scan.batches():
            header = batch.header
            if header.base_offset >= log.end_offset:
                break
            if header.last_offset >= start_offset and (
                header.is_transactional and header.producer_id >= 0
            ):
                yield scan, batch


def _is_commit(scan: SegmentScan, batch: ScannedBatch) -> bool | None:
    """None for a marker that was compacted away, or is of a kind this version does not know."""
    try:
        record = first_record(batch.header, scan.read(batch))
        marker = read_control(record) if record is not None else None
    except KafkaError:
        return None
    return marker.is_commit if marker is not None else None
