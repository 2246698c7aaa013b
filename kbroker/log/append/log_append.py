"""Checks a produced batch before a log takes it, and applies the topic's settings to it.

Law: what is stored can be read by everyone. `check_produced_batch` reads the header and the CRC.
`open_batch` unpacks and walks all records, corrects what the header says of their times, and
renumbers those of an uncompressed batch whose offsets do not follow each other; on the event loop
it does so only within a `WorkLimit`. With `kbroker.record.validation=header` it runs only if a
setting needs it, or if `looks_right` doubts the batch. Codes and texts are Kafka's, except that
an unknown codec and a broken payload get codes a client can act on, where Kafka answers
UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_refusals import (
    MOST_RECORD_ERRORS,
    UntimelyRecord,
    bad_header,
    batch_too_large,
    invalid_timestamps,
    malformed,
    misplaced,
    not_one_batch,
    outside_bounds,
    record_corrupt,
    without_key,
    without_key_or_outside,
)
from kbroker.log.append.append_rules import (
    BYTE_COSTS,
    RECOMPRESSION_COST,
    UNLIMITED,
    AppendRules,
    TakesLongError,
    WorkerThread,
    WorkLimit,
)
from kbroker.log.append.message_set import holds_batch, size_of_next
from kbroker.log.producers.log_append_info import RecordError
from kbroker.model import NO_TIMESTAMP, TopicPartition, new_tuple
from kbroker.record.batch_tail import only_record_fits, tail_fits
from kbroker.record.compression import (
    COMPRESSION_MASK,
    ZSTD,
    bounded_pieces,
    looks_compressed,
    most_unpacked_bytes,
)
from kbroker.record.default_record import in_64_bits
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assign_max_timestamp,
    join_pieces,
    plain_records,
    read_header,
    record_pieces,
    record_stream,
)
from kbroker.record.record_stream import Pace, RecordStream
from kbroker.record.record_walk import (
    RECORDS_PER_STEP,
    SMALLEST_RECORD_BYTES,
    LongWalkError,
    WalkedRecords,
    check_record_count,
    walk_records,
)
from kbroker.record.stream_walk import numbered, times_and_keys, timestamps_outside, walk_stream

WritableBatch = bytearray | memoryview

# With one of them records are packed, or have their time from the header alone.
_DEEP_BITS = COMPRESSION_MASK | TIMESTAMP_TYPE_BIT
_PLAUSIBLE_SPAN_MS = 3_600_000  # from the first to the newest record of one batch
_LEAST_TIMESTAMP, _LATEST_TIMESTAMP = -(2**63), 2**63 - 1


class OpenedBatch(NamedTuple):
    """A batch as the topic wants it stored, but for its place and the broker's time."""

    records: WritableBatch
    header: BatchHeader
    max_timestamp: int


def check_produced_batch(
    batch: WritableBatch, topic_partition: TopicPartition, rules: AppendRules
) -> BatchHeader:
    """The header of the one batch a producer sent; it may be followed by the beginning of another,
    which is not stored.

    Raises KafkaError in the order Kafka looks: exactly one whole batch of format 2
    (InvalidRecordSetError, CORRUPT_MESSAGE), base offset, MESSAGE_TOO_LARGE (with the 12 bytes of
    offset and length), CORRUPT_MESSAGE, then INVALID_RECORD for counts, control batches and
    sequences.
    """
    size = len(batch)
    try:
        header = read_header(batch)
    except KafkaError as error:
        raise _no_batch(error, batch) from None
    # Runs for every batch: taken apart once, names cost nothing.
    (
        base_offset, length, _, _, crc, attributes, last_offset_delta,
        _, _, producer_id, _, base_sequence, record_count,
    ) = header  # fmt: skip
    batch_size = length + LOG_OVERHEAD
    if batch_size > size or (
        batch_size < size and size_of_next(memoryview(batch), batch_size) is not None
    ):
        raise not_one_batch(batch_size, size)
    if base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, "
            f"but it is {base_offset}",
        )
    if batch_size > rules.max_message_bytes:
        raise batch_too_large(batch_size, topic_partition, rules)
    if crc32c(memoryview(batch)[ATTRIBUTES_POSITION:batch_size]) != crc:
        raise record_corrupt(header, topic_partition)
    if record_count * SMALLEST_RECORD_BYTES > batch_size - HEADER_SIZE:
        check_record_count(header, batch_size)
    if (
        record_count <= 0
        or record_count != last_offset_delta + 1
        or attributes & CONTROL_BIT
        or (producer_id >= 0 and base_sequence < 0)
        or attributes & COMPRESSION_MASK > ZSTD
    ):
        raise bad_header(header, topic_partition)
    return header


