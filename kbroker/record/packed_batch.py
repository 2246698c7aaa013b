"""PackedBatch: a batch that goes from one broker to another without being unpacked.

Law: a batch is passed on only if its offsets are consecutive and its times are its producer's, not
the broker's: no broker takes any other batch from a producer.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.record.bulk_records import read_records, whole_body_of
from kbroker.record.record_batch import (
    CREATE_TIME,
    MAGIC,
    BatchHeader,
    BatchOptions,
    readdressed,
)


class PackedBatch(NamedTuple):
    """A batch of format 2 whose checksum was right."""

    header: BatchHeader
    data: memoryview

    @property
    def record_count(self) -> int:
        return self.header.record_count

    def for_producer(self, options: BatchOptions) -> bytearray:
        """The batch as the producer in `options` sends it; its compression stays."""
        return readdressed(self.header, self.data, options)

    def unpacked(self) -> tuple[list[bytes], list[int]]:
        """Bodies with their headers, and times. KafkaError if they cannot be read."""
        records = read_records(self.header, self.data)
        return list(map(whole_body_of, records)), [record.timestamp for record in records]


def can_be_passed_on(header: BatchHeader) -> bool:
    """Whether a broker takes this batch from a producer as it is."""
    return (
        header.magic == MAGIC
        and not header.is_control
        and header.timestamp_type == CREATE_TIME
        and header.last_offset_delta == header.record_count - 1 >= 0
    )
