"""What a produced batch must be before a log takes it, and what the topic's settings change in it.

Law: `check_produced_batch` reads the header and the CRC alone and runs for every batch;
`open_batch` looks at records and runs only where `AppendRules.opens_batches` says that a setting
needs it. Codes and texts are Kafka's, except that an unknown codec and a broken payload get codes a
client can act on, where Kafka answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from kbroker.config.config_values import MAX_LONG
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.log_append_info import InvalidRecordsError, InvalidRecordSetError, RecordError
from kbroker.model import NO_TIMESTAMP, TopicPartition
from kbroker.record.compression import CODEC_IDS, ZSTD
from kbroker.record.default_record import Record
from kbroker.record.record_batch import (
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    assign_log_append_time,
    assign_max_timestamp,
    crc_matches,
    keyless_records,
    read_header,
    recompress,
    records,
    validate_records,
)

WritableBatch = bytearray | memoryview

_SHOWN_ERRORS = 3


class AppendRules(NamedTuple):
    """The settings of a topic that say what happens to a produced batch."""

    max_message_bytes: int
    segment_bytes: int
    is_compacted: bool
    stamps_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression: int | None  # None: the producer's codec stays
    compression_level: int | None  # of that codec; None: its default
    magic: int  # the format that records are stored in
    walks_records: bool  # kbroker.record.validation=full
    opens_batches: bool  # one of the settings above needs more than the header

    @classmethod
    def of(cls, config: TopicConfig, *, walks_records: bool) -> AppendRules:
        """The rules that `config` makes."""
        is_compacted = config.is_compacted
        stamps = config.message_timestamp_type == "LogAppendTime"
        before = config.timestamp_before_max_ms_effective()
        after = config.timestamp_after_max_ms_effective()
        codec = (
            None if config.compression_type == "producer" else CODEC_IDS[config.compression_type]
        )
        magic = config.message_format
        opens = is_compacted or stamps or walks_records or codec is not None or magic != MAGIC
        rules = cls(
            config.max_message_bytes,
            config.segment_bytes,
            is_compacted,
            stamps,
            before,
            after,
            codec,
            config.compression_level,
            magic,
            walks_records,
            opens or before != MAX_LONG or after != MAX_LONG,
        )
        return _shared(rules)


@lru_cache(maxsize=256)
def _shared(rules: AppendRules) -> AppendRules:
    """One object for all logs with the same rules: thousands of partitions have few settings."""
    return rules


class OpenedBatch(NamedTuple):
    """A batch as the topic wants it stored."""

    records: WritableBatch
    header: BatchHeader
    max_timestamp: int
    log_append_time: int  # -1 where the records keep their own time


def check_produced_batch(
    batch: WritableBatch, topic_partition: TopicPartition, rules: AppendRules
) -> BatchHeader:
    """The header of the one batch a producer sent.

    Raises KafkaError in the order Kafka looks: exactly one whole batch of format 2
    (InvalidRecordSetError), base offset, MESSAGE_TOO_LARGE (with the 12 bytes of offset and
    length), CORRUPT_MESSAGE, then INVALID_RECORD for counts, control batches and sequences.
    """
    size = len(batch)
    try:
        header = read_header(batch)
    except KafkaError as error:
        raise _malformed(error, size) from None
    batch_size = header[1] + 12
    if batch_size != size:
        raise _not_one_batch(batch_size, size)
    if header[0] != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, "
            f"but it is {header[0]}",
        )
    if batch_size > rules.max_message_bytes:
        raise too_large(batch_size, topic_partition, rules)
    if not crc_matches(batch, 0, batch_size):
        raise record_corrupt(header, topic_partition)
    attributes = header[5]
    record_count = header[12]
    if (
        record_count <= 0
        or record_count != header[6] + 1
        or attributes & 0x20
        or (header[9] >= 0 and header[11] < 0)
        or attributes & 0x07 > ZSTD
    ):
        raise _bad_header(header, topic_partition)
    return header


def open_batch(
    batch: WritableBatch,
    header: BatchHeader,
    topic_partition: TopicPartition,
    rules: AppendRules,
    now_ms: int,
) -> OpenedBatch:
    """Apply the settings that need the records: keys, timestamps, codec. The batch may be changed
    in place.

    Raises KafkaError: INVALID_RECORD, INVALID_TIMESTAMP (InvalidRecordsError names the records),
    UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE.
    """
    check_stamps(header, rules, header.record_count)
    stamps = rules.stamps_append_time
    changes_codec = rules.compression is not None and header.compression != rules.compression
    max_timestamp = header.max_timestamp
    if changes_codec or not stamps or rules.is_compacted or rules.walks_records:
        max_timestamp = validate_records(header, batch)
        if rules.is_compacted:
            check_keys(keyless_records(header, batch), topic_partition)
        if not stamps:
            check_timestamps(records(batch), rules, now_ms)
    if changes_codec:
        assert rules.compression is not None
        level = rules.compression_level
        batch = bytearray(recompress(header, batch, 0, rules.compression, level))
        if len(batch) > rules.max_message_bytes:
            raise too_large(len(batch), topic_partition, rules)
        header = read_header(batch)
    if stamps:
        assign_log_append_time(header, batch, 0, now_ms)
        return OpenedBatch(batch, header, now_ms, now_ms)
    if max_timestamp != header.max_timestamp or header.attributes & TIMESTAMP_TYPE_BIT:
        assign_max_timestamp(header, batch, 0, max_timestamp)
    return OpenedBatch(batch, header, max_timestamp, -1)


def too_large(size_bytes: int, topic_partition: TopicPartition, rules: AppendRules) -> KafkaError:
    """The refusal of a batch above max.message.bytes."""
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
    """The refusal of a batch or message with a wrong checksum."""
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic_partition}.",
    )


def check_keys(keyless: Sequence[int], topic_partition: TopicPartition) -> None:
    """Refuse records without key, given by their indexes: what a compacted topic does."""
    if keyless:
        reason = (
            "Compacted topic cannot accept message without key in topic partition "
            f"{topic_partition}"
        )
        raise _record_errors([RecordError(index, reason) for index in keyless])


def check_stamps(
    header: BatchHeader, rules: AppendRules, record_count: int, first_index: int = 0
) -> None:
    """INVALID_TIMESTAMP where a client says that the broker set the time, and that would count."""
    if header.attributes & TIMESTAMP_TYPE_BIT and (
        rules.stamps_append_time or header.max_timestamp == NO_TIMESTAMP
    ):
        reason = (
            "Invalid timestamp type in message. "
            "Producer should not set timestamp type to LogAppendTime."
        )
        indexes = range(first_index, first_index + record_count)
        raise _invalid_timestamps([RecordError(index, reason) for index in indexes])


def check_timestamps(given: Iterable[Record], rules: AppendRules, now_ms: int) -> None:
    """INVALID_TIMESTAMP for records further from the broker's time than the topic allows."""
    before, after = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
    if before == MAX_LONG and after == MAX_LONG:
        return
    allowed = f"[{_wrapped(now_ms - before)}, {_wrapped(now_ms + after)}]"
    errors = [
        RecordError(
            index,
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            f"The timestamp should be within {allowed}",
        )
        for index, record in enumerate(given)
        if record.timestamp != NO_TIMESTAMP
        and not now_ms - before <= record.timestamp <= now_ms + after
    ]
    if errors:
        raise _invalid_timestamps(errors)


