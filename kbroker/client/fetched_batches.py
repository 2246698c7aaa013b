"""Record batches as a fetch brought them: found in the bytes of an answer, then decoded.

Law: offsets below the one asked for are left out, as a batch may begin before it; so is a last
batch that is cut short. No socket, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.bulk_records import read_records
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import MAGIC, BatchHeader

_MANY = 5_000  # records


class FetchedBatch(NamedTuple):
    """A batch as it came; `start`: the first offset wanted of it."""

    partition: int
    header: BatchHeader
    data: memoryview
    start: int


def fetched_batches(
    partition: int, view: memoryview, position: int, end: int | None
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
            yield FetchedBatch(partition, header, view[at:behind], position)
            position = header.next_offset
        at = behind


def records_of(batches: Iterable[FetchedBatch]) -> Iterator[tuple[int, list[Record]]]:
    """Partition and wanted records, those of several batches at once where they are small.

    KafkaError where they are damaged, behind the records before.
    """
    gathered: list[Record] = []
    last = -1
    for batch in batches:
        if gathered and (batch.partition != last or len(gathered) >= _MANY):
            yield last, gathered
            gathered = []
        last = batch.partition
        try:
            gathered += _records(batch)
        except KafkaError:
            if gathered:
                yield last, gathered
            raise
    if gathered:
        yield last, gathered


def _records(batch: FetchedBatch) -> list[Record]:
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
        if header.base_offset >= batch.start:
            return records
    return [record for record in records if record.offset >= batch.start]
