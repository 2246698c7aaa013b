"""Finds the open and the aborted transactions of a log (KIP-98).

Both are read as a broker does when it opens the log: the newest producer snapshot that can be
trusted holds the transactions open at its offset, and the batches after it show how they went on.
Those that were aborted before the snapshot are in the `.txnindex` files; later ones are found by
the walk, since a running broker writes its index after the batch, and a killed one may have lost
it.

Law: a later walk goes on from an earlier one only while the last batch of that one stands in its
place, in a log of the same topic. A log that was cut and has grown again has another batch there,
of another leader epoch or checksum; and two logs that share a batch of one leader share all before
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kbroker.errors import KafkaError
from kbroker.inspection.segment_scan import ScannedBatch, SegmentScan
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import PRODUCER_SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, file_name
from kbroker.log.producers.producer_replay import read_marker
from kbroker.log.producers.producer_snapshot import SnapshotError, decode_snapshot
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.transaction_index import TransactionIndex
from kbroker.pipeline.logdir.directory.disk_refusal import is_refusal
from kbroker.pipeline.logdir.directory.partition_log import PartitionLog
from kbroker.pipeline.logdir.directory.segment_lookup import SegmentLookup, readable_bytes
from kbroker.pipeline.logdir.segment_task import AbortedTransaction
from kbroker.record.record_batch import BatchHeader


class _Witness(NamedTuple):
    """The last batch of a walk, at its place."""

    segment_base_offset: int
    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTransactions:
    """The transactions of a log up to `end_offset`; a later scan may go on from here."""

    first_offset: int  # where the walk began
    end_offset: int
    topic_id: UUID | None = None
    witness: _Witness | None = None  # None: no batch was walked over
    open: Mapping[int, int] = field(default_factory=dict)  # producer id -> first offset
    aborted: tuple[AbortedTransaction, ...] = ()  # that ended after `first_offset`, in the log

    @property
    def last_stable_offset(self) -> int:
        """Every transaction before it is decided."""
        return min((self.end_offset, *self.open.values()))


def scan_transactions(
    file_system: FileSystem, log: PartitionLog, known: LogTransactions | None = None
) -> LogTransactions:
    """The transactions of the readable part of a log. Raises StorageError."""
    if known is None or not _goes_on(file_system, log, known):
        known = _from_snapshot(file_system, log)
    return _walked_on(file_system, log, known)


def aborted_transactions(
    file_system: FileSystem, log: PartitionLog, state: LogTransactions, start_offset: int
) -> tuple[AbortedTransaction, ...]:
    """All aborted transactions that ended at or after `start_offset`, by their ends.

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
        except StorageError as error:
            if is_refusal(error):
                return _walked(file_system, log, start_offset)
            raise
        found += [AbortedTransaction(*entry[:3]) for entry in entries]
    before = [each for each in found if start_offset <= each.last_offset < state.first_offset]
    return (*before, *(each for each in state.aborted if each.last_offset >= start_offset))


def _walked(
    file_system: FileSystem, log: PartitionLog, start_offset: int
) -> tuple[AbortedTransaction, ...]:
    """Find them in the batches alone, because an index cannot be read."""
    first = log.segments[0].base_offset
    nothing = LogTransactions(first_offset=first, end_offset=log.start_offset)
    whole = _walked_on(file_system, log, nothing)
    return tuple(each for each in whole.aborted if each.last_offset >= start_offset)


def _goes_on(file_system: FileSystem, log: PartitionLog, known: LogTransactions) -> bool:
    """True if the log is still the known one, and as long."""
    witness = known.witness
    if witness is None or known.topic_id != log.topic_id:
        return False
    if not log.start_offset <= known.end_offset <= log.end_offset:
        return False
    base_offset = witness.segment_base_offset
    if all(segment.base_offset != base_offset for segment in log.segments):
        return False
    lookup = SegmentLookup(file_system, log.directory, base_offset)
    return lookup.header_at(witness.position) == witness.header


def _walked_on(
    file_system: FileSystem, log: PartitionLog, known: LogTransactions
) -> LogTransactions:
    open_since = dict(known.open)
    aborted = list(known.aborted)
    witness = known.witness
    for lookup, scan, batch in _batches(file_system, log, known.end_offset):
        header = batch.header
        witness = _Witness(lookup.base_offset, batch.position, header)
        if not header.is_transactional or header.producer_id < 0:
            continue
        if not header.is_control:
            open_since.setdefault(header.producer_id, header.base_offset)
            continue
        is_commit = _is_commit(scan, batch)
        first_offset = None if is_commit is None else open_since.pop(header.producer_id, None)
        if first_offset is not None and not is_commit:
            ended = AbortedTransaction(header.producer_id, first_offset, header.last_offset)
            aborted.append(ended)
    return LogTransactions(
        first_offset=known.first_offset,
        end_offset=log.end_offset,
        topic_id=log.topic_id,
        witness=witness,
        open=open_since,
        aborted=tuple(each for each in aborted if each.last_offset >= log.start_offset),
    )


def _from_snapshot(file_system: FileSystem, log: PartitionLog) -> LogTransactions:
    bound = min(log.end_offset, _recovered_from(log))
    for offset in sorted(log.snapshot_offsets, reverse=True):
        if not log.start_offset < offset <= bound:
            continue
        path = f"{log.directory}/{file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)}"
        try:
            entries = decode_snapshot(readable_bytes(file_system, path))
        except SnapshotError:
            continue
        since = {
            entry.producer_id: entry.current_txn_first_offset
            for entry in entries
            if entry.current_txn_first_offset is not None
        }
        return LogTransactions(first_offset=offset, end_offset=offset, open=since)
    return LogTransactions(first_offset=log.start_offset, end_offset=log.start_offset)


def _recovered_from(log: PartitionLog) -> int:
    """Base of the first segment that a start would recover; later snapshots are not trusted."""
    bases = [s.base_offset for s in log.segments if s.base_offset <= log.trusted_offset]
    is_whole = log.is_live or log.trusted_offset == log.end_offset
    return log.end_offset if is_whole else max(bases, default=log.start_offset)


def _batches(
    file_system: FileSystem, log: PartitionLog, start_offset: int
) -> Iterator[tuple[SegmentLookup, SegmentScan, ScannedBatch]]:
    """The batches in [start_offset, end of the log), each with its lookup and scan."""
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
            if header.last_offset >= start_offset:
                yield lookup, scan, batch


def _is_commit(scan: SegmentScan, batch: ScannedBatch) -> bool | None:
    """None for a marker that was compacted away, or is of a kind this version does not know."""
    try:
        marker = read_marker(batch.header, scan.read(batch))
    except KafkaError:
        return None
    return marker.control.is_commit if marker is not None else None
