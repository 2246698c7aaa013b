"""What a produced batch must be before a log takes it, and what the topic's settings change in it.

Law: `check_produced_batch` reads the header and the CRC and runs for every batch, and
`looks_right` looks at a few bytes more. `open_batch` unpacks and walks records; it runs where a
setting needs it or the batch looks wrong, and on the event loop only within a `WorkLimit`. Codes
and texts are Kafka's, except that an unknown codec and a broken payload get codes a client can act
on, where Kafka answers UNKNOWN_SERVER_ERROR.
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
from kbroker.record.compression import (
    CODEC_IDS,
    COMPRESSION_MASK,
    DEFAULT_MAX_BYTES,
    ZSTD,
    looks_compressed,
)
from kbroker.record.default_record import Record
from kbroker.record.record_batch import (
    HEADER_SIZE,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    assign_max_timestamp,
    crc_matches,
    join_batch,
    plain_records,
    read_header,
)
from kbroker.record.record_walk import (
    SMALLEST_RECORD_BYTES,
    Plain,
    WalkedRecords,
    check_record_count,
    keyless_indexes,
    tail_fits,
    timestamps_outside,
    walk_records,
)

WritableBatch = bytearray | memoryview

_SHOWN_ERRORS = 3
_MOST_RECORD_ERRORS = 1_000  # an answer names no more of them, whatever the batch holds
_PLAUSIBLE_SPAN_MS = 3_600_000  # from the first to the newest record of one batch
_RECOMPRESSION_COST = 8  # compressing a byte, beside walking it


class TakesLongError(Exception):
    """A batch that is not for the event loop: see `append_preparation`."""


class WorkLimit(NamedTuple):
    """How much of a batch may be opened where it is asked for."""

    record_count: int
    plain_bytes: int


# A walk of so many records takes about 0.5 ms, and so does unpacking so many bytes.
AT_ONCE = WorkLimit(1_000, 64 * 1024)
UNLIMITED = WorkLimit(2**31 - 1, DEFAULT_MAX_BYTES)


@lru_cache(maxsize=256)
def share_of_at_once(batch_count: int) -> WorkLimit:
    """What each of so many batches of one request may take of the event loop."""
    if batch_count <= 1:
        return AT_ONCE
    return WorkLimit(AT_ONCE.record_count // batch_count, AT_ONCE.plain_bytes // batch_count)


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

    @property
    def bounds_timestamps(self) -> bool:
        """Records too far from the broker's time are refused."""
        return self.timestamp_before_max_ms != MAX_LONG or self.timestamp_after_max_ms != MAX_LONG

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
    """A batch as the topic wants it stored, but for its place and the broker's time."""

    records: WritableBatch
    header: BatchHeader
    max_timestamp: int


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
    if record_count * SMALLEST_RECORD_BYTES > batch_size - HEADER_SIZE:
        check_record_count(header, batch_size)
    if (
        record_count <= 0
        or record_count != header[6] + 1
        or attributes & 0x20
        or (header[9] >= 0 and header[11] < 0)
        or attributes & 0x07 > ZSTD
    ):
        raise _bad_header(header, topic_partition)
    return header


def looks_right(header: BatchHeader, batch: WritableBatch) -> bool:
    """Whether a batch may be stored unopened: what can be told for the price of a few bytes.

    Uncompressed, it ends with the record that its header speaks of. Compressed, it has no more
    records than bytes, times that belong together, and begins as its codec does.
    """
    kind = header[5] & (COMPRESSION_MASK | TIMESTAMP_TYPE_BIT)
    if not kind:
        return tail_fits(header, batch)
    return (
        not kind & TIMESTAMP_TYPE_BIT
        and header[12] <= len(batch) - HEADER_SIZE
        and 0 <= header[8] - header[7] <= _PLAUSIBLE_SPAN_MS
        and looks_compressed(kind, batch, HEADER_SIZE)
    )


