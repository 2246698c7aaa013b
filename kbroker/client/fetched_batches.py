"""Record batches as a fetch brought them: found in the bytes of an answer, then decoded.

Law: offsets below the one asked for and from the end on are left out, as a batch may begin before
and end after them; so is a last batch that is cut short. No socket, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.record.bulk_records import read_records
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import MAGIC, BatchHeader

_MANY = 5_000  # records


class FetchedBatch(NamedTuple):
    """A batch as it came; wanted of it are offsets from `start` to `end` (exclusive; None: all)."""

    place: TopicPartition
    header: BatchHeader
    data: memoryview
    start: int
    end: int | None

    @property
    def is_wanted_whole(self) -> bool:
        """Whether none of its records is left out."""
        is_before_end = self.end is None or self.header.last_offset < self.end
        return self.header.base_offset >= self.start and is_before_end


def fetched_batches(
    place: TopicPartition, view: memoryview, position: int, end: int | None
) -> Iterator[FetchedBatch]:
    """The batches of a partition from `position` to `end` (exclusive; None: all).

    KafkaError where the first one has no header that can be; a later one is refused when it comes
    first.
    """
    at = 0
    while at < len(view) and (end is None or position < end):
        try:
            header = read_any_header(view, at)
        except KafkaError:
            if at:
                return
            raise
        behind = at + header.size_bytes
        if behind > len(view):
            return
        if header.last_offset >= position:
            yield FetchedBatch(place, header, view[at:behind], position, end)
            position = header.next_offset
        at = behind


def records_of(batches: Iterable[FetchedBatch]) -> Iterator[tuple[TopicPartition, list[Record]]]:
    """Partition and wanted records, those of several batches at once where they are small.

    KafkaError where they are damaged, after the records before.
    """
    gathered: list[Record] = []
    last: TopicPartition | None = None
    for batch in batches:
        if last is not None and gathered and (batch.place != last or len(gathered) >= _MANY):
            yield last, gathered
            gathered = []
        last = batch.place
        try:
            gathered += records_in(batch)
        except KafkaError:
            if gathered:
                yield last, gathered
            raise
    if last is not None and gathered:
        yield last, gathered


def records_in(batch: FetchedBatch) -> list[Record]:
    """The wanted records of a batch. KafkaError where it is damaged."""
    header, data = batch.header, batch.data
    if not is_intact(header, data):
        reason = f"the batch at offset {header.base_offset} is damaged"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)
    if header.magic < MAGIC:
        records = list(any_records(data))
    elif header.is_control:
        return []
    else:
        records = read_records(header, data)
        if batch.is_wanted_whole:
            return records
    end = header.next_offset if batch.end is None else batch.end
    return [record for record in records if batch.start <= record.offset < end]
