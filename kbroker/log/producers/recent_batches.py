"""The batches that a snapshot leaves out: it names the last one of each producer, but a client has
up to five in flight, and after a restart sends again all that were not answered.

Law: what comes out is what this log remembered before. The batches of a producer follow each other
up to the one in the snapshot; of those who have been silent for long nothing is looked for. Apache
Kafka looks for none: there the last batch but one is out of order after a clean restart, which is
fatal to an idempotent producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.producers.producer_state import (
    BATCHES_TO_RETAIN,
    BatchMetadata,
    ProducerStateEntry,
    ProducerStateManager,
    advance_sequence,
)
from kbroker.log.segments.log_segment import LogSegment
from kbroker.record.record_batch import BatchHeader

# Longer than clients try by default: Java's for 2 minutes, librdkafka for 5.
RECENT_MS: Final = 600_000
# Most logs have five batches within the first window; the largest holds five of a megabyte.
_WINDOWS_BYTES: Final = (8 << 10, 64 << 10, 512 << 10, 8 << 20)
_MOST_HEADERS: Final = 1_000  # of a window before a larger one: four milliseconds


def recall_batches(
    state: ProducerStateManager, segments: Sequence[LogSegment], now_ms: int
) -> None:
    """Complete a state that was just loaded from a snapshot. `segments` are those up to its end."""
    recent = [
        entry
        for entry in state.producers.values()
        if entry.batches and now_ms - entry.last_timestamp < RECENT_MS
    ]
    for window_bytes in _WINDOWS_BYTES:
        lacking = {entry.producer_id: entry for entry in recent if _lacks_some(entry)}
        if not lacking:
            return
        headers = list(_last_headers(segments, state.map_end_offset, window_bytes))
        for header in reversed(headers):
            entry = lacking.get(header.producer_id)
            if entry is not None:
                _recall(entry, header)
        if len(headers) > _MOST_HEADERS:
            return


def _lacks_some(entry: ProducerStateEntry) -> bool:
    """Whether earlier batches may count: a row of sequences begins with 0, unless it wrapped."""
    return len(entry.batches) < BATCHES_TO_RETAIN and entry.batches[0].first_sequence > 0


def _recall(entry: ProducerStateEntry, header: BatchHeader) -> None:
    """Remember a batch if it is the one before the first that is remembered."""
    first = entry.batches[0]
    last_sequence = advance_sequence(header.base_sequence, header.last_offset_delta)
    if (
        len(entry.batches) < BATCHES_TO_RETAIN
        and not header.is_control
        and header.producer_epoch == entry.producer_epoch
        and header.last_offset < first.first_offset
        and advance_sequence(last_sequence, 1) == first.first_sequence
    ):
        batch = BatchMetadata(
            header.base_sequence,
            last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )
        entry.batches.insert(0, batch)


def _last_headers(
    segments: Sequence[LogSegment], end_offset: int, window_bytes: int
) -> Iterator[BatchHeader]:
    """The headers of about so many bytes before an offset, without those behind damage."""
    starts: list[tuple[LogSegment, int]] = []
    for segment in reversed(segments):
        start, size_bytes = _start_of_last(segment, end_offset, window_bytes)
        starts.append((segment, start))
        window_bytes -= size_bytes
        if window_bytes <= 0:
            break
    for segment, start in reversed(starts):
        try:
            for _, header in segment.records.headers(start):
                if header.base_offset >= end_offset:
                    return
                yield header
        except (KafkaError, StorageError):  # who reads the records reports it
            continue


def _start_of_last(segment: LogSegment, end_offset: int, window_bytes: int) -> tuple[int, int]:
    """A position about so many bytes before an offset, and how many they are."""
    offset, end = segment.offset_index.lookup(end_offset)
    end = max(end, segment.size_bytes) if offset == segment.offset_index.last_offset else end
    start = end
    while start > 0 and end - start < window_bytes:
        offset, start = segment.offset_index.lookup(offset - 1)
    return start, end - start
