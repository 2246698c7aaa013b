"""The answers to a producer whose records are not appended.

Law: codes and texts are Kafka's, because clients act on the codes and users search for the texts;
only an unknown codec gets another code, one that a client can act on. Values only; the caller
decides what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_rules import AppendRules
from kbroker.log.producers.log_append_info import (
    InvalidRecordsError,
    InvalidRecordSetError,
    RecordError,
)
from kbroker.model import TopicPartition
from kbroker.record.default_record import in_64_bits
from kbroker.record.record_batch import BatchHeader

MOST_RECORD_ERRORS = 1_000  # an answer names no more of them, whatever the batch holds
_SHOWN_ERRORS = 3


def batch_too_large(
    size_bytes: int, topic_partition: TopicPartition, rules: AppendRules
) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {topic_partition} is {size_bytes} bytes "
        f"which exceeds the maximum configured value of {rules.max_message_bytes}.",
    )


def larger_than_segment(
    size_bytes: int, topic_partition: TopicPartition, rules: AppendRules
) -> KafkaError:
    """The refusal of records that no segment can hold."""
    return KafkaError(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"Message batch size is {size_bytes} bytes in append to partition {topic_partition}, "
        f"which exceeds the maximum configured segment size of {rules.segment_bytes}.",
    )


def record_corrupt(header: BatchHeader, topic_partition: TopicPartition) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic_partition}.",
    )


def malformed(error: KafkaError, size: int) -> KafkaError:
    """The refusal of bytes that are not a whole batch of format 2."""
    if error.code != ErrorCode.INVALID_RECORD:
        return error
    if size == 0:
        return InvalidRecordSetError(
            "Produce requests must have at least one record batch per partition"
        )
    return InvalidRecordSetError(error.message or "Malformed record batch")


def not_one_batch(batch_size: int, size: int) -> KafkaError:
    """The refusal of more or less than one batch."""
    if batch_size > size:
        return InvalidRecordSetError(
            f"Record batch of {batch_size} bytes is cut off after {size} bytes"
        )
    return InvalidRecordSetError(
        "Produce requests with version 3 and newer must have exactly one record batch per partition"
    )


def bad_header(header: BatchHeader, topic_partition: TopicPartition) -> KafkaError:
    """The refusal of a header that no client may send."""
    count = header.record_count
    last = header.last_offset
    if last < 0:
        reason = f"Batch has an invalid offset range: [0, {last}]"
    elif count <= 0:
        reason = f"Invalid reported count for record batch: {count}"
    elif count != last + 1:
        reason = f"Inconsistent batch offset range [0, {last}] and count of records {count}"
    elif header.is_control:
        reason = "Clients are not allowed to write control records"
    elif header.has_producer_id and header.base_sequence < 0:
        reason = (
            f"Invalid sequence number {header.base_sequence} in record batch "
            f"with producerId {header.producer_id}"
        )
    else:
        return KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Unknown compression type id: {header.compression}",
        )
    return KafkaError(ErrorCode.INVALID_RECORD, f"{reason} in topic partition {topic_partition}.")


def misplaced(topic_partition: TopicPartition) -> KafkaError:
    """The refusal of compressed records whose offsets do not follow each other."""
    return KafkaError(
        ErrorCode.INVALID_RECORD,
        f"Offsets in a compressed batch do not follow each other in topic partition "
        f"{topic_partition}.",
    )


def without_key(
    indexes: Sequence[int], count: int, topic_partition: TopicPartition
) -> InvalidRecordsError:
    """The refusal of `count` records without key, of which these are named."""
    reason = _keyless_reason(topic_partition)
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{reason}')" for index in indexes[:_SHOWN_ERRORS]
    )
    return InvalidRecordsError(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
        [RecordError(index, reason) for index in indexes],
    )


class UntimelyRecord(NamedTuple):
    """A record whose timestamp the topic does not allow; `batch_index` counts from 0."""

    batch_index: int
    timestamp: int
    offset: int


def outside_bounds(
    outside: list[UntimelyRecord], earliest: int, latest: int
) -> InvalidRecordsError:
    return invalid_timestamps([_untimely(record, earliest, latest) for record in outside])


def without_key_or_outside(
    keyless: Sequence[int],
    outside: list[UntimelyRecord],
    bounds: tuple[int, int],
    topic_partition: TopicPartition,
) -> InvalidRecordsError:
    """The refusal of records without key, given by their indexes, and of others for their times."""
    reason = _keyless_reason(topic_partition)
    errors = [RecordError(index, reason) for index in keyless]
    errors += (_untimely(record, *bounds) for record in outside)
    errors.sort(key=lambda error: error.batch_index)
    return invalid_timestamps(errors[:MOST_RECORD_ERRORS])


def _keyless_reason(topic_partition: TopicPartition) -> str:
    return f"Compacted topic cannot accept message without key in topic partition {topic_partition}"


def _untimely(record: UntimelyRecord, earliest: int, latest: int) -> RecordError:
    allowed = f"[{in_64_bits(earliest)}, {in_64_bits(latest)}]"
    return RecordError(
        record.batch_index,
        f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
        f"The timestamp should be within {allowed}",
    )


def invalid_timestamps(errors: list[RecordError]) -> InvalidRecordsError:
    return InvalidRecordsError(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        errors,
    )
