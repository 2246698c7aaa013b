"""The records of a batch as far as they can be read: a broken one hides none of its neighbours.

Law: as in record_batch, any bytes give records or a KafkaError. A batch that is whole is read at
once, which costs less; a large one is streamed, for its records take many times its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kbroker.errors import KafkaError
from kbroker.record.bulk_records import read_plain
from kbroker.record.default_record import Bytes, Record
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import MAGIC, BatchHeader, payload, record_stream
from kbroker.record.record_stream import RecordStream

AT_ONCE_BYTES: Final = 1 << 20  # of records, uncompressed


def readable_records(header: BatchHeader, batch: Bytes) -> Iterable[Record | KafkaError]:
    """The records of a batch or old message, and in the place of each unreadable one its refusal.
    If a record does not show where the next one begins, the last refusal stands for the rest.
    Raises KafkaError if the batch cannot be unpacked, or if anything in an old message is broken.
    """
    if header.magic < MAGIC:
        return any_records(batch)
    try:
        return read_plain(header, bytes(payload(header, batch, 0, AT_ONCE_BYTES)))
    except KafkaError:
        pass  # one by one: the batch is large, or some of its records can be read
    return _one_by_one(header, record_stream(header, batch))


def _one_by_one(header: BatchHeader, stream: RecordStream) -> Iterator[Record | KafkaError]:
    stamped = header.stamp
    try:
        while stream.left or stream.more():
            try:
                record = stream.read(header.base_offset, header.base_timestamp)
            except KafkaError as error:
                yield error
                stream.pass_unread()
            else:
                yield record if stamped is None else record._replace(timestamp=stamped)
    except KafkaError as error:  # of the codec
        yield error
