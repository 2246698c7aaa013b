"""The batches that a snapshot leaves out: it names the last one of each producer, but a client has
up to five in flight, and after a restart sends again all that were not answered.

Law: what comes out is what this log remembered before. The batches of a producer follow each other
up to the one in the snapshot. Nothing is looked for in a log that nobody has written to for long,
nor of producers who have been silent for long: the times of whose records are old, which may be
those of events, and whose last batch is not among the last. Apache Kafka looks for none: there the
last batch but one is out of order after a clean restart, which is fatal to an idempotent producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
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
# Most logs have five batches within the first window; the largest holds five of 12 megabytes.
_WINDOWS_BYTES: Final = (8 << 10, 64 << 10, 512 << 10, 8 << 20, 64 << 20)
# A window with more of them is not looked through: they take five milliseconds.
_MOST_HEADERS: Final = 1_200


def recall_batches(
    state: ProducerStateManager, segments: Sequence[LogSegment], now_ms: int
) -> None:
    """Complete a state that was just loaded from a snapshot. `segments` are those up to its end."""
    lacking = {each.producer_id: each for each in state.producers.values() if _lacks_some(each)}
    if not lacking or not segments or now_ms - segments[-1].modified_ms >= RECENT_MS:
        return
    among_last: int | None = None  # the least offset of the last ones
    for window_bytes in _WINDOWS_BYTES:
        window = _last_headers(segments, state.map_end_offset, window_bytes)
        headers = list(islice(window, _MOST_HEADERS + 1))
        if not headers or len(headers) > _MOST_HEADERS:
            return
        if among_last is None:
            among_last = headers[0].base_offset
        lacking = {
            producer_id: entry
            for producer_id, entry in lacking.items()
            if now_ms - entry.last_timestamp < RECENT_MS
            or entry.batches[-1].last_offset >= among_last
        }
        for header in reversed(headers):
            entry = lacking.get(header.producer_id)
            if entry is not None:
                _recall(entry, header)
        lacking = {each: entry for each, entry in lacking.items() if _lacks_some(entry)}
        if not lacking:
            return


def _lacks_some(entry: ProducerStateEntry) -> bool:
    """Whether earlier batches may count: a row of sequences begins with 0, unless it wrapped."""
    return 0 < len(entry.batches) < BATCHES_TO_RETAIN and entry.batches[0].first_sequence > 0


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
