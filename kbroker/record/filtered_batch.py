"""Batches from which a log cleaner keeps some records. A small one is held whole; a large one is
unpacked piece by piece, twice, because it may unpack to any size.

Law: both give the same records. A streamed batch holds no more than a piece, the keys of some
records, and a byte for each record; a broken one is refused before the first key is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.batch_filter import (
    RecordSpan,
    keep_records,
    kept_header,
    record_spans,
    write_kept_lead,
)
from kbroker.record.default_record import Bytes
from kbroker.record.record_batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    join_pieces,
    payload,
    record_stream,
)
from kbroker.record.record_stream import RecordStream
from kbroker.record.stream_walk import walk_stream

WHOLE_BYTES: Final = 4 * 1024 * 1024  # of records, uncompressed
WHOLE_RECORDS: Final = 100_000
_SOME: Final = 1_000  # records whose keys are held together
_PIECE_BYTES: Final = 1024 * 1024

Choose = Callable[[list[RecordSpan]], Sequence[RecordSpan]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """How many records there are, how many stay, and whether a tombstone is among these."""

    records: int
    kept: int
    has_tombstones: bool


def batch_to_filter(header: BatchHeader, batch: Bytes) -> HeldBatch | StreamedBatch:
    """The batch, ready to be asked for its keys. KafkaError if it cannot be read."""
    if header.record_count <= WHOLE_RECORDS:
        try:
            return HeldBatch(header, bytes(payload(header, batch, 0, WHOLE_BYTES)))
        except KafkaError as error:
            if error.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
    return StreamedBatch(header, batch)


class HeldBatch:
    """A batch whose records are held; used once."""

    def __init__(self, header: BatchHeader, plain: bytes) -> None:
        self._header = header
        self._plain = plain
        self._spans = record_spans(plain, header.record_count)
        self._kept: Sequence[RecordSpan] = ()

    def spans(self) -> Iterator[list[RecordSpan]]:
        yield self._spans

    def choose(self, choose: Choose) -> Chosen:
        """Let `choose` say which records stay."""
        kept = self._kept = choose(self._spans)
        has_tombstones = not all(span.has_value for span in kept)
        return Chosen(records=len(self._spans), kept=len(kept), has_tombstones=has_tombstones)

    def of_chosen(self, delete_horizon_ms: int | None) -> bytes:
        return keep_records(self._header, self._plain, self._kept, delete_horizon_ms)


class StreamedBatch:
    """A batch that is unpacked again each time it is read."""

    def __init__(self, header: BatchHeader, batch: Bytes) -> None:
        walk_stream(header, record_stream(header, batch))
        self._header = header
        self._batch = batch
        self._stays = bytearray(header.record_count)
        self._times: list[int] = []  # the first and the largest of those that stay

    def spans(self) -> Iterator[list[RecordSpan]]:
        """Yield the records in pieces; `start` is the number of a record, not its place."""
        for _, some in self._some():
            yield some

    def choose(self, choose: Choose) -> Chosen:
        """Let `choose` say which records stay; it gets some of them at a time."""
        kept_count = 0
        has_tombstones = False
        times: list[int] = []
        for deltas, some in self._some():
            kept = choose(some)
            kept_count += len(kept)
            has_tombstones = has_tombstones or not all(span.has_value for span in kept)
            for span in kept:
                self._stays[span.start] = True
            found = [deltas[span.start - some[0].start] for span in kept]
            if found:
                times = [times[0] if times else found[0], max(times + found)]
        self._times = times
        return Chosen(
            records=self._header.record_count, kept=kept_count, has_tombstones=has_tombstones
        )

    def of_chosen(self, delete_horizon_ms: int | None) -> bytes:
        """The batch of the chosen ones, at least one."""
        header = self._header
        if header.timestamp_type == LOG_APPEND_TIME:
            first = newest = header.max_timestamp
        else:
            first, newest = (header.base_timestamp + delta for delta in self._times)
        changed = kept_header(header, first, newest, sum(self._stays), delete_horizon_ms)
        return join_pieces(changed, self._pieces(changed.base_timestamp))

    def _some(self) -> Iterator[tuple[list[int], list[RecordSpan]]]:
        """Timestamp deltas and spans of the records, some at a time."""
        stream = self._stream()
        count = self._header.record_count
        for begin in range(0, count, _SOME):
            deltas, spans = [], []
            for index in range(begin, min(begin + _SOME, count)):
                delta, size = stream.begin()
                end = stream.passed + size
                offset_delta, key, has_value = stream.key()
                stream.skip(end - stream.passed)
                deltas.append(delta)
                spans.append(RecordSpan(offset_delta, key, has_value, index, index + 1))
            yield deltas, spans

    def _pieces(self, base_timestamp: int) -> Iterator[bytes]:
        """The records that stay, their times counted from this one."""
        header = self._header
        stamped = header.timestamp_type == LOG_APPEND_TIME
        stream = self._stream()
        out = bytearray()
        for stays in self._stays:
            delta, size = stream.begin()
            if not stays:
                stream.skip(size)
                continue
            timestamp = header.max_timestamp if stamped else header.base_timestamp + delta
            write_kept_lead(out, timestamp - base_timestamp, size)
            for piece in stream.take(size):
                out += piece
                if len(out) >= _PIECE_BYTES:
                    yield bytes(out)
                    out.clear()
        yield bytes(out)

    def _stream(self) -> RecordStream:
        return record_stream(self._header, self._batch)