def _malformed(error: KafkaError, size: int) -> KafkaError:
    if error.code != ErrorCode.INVALID_RECORD:
        return error
    if size == 0:
        return InvalidRecordSetError(
            "Produce requests must have at least one record batch per partition"
        )
    return InvalidRecordSetError(error.message or "Malformed record batch")


def _not_one_batch(batch_size: int, size: int) -> KafkaError:
    if batch_size > size:
        return InvalidRecordSetError(
            f"Record batch of {batch_size} bytes is cut off after {size} bytes"
        )
    return InvalidRecordSetError(
        "Produce requests with version 3 and newer must have exactly one record batch per partition"
    )


def _bad_header(header: BatchHeader, topic_partition: TopicPartition) -> KafkaError:
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


def _invalid_timestamps(errors: list[RecordError]) -> InvalidRecordsError:
    return InvalidRecordsError(
        ErrorCode.INVALID_TIMESTAMP,
        "One or more records have been rejected due to invalid timestamp",
        errors,
    )


def _record_errors(errors: list[RecordError]) -> InvalidRecordsError:
    shown = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
        for error in errors[:_SHOWN_ERRORS]
    )
    return InvalidRecordsError(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
        errors,
    )


def _wrapped(value: int) -> int:
    """As a 64-bit number: Kafka's text shows the overflow of an unlimited bound."""
    return (value + 2**63) % 2**64 - 2**63