def _no_batch(error: KafkaError, data: WritableBatch) -> KafkaError:
    """The refusal of bytes that do not begin with a header of format 2; one that ends amid its
    header is corrupt.
    """
    is_whole = len(data) < HEADER_SIZE and size_of_next(memoryview(data), 0) is not None
    if is_whole and holds_batch(data):
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"record batch of {len(data)} bytes")
    return malformed(error, len(data))


def looks_right(header: BatchHeader, batch: WritableBatch) -> bool:
    """Whether a batch may be stored unopened, as far as a few of its bytes show.

    Uncompressed, it ends with the record that its header mentions. Compressed, it has no more
    records than bytes, times that belong together, and begins as its codec does.
    """
    kind = header.attributes & _DEEP_BITS
    if not kind:
        return tail_fits(header, batch)
    return (
        not kind & TIMESTAMP_TYPE_BIT
        and header.record_count <= len(batch) - HEADER_SIZE
        and 0 <= header.max_timestamp - header.base_timestamp <= _PLAUSIBLE_SPAN_MS
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
    """Walk the records and apply the settings that need them: keys, timestamps, codec. The batch
    may be changed in place. May run on a worker thread.

    Raises TakesLongError beyond `limit`; KafkaError: INVALID_RECORD, INVALID_TIMESTAMP
    (InvalidRecordsError names the records), UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE.
    """
    newest = header.max_timestamp
    if (
        header.record_count == 1
        and not (rules.compression or rules.is_compacted or header.attributes & _DEEP_BITS)
        and now_ms - rules.timestamp_before_max_ms <= newest
        and NO_TIMESTAMP <= newest <= now_ms + rules.timestamp_after_max_ms
        and only_record_fits(header, batch)
    ):
        return new_tuple(OpenedBatch, (batch, header, newest))  # as nearly all batches of one are
    check_stamps(header, rules, header.record_count)
    stamps = rules.stamps_append_time
    codec = rules.compression
    changes_codec = codec is not None and header.compression != codec
    needs_records = changes_codec or rules.is_compacted or rules.walks_records or not stamps
    if not needs_records and looks_right(header, batch):
        return OpenedBatch(batch, header, header.max_timestamp)
    walked = _walked(header, batch, limit, RECOMPRESSION_COST if changes_codec else 0)
    if walked.keyless and rules.is_compacted:
        place = topic_partition, now_ms
        raise _keyless_refusal(header, batch, walked, rules, place, limit.pace)
    if not stamps:
        _check_walked_timestamps(header, batch, walked, rules, now_ms, limit.pace)
    if walked.misplaced:
        if header.compression and not changes_codec:
            raise misplaced(topic_partition)
        if not isinstance(limit, WorkerThread):
            raise TakesLongError
    if changes_codec or walked.misplaced:
        batch = _made_again(header, batch, topic_partition, walked, rules, limit.pace)
        header = read_header(batch)
    newest = max(walked.max_timestamp, NO_TIMESTAMP)
    if not stamps and (newest != header.max_timestamp or header.attributes & TIMESTAMP_TYPE_BIT):
        assign_max_timestamp(header, batch, 0, newest)
    return new_tuple(OpenedBatch, (batch, header, newest))


def _walked(
    header: BatchHeader, batch: WritableBatch, limit: WorkLimit, further_cost: int
) -> WalkedRecords:
    """Walk the records: all at once within a limit, else as they are unpacked."""
    if isinstance(limit, WorkerThread):
        return walk_stream(header, record_stream(header, batch, pace=limit.pace))
    codec = header.attributes & COMPRESSION_MASK
    byte_cost = BYTE_COSTS[codec] + further_cost
    most_bytes = limit.byte_cost // byte_cost
    # Whether they are alike shows after 64 of them: too late for what has to be unpacked first.
    most_records = limit.records if codec else limit.records * RECORDS_PER_STEP
    if header.record_count > most_records or len(batch) - HEADER_SIZE > most_bytes:
        raise TakesLongError
    try:
        if codec:
            plain = plain_records(header, batch, most_bytes)
        else:
            plain = bytes(memoryview(batch)[HEADER_SIZE:])  # read faster than a view
        limit.byte_cost -= len(plain) * byte_cost
        walked, steps = walk_records(header, plain, limit.records)
    except LongWalkError as error:
        limit.records -= error.steps
        raise TakesLongError from None
    except KafkaError as error:
        limit.use_up()
        if error.code == ErrorCode.MESSAGE_TOO_LARGE:
            raise TakesLongError from None
        raise
    limit.records -= steps
    return walked


def _made_again(
    header: BatchHeader,
    batch: WritableBatch,
    topic_partition: TopicPartition,
    walked: WalkedRecords,
    rules: AppendRules,
    pace: Pace | None,
) -> bytearray:
    """The batch with the topic's codec, and with offsets that follow each other. As in Kafka, of
    its attributes only those are kept that a producer may set. Raises KafkaError MESSAGE_TOO_LARGE.
    """
    codec = header.compression if rules.compression is None else rules.compression
    kept = header.attributes & (TRANSACTIONAL_BIT | TIMESTAMP_TYPE_BIT)
    changed = header._replace(attributes=kept | codec)
    body = record_pieces(header, batch, pace=pace)
    if walked.misplaced:
        body = numbered(header, RecordStream(body))
    body = bounded_pieces(body, most_unpacked_bytes(codec, rules.max_message_bytes))
    made = bytearray(join_pieces(changed, body, rules.compression_level))
    if len(made) > rules.max_message_bytes:
        raise batch_too_large(len(made), topic_partition, rules)
    return made


def check_stamps(
    header: BatchHeader, rules: AppendRules, record_count: int, first_index: int = 0
) -> None:
    """INVALID_TIMESTAMP if a client claims that the broker set the time, and that would count."""
    if header.attributes & TIMESTAMP_TYPE_BIT and (
        rules.stamps_append_time or header.max_timestamp == NO_TIMESTAMP
    ):
        reason = (
            "Invalid timestamp type in message. "
            "Producer should not set timestamp type to LogAppendTime."
        )
        indexes = range(first_index, first_index + min(record_count, MOST_RECORD_ERRORS))
        raise invalid_timestamps([RecordError(index, reason) for index in indexes])


def _keyless_refusal(
    header: BatchHeader,
    batch: WritableBatch,
    walked: WalkedRecords,
    rules: AppendRules,
    place: tuple[TopicPartition, int],
    pace: Pace | None,
) -> KafkaError:
    """The refusal of records without key. As in Kafka it is one for times if another record has a
    wrong time, in Java's numbers, which wrap around. `place`: the partition, and the present time.
    """
    topic_partition, now_ms = place
    before_ms, after_ms = rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
    stamped = header.stamp
    keyless: list[int] = []
    outside: list[UntimelyRecord] = []
    stream = record_stream(header, batch, 0, pace)
    for index, own_timestamp, has_key in times_and_keys(header, stream):
        if not has_key:
            if len(keyless) < MOST_RECORD_ERRORS:
                keyless.append(index)
            continue
        timestamp = own_timestamp if stamped is None else stamped
        if timestamp != NO_TIMESTAMP and not (
            -after_ms <= in_64_bits(now_ms - timestamp) <= before_ms
        ):
            outside.append(UntimelyRecord(index, timestamp, header.base_offset + index))
            if len(outside) == MOST_RECORD_ERRORS:
                break
    if outside and not rules.stamps_append_time:
        bounds = now_ms - before_ms, now_ms + after_ms
        return without_key_or_outside(keyless, outside, bounds, topic_partition)
    return without_key(keyless, walked.keyless, topic_partition)


def _check_walked_timestamps(
    header: BatchHeader,
    batch: WritableBatch,
    walked: WalkedRecords,
    rules: AppendRules,
    now_ms: int,
    pace: Pace | None,
) -> None:
    """INVALID_TIMESTAMP for records further from the broker's time than the topic allows. Delta and
    base may add up to a time that no header can hold: that is outside whatever it allows.
    """
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    least, most = max(earliest, _LEAST_TIMESTAMP), min(latest, _LATEST_TIMESTAMP)
    if least <= walked.least_timestamp and walked.max_timestamp <= most:
        return
    stream = record_stream(header, batch, pace=pace)
    found = timestamps_outside(header, stream, (least, most), MOST_RECORD_ERRORS)
    if found:
        offset = header.base_offset
        outside = [UntimelyRecord(index, timestamp, offset + index) for index, timestamp in found]
        raise outside_bounds(outside, earliest, latest)