def open_batch(
    batch: WritableBatch,
    header: BatchHeader,
    topic_partition: TopicPartition,
    rules: AppendRules,
    now_ms: int,
    limit: WorkLimit = UNLIMITED,
) -> OpenedBatch:
    """Apply the settings that need the records: keys, timestamps, codec. The batch may be changed
    in place. May run on a worker thread.

    Raises TakesLongError beyond `limit`; KafkaError: INVALID_RECORD, INVALID_TIMESTAMP
    (InvalidRecordsError names the records), UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE.
    """
    check_stamps(header, rules, header.record_count)
    stamps = rules.stamps_append_time
    codec = rules.compression
    changes_codec = codec is not None and header.compression != codec
    needs_records = changes_codec or rules.is_compacted or rules.walks_records or not stamps
    if not needs_records and looks_right(header, batch):
        return OpenedBatch(batch, header, header.max_timestamp)
    plain = _plain(header, batch, limit, _RECOMPRESSION_COST if changes_codec else 1)
    walked = walk_records(header, plain)
    if walked.keyless and rules.is_compacted:
        indexes = keyless_indexes(header, plain, _MOST_RECORD_ERRORS)
        raise _keyless_error(indexes, walked.keyless, topic_partition)
    if not stamps:
        _check_walked_timestamps(header, plain, walked, rules, now_ms)
    if changes_codec:
        assert codec is not None
        changed = header._replace(attributes=header.attributes & ~COMPRESSION_MASK | codec)
        batch = bytearray(join_batch(changed, plain, rules.compression_level))
        if len(batch) > rules.max_message_bytes:
            raise too_large(len(batch), topic_partition, rules)
        header = read_header(batch)
    newest = walked.max_timestamp
    if not stamps and (newest != header.max_timestamp or header.attributes & TIMESTAMP_TYPE_BIT):
        assign_max_timestamp(header, batch, 0, newest)
    return OpenedBatch(batch, header, newest)


def _plain(header: BatchHeader, batch: WritableBatch, limit: WorkLimit, cost: int) -> Plain:
    """The records, unpacked."""
    most_bytes = limit.plain_bytes if limit is UNLIMITED else limit.plain_bytes // cost
    is_limited = limit is not UNLIMITED
    if is_limited and (
        header.record_count > limit.record_count or len(batch) - HEADER_SIZE > most_bytes
    ):
        raise TakesLongError
    try:
        return plain_records(header, batch, most_bytes)
    except KafkaError as error:
        if is_limited and error.code == ErrorCode.MESSAGE_TOO_LARGE:
            raise TakesLongError from None
        raise


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
        raise _keyless_error(keyless[:_MOST_RECORD_ERRORS], len(keyless), topic_partition)


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
        indexes = range(first_index, first_index + min(record_count, _MOST_RECORD_ERRORS))
        raise _invalid_timestamps([RecordError(index, reason) for index in indexes])


def check_timestamps(given: Iterable[Record], rules: AppendRules, now_ms: int) -> None:
    """INVALID_TIMESTAMP for records further from the broker's time than the topic allows."""
    if not rules.bounds_timestamps:
        return
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    outside = [
        (index, record.timestamp, record.offset)
        for index, record in enumerate(given)
        if record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest
    ]
    if outside:
        raise _outside_error(outside[:_MOST_RECORD_ERRORS], earliest, latest)


def _check_walked_timestamps(
    header: BatchHeader, plain: Plain, walked: WalkedRecords, rules: AppendRules, now_ms: int
) -> None:
    """As `check_timestamps`, of a batch that was walked."""
    if not rules.bounds_timestamps:
        return
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    if earliest <= walked.least_timestamp and walked.max_timestamp <= latest:
        return
    found = timestamps_outside(header, plain, (earliest, latest), _MOST_RECORD_ERRORS)
    if found:
        offset = header.base_offset
        outside = [(index, timestamp, offset + index) for index, timestamp in found]
        raise _outside_error(outside, earliest, latest)


def _outside_error(
    outside: list[tuple[int, int, int]], earliest: int, latest: int
) -> InvalidRecordsError:
    """The refusal of records by their (index, timestamp, offset)."""
    allowed = f"[{_wrapped(earliest)}, {_wrapped(latest)}]"
    return _invalid_timestamps(
        [
            RecordError(
                index,
                f"Timestamp {timestamp} of message with offset {offset} is out of range. "
                f"The timestamp should be within {allowed}",
            )
            for index, timestamp, offset in outside
        ]
    )


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


def _keyless_error(
    indexes: Sequence[int], count: int, topic_partition: TopicPartition
) -> InvalidRecordsError:
    """The refusal of `count` records without key, of which these are named."""
    reason = (
        f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    )
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{reason}')" for index in indexes[:_SHOWN_ERRORS]
    )
    return InvalidRecordsError(
        ErrorCode.INVALID_RECORD,
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]",
        [RecordError(index, reason) for index in indexes],
    )


def _wrapped(value: int) -> int:
    """As a 64-bit number: Kafka's text shows the overflow of an unlimited bound."""
    return (value + 2**63) % 2**64 - 2**63
