"""Rebuilds producer state from what is on disk: the newest intact snapshot, then the batches after
it.

Law: a replayed batch was accepted once and is never refused. Replaying gives the state that
appending gave, and the entries of a transaction index if one is passed in: otherwise a restart
would accept duplicates that the broker refused before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kbroker.log.disk.file_system import Bytes
from kbroker.log.producers.producer_snapshot import ProducerSnapshots
from kbroker.log.producers.producer_state import ProducerStateManager, is_expired
from kbroker.log.producers.recent_batches import recall_batches
from kbroker.log.producers.unstable_transactions import CompletedTxn
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments
from kbroker.log.segments.transaction_index import AbortedTxn, TransactionIndex
from kbroker.record.record_batch import BatchHeader, ControlRecord, read_control, records


class Expiry(NamedTuple):
    """How long a producer without an open transaction is remembered."""

    now_ms: int
    after_ms: int  # since it wrote last


class Marker(NamedTuple):
    """The end of a transaction, as in a control batch, and the time of that record."""

    control: ControlRecord
    timestamp: int


def read_marker(header: BatchHeader, batch: Bytes) -> Marker | None:
    """Return the marker in a control batch; None if compaction has removed its record, or where
    it is not about a transaction.
    """
    record = next(records(batch), None) if header.record_count > 0 else None
    control = read_control(record) if record is not None else None
    return Marker(control, record.timestamp) if record is not None and control is not None else None


def replay_batch(
    state: ProducerStateManager,
    header: BatchHeader,
    batch: Bytes,
    transaction_index: TransactionIndex | None,
) -> None:
    """Take a stored batch into account; an abort is entered into `transaction_index`, if given."""
    if header.producer_id < 0:
        return
    if not header.is_control:
        state.update(header, header.base_offset, header.last_offset, header.max_timestamp)
        return
    marker = read_marker(header, batch)
    if marker is not None:
        end_transaction(state, header, marker, transaction_index)


def end_transaction(
    state: ProducerStateManager,
    header: BatchHeader,
    marker: Marker,
    transaction_index: TransactionIndex | None,
) -> None:
    """Record a stored marker: state first, then the index entry with the stable offset after."""
    completed = state.end_transaction(header, marker.control, header.base_offset, marker.timestamp)
    if completed is None:
        return
    if completed.is_aborted and transaction_index is not None:
        transaction_index.append(_index_entry(completed, state.last_stable_offset_after(completed)))
    state.complete(completed)


def load_snapshot(
    state: ProducerStateManager,
    snapshots: ProducerSnapshots,
    expiry: Expiry,
    *,
    start_offset: int,
    end_offset: int,
) -> None:
    """Set `state` to the newest snapshot after `start_offset`, up to `end_offset`, or empty it."""
    found = snapshots.read_latest(snapshots.offsets(), start_offset + 1, end_offset)
    if found is None:
        state.clear(start_offset)
        return
    offset, entries = found
    state.load((e for e in entries if not is_expired(e, *expiry)), offset)


def replay_segments(
    state: ProducerStateManager, segments: Iterable[LogSegment], end_offset: int
) -> None:
    """Replay the intact batches from `state.map_end_offset` to `end_offset` (exclusive)."""
    for segment in segments:
        start_offset = state.map_end_offset
        for position, header in segment.sound_headers(start_offset):
            if header.base_offset >= end_offset:
                break
            if header.last_offset >= start_offset and header.producer_id >= 0:
                batch = segment.records.read(position, header.size_bytes)
                replay_batch(state, header, batch, None)
    state.advance_to(end_offset)


def rewind(
    state: ProducerStateManager,
    snapshots: ProducerSnapshots,
    segments: LogSegments,
    expiry: Expiry,
    *,
    start_offset: int,
    end_offset: int,
) -> int:
    """Set `state` to what it was at `end_offset`, if the log that starts at `start_offset` ends
    now; the offset of the snapshot used.
    """
    load_snapshot(state, snapshots, expiry, start_offset=start_offset, end_offset=end_offset)
    found_offset = state.map_end_offset
    recall_batches(state, segments.between(start_offset, found_offset), expiry.now_ms)
    replay_segments(state, segments.from_offset(found_offset), end_offset)
    return found_offset


def _index_entry(completed: CompletedTxn, last_stable_offset: int) -> AbortedTxn:
    return AbortedTxn(
        completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
    )
