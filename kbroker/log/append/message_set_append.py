"""Appends that convert: sets of old messages that clients produce, and what goes into topics of an
old format (KIP-31, KIP-32, KIP-98).

Law: codes are those of Kafka's LogValidator, because clients act on them. An unknown codec, a
broken payload, a time before the epoch and headers that the format has no place for get
UNKNOWN_SERVER_ERROR from Kafka, and here codes that a client can act on. A set is taken or refused
as a whole. It may unpack to any size: it is walked and then written again piece by piece.

Few brokers ever see an old message: what makes an append one of these imports this module then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_refusals import (
    MOST_RECORD_ERRORS,
    UntimelyRecord,
    batch_too_large,
    larger_than_segment,
    outside_bounds,
    without_key,
)
from kbroker.log.append.append_rules import AppendPlace, AppendRules
from kbroker.log.append.checked_set import CheckedSet, checked_set
from kbroker.log.append.log_append import check_stamps
from kbroker.log.append.message_set import whole_messages
from kbroker.log.append.trusted_append import TrustedBatches
from kbroker.model import NO_TIMESTAMP
from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.compression import (
    NONE,
    READER_MAX_BYTES,
    ZSTD,
    bounded_pieces,
    most_unpacked_bytes,
    unsupported,
)
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy, place_wrapper
from kbroker.record.legacy_record import read_any_header
from kbroker.record.message_stream import WalkedMessages
from kbroker.record.old_messages import OldMessages
from kbroker.record.record_batch import (
    LOG_APPEND_TIME,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    BatchOptions,
    base_time,
    join_pieces,
    record_stream,
    records,
    unsealed_header,
)
from kbroker.record.record_stream import Pace
from kbroker.record.stream_walk import walk_stream
from kbroker.record.up_conversion import up_converted_pieces

_LEAST_MESSAGE_BYTES = 26
_EVER = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Source:
    """The walked records of a client, with the offsets and times that it means."""

    first: CheckedSet
    walked: WalkedMessages
    messages: OldMessages | None  # None: a batch of format 2
    records: Callable[[], Iterator[Record]]

    @property
    def codec(self) -> int:
        return self.first.header.compression


def prepare_set(
    data: memoryview | bytearray, rules: AppendRules, place: AppendPlace, pace: Pace | None = None
) -> TrustedBatches:
    """Check whole messages of one format and put them into the topic's, with their offsets. `pace`
    hears of each piece.

    Raises KafkaError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP
    (InvalidRecordsError names the records), UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT, RECORD_LIST_TOO_LARGE.
    """
    if not len(data):
        return TrustedBatches(memoryview(data), [])
    source = _checked_source(memoryview(data), rules, place, pace)
    stored, converted = _in_place(source, rules, place), 0
    if stored is None:
        stored = _rebuilt(source, rules, place)
        if source.first.header.magic != rules.magic or source.codec or _codec_of(source, rules):
            converted = source.walked.record_count  # Kafka stores others of them as they came
    if len(stored) > rules.segment_bytes:
        raise larger_than_segment(len(stored), place.topic_partition, rules)
    stamp = place.now_ms if rules.stamps_append_time else -1
    headers = _reported_headers(stored, rules, place, pace)
    return TrustedBatches(memoryview(stored), headers, stamp, converted)


def as_one_batch(
    data: memoryview | bytearray, rules: AppendRules, place: AppendPlace, pace: Pace | None = None
) -> bytearray:
    """Check what an old client sent for a topic of format 2, and return it as the one batch that a
    new client would send; `place` has no offset and no epoch. May run on a worker thread.

    Raises KafkaError as `prepare_set`.
    """
    whole = whole_messages(data)
    if not len(whole):
        return bytearray()
    source = _checked_source(whole, rules, place, pace)
    return bytearray(_rebuilt(source, rules._replace(stamps_append_time=False), place))


def _checked_source(
    view: memoryview, rules: AppendRules, place: AppendPlace, pace: Pace | None
) -> _Source:
    first = checked_set(view, rules, place.topic_partition, pace)
    source = _of_batch(first, rules, pace) if first.header.magic == MAGIC else _of_old(first, pace)
    if first.stamps_error is not None:
        raise first.stamps_error
    if first.is_single:
        check_stamps(first.header, rules, source.walked.record_count)
    _check_walked(source, rules, place)
    return source


def _of_old(first: CheckedSet, pace: Pace | None) -> _Source:
    header = first.header
    if header.compression > ZSTD:
        raise unsupported(header.compression)
    messages = (
        OldMessages.wrapped(header, first.view, pace)
        if header.compression
        else OldMessages.in_set(header.magic, first.view, pace)
    )
    walked = messages.walk(checks_crc=True)
    return _Source(first, walked, messages, lambda: messages.records(walked.record_count))


def _of_batch(first: CheckedSet, rules: AppendRules, pace: Pace | None) -> _Source:
    """A batch that goes down. It was checked as one of a producer."""
    header = first.header
    for is_so, kind in (
        (header.is_transactional, "Transactional"),
        (header.has_producer_id, "Idempotent"),
    ):
        if is_so:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"{kind} records cannot be used with magic version {rules.magic}",
            )
    found = walk_stream(header, record_stream(header, first.view, pace=pace))
    least, largest = found.least_timestamp, found.max_timestamp
    if header.timestamp_type == LOG_APPEND_TIME:
        least = largest = header.max_timestamp
    count = header.record_count
    walked = WalkedMessages(count, 0, count - 1, True, least, least, largest, found.keyless, 0, 0)
    return _Source(first, walked, None, lambda: _without_headers(first.view, rules, pace))


def _without_headers(batch: memoryview, rules: AppendRules, pace: Pace | None) -> Iterator[Record]:
    for record in records(batch, pace=pace):
        if record.headers:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"Magic v{rules.magic} does not support record headers",
            )
        yield record


def _check_walked(source: _Source, rules: AppendRules, place: AppendPlace) -> None:
    """Refuse records without key, and times, that the topic does not take."""
    walked = source.walked
    bounds = _EVER
    if not rules.stamps_append_time:
        now_ms = place.now_ms
        bounds = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    is_untimely = walked.least_timestamp < bounds[0] or walked.largest_timestamp > bounds[1]
    if is_untimely or (rules.is_compacted and walked.keyless):
        _check_records(source, rules, place, bounds)
    if not rules.stamps_append_time and walked.least_timestamp < NO_TIMESTAMP:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"Invalid negative timestamp {walked.least_timestamp}"
        )


def _check_records(
    source: _Source, rules: AppendRules, place: AppendPlace, bounds: tuple[int, int]
) -> None:
    """As Kafka looks: a record without key is not asked for its time, and one with a wrong time
    decides over what all of a batch are refused for. A set is refused for its first bad message.
    """
    earliest, latest = bounds
    keyless: list[int] = []
    untimely: list[UntimelyRecord] = []
    for index, (offset, timestamp, key, _, _) in enumerate(source.records()):
        if rules.is_compacted and key is None:
            keyless.append(index)
        elif timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            untimely.append(UntimelyRecord(index, timestamp, offset))
        else:
            continue
        if not source.first.is_single or len(untimely) == MOST_RECORD_ERRORS:
            break
        del keyless[MOST_RECORD_ERRORS:]
    if untimely:
        raise outside_bounds(untimely, earliest, latest)
    if keyless:
        raise without_key(keyless, source.walked.keyless, place.topic_partition)


def _codec_of(source: _Source, rules: AppendRules) -> int:
    return source.codec if rules.compression is None else rules.compression


def _in_place(source: _Source, rules: AppendRules, place: AppendPlace) -> bytes | None:
    """A compressed message of format 1 that needs a new offset and time only; else None. Some
    clients count the wrapped offsets wrongly: those are wrapped again.
    """
    header, walked = source.first.header, source.walked
    codec = _codec_of(source, rules)
    if header.magic != 1 or rules.magic != 1 or not codec or header.compression != codec:
        return None
    if walked.first_offset or not walked.follow:
        return None
    last_offset = place.first_offset + walked.record_count - 1
    stamp = place.now_ms if rules.stamps_append_time else None
    return place_wrapper(header, source.first.view, last_offset, walked.largest_timestamp, stamp)


def _rebuilt(source: _Source, rules: AppendRules, place: AppendPlace) -> bytes:
    """The records in the topic's format and codec. MESSAGE_TOO_LARGE above what it allows, and for
    more than can be held, which is 256 MiB of a record, or of records that are not compressed.
    """
    codec = _codec_of(source, rules)
    stamp = place.now_ms if rules.stamps_append_time else None
    messages = source.messages
    if rules.magic == MAGIC and messages is not None:
        return _as_batch(messages, source.walked, rules, place, codec)
    if source.walked.longest_bytes > READER_MAX_BYTES:
        raise batch_too_large(source.walked.longest_bytes, place.topic_partition, rules)
    most_bytes = most_unpacked_bytes(codec, rules.max_message_bytes) if codec else READER_MAX_BYTES
    placed = _placed(source.records(), rules, place, most_bytes)
    return build_legacy(
        placed, rules.magic, codec or NONE, append_time_ms=stamp, level=rules.compression_level
    )


def _as_batch(
    messages: OldMessages,
    walked: WalkedMessages,
    rules: AppendRules,
    place: AppendPlace,
    codec: int,
) -> bytes:
    stamped = rules.stamps_append_time
    newest = place.now_ms if stamped else walked.largest_timestamp
    header = unsealed_header(
        BatchOptions(
            flags=TIMESTAMP_TYPE_BIT if stamped else 0,
            compression=codec,
            partition_leader_epoch=place.leader_epoch,
        ),
        base_offset=place.first_offset,
        last_offset=place.first_offset + walked.record_count - 1,
        base_timestamp=base_time(walked.first_timestamp, newest),
        max_timestamp=newest,
        record_count=walked.record_count,
    )
    pieces = up_converted_pieces(messages, walked.record_count, header.base_timestamp)
    bounded = bounded_pieces(pieces, most_unpacked_bytes(codec, rules.max_message_bytes))
    batch = join_pieces(header, bounded, rules.compression_level)
    if len(batch) > rules.max_message_bytes:
        raise batch_too_large(len(batch), place.topic_partition, rules)
    return batch


def _placed(
    given: Iterator[Record], rules: AppendRules, place: AppendPlace, most_bytes: int
) -> Iterator[Record]:
    """The records at their offsets in the log, so many bytes of them at most."""
    left = most_bytes
    for offset, (_, timestamp, key, value, _headers) in enumerate(given, place.first_offset):
        left -= _LEAST_MESSAGE_BYTES + len(key or b"") + len(value or b"")
        if left < 0:
            raise batch_too_large(most_bytes - left, place.topic_partition, rules)
        yield Record(offset, timestamp, key, value)


def _reported_headers(
    stored: bytes, rules: AppendRules, place: AppendPlace, pace: Pace | None
) -> list[BatchHeader]:
    """The headers that an append reports: the first with the largest time, and the last."""
    newest = last = read_any_header(stored)
    position = paced = 0
    while position < len(stored):
        last = read_any_header(stored, position)
        if last.size_bytes > rules.max_message_bytes:
            raise batch_too_large(last.size_bytes, place.topic_partition, rules)
        if last.max_timestamp > newest.max_timestamp:
            newest = last
        position += last.size_bytes
        if pace is not None and position - paced >= PIECE_BYTES:
            pace(position - paced)
            paced = position
    return [last] if newest is last or newest == last else [newest, last]
