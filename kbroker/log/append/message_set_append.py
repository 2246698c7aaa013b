"""Appends that convert: sets of old messages that clients produce, and what goes into topics of an
old format (KIP-31, KIP-32, KIP-98).

Law: codes are those of Kafka's LogValidator, because clients act on them. An unknown codec, a
broken payload, a time before the epoch and headers that the format has no place for get
UNKNOWN_SERVER_ERROR from Kafka, and here codes that a client can act on. A set is taken or refused
as a whole.
"""

from __future__ import annotations

from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_refusals import larger_than_segment, record_corrupt, too_large
from kbroker.log.append.append_rules import AppendRules, TakesLongError, WorkLimit
from kbroker.log.append.log_append import check_keys, check_stamps, check_timestamps
from kbroker.log.append.log_append_info import AppendOrigin
from kbroker.log.append.trusted_append import TrustedBatches, read_trusted
from kbroker.model import NO_TIMESTAMP, TopicPartition
from kbroker.record.compression import COMPRESSION_MASK, NONE, ZSTD, unsupported
from kbroker.record.conversion import TargetFormat, convert
from kbroker.record.default_record import Record, let_go
from kbroker.record.legacy_builder import place_wrapper
from kbroker.record.legacy_record import (
    HEADER_SIZE_UP_TO_MAGIC,
    is_intact,
    produced_records,
    read_any_header,
)
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    records,
)

_LENGTH = Struct(">8xi").unpack_from
_MIN_LENGTH: Final = 14
_MAGIC_POSITION: Final = HEADER_SIZE_UP_TO_MAGIC - 1
_ATTRIBUTES_POSITION: Final = HEADER_SIZE_UP_TO_MAGIC  # of a message of format 0 or 1
_BATCH_ATTRIBUTES_POSITION: Final = ATTRIBUTES_POSITION + 1  # the byte that names the codec
_CONVERSION_COST: Final = 4  # records are built, which costs more than to walk over them


class Message(NamedTuple):
    """One message of a set, and its header."""

    header: BatchHeader
    data: memoryview


class Place(NamedTuple):
    """Where and when a set is appended."""

    topic_partition: TopicPartition
    first_offset: int
    leader_epoch: int
    now_ms: int


def whole_messages(data: memoryview | bytearray) -> memoryview:
    """Return the messages of an old client, without one that is cut off at the end.

    KafkaError(CORRUPT_MESSAGE) for lengths and formats that cannot be.
    """
    view = memoryview(data)
    end = 0
    while len(view) - end >= LOG_OVERHEAD:
        (length,) = _LENGTH(view, end)
        if length < _MIN_LENGTH:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"message with the length {length}")
        following = end + LOG_OVERHEAD + length
        if len(view) - end < HEADER_SIZE_UP_TO_MAGIC:
            break
        if view[end + _MAGIC_POSITION] > MAGIC:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"message of format {view[end + _MAGIC_POSITION]}"
            )
        if following > len(view):
            break
        end = following
    return view[:end]


def holds_batch(data: memoryview | bytearray) -> bool:
    """True where whole messages begin with a batch of format 2."""
    return len(data) > _MAGIC_POSITION and data[_MAGIC_POSITION] == MAGIC


def check_takes_not_long(data: memoryview | bytearray, limit: WorkLimit) -> None:
    """TakesLongError where the event loop should not convert these messages: they are many, or
    compressed, and so may be more than they look.
    """
    if len(data) <= _BATCH_ATTRIBUTES_POSITION:
        return
    attributes = data[_BATCH_ATTRIBUTES_POSITION if holds_batch(data) else _ATTRIBUTES_POSITION]
    if attributes & COMPRESSION_MASK or len(data) > limit.plain_bytes // _CONVERSION_COST:
        raise TakesLongError


def placed_batches(
    data: memoryview | bytearray, origin: AppendOrigin, rules: AppendRules, place: Place
) -> TrustedBatches:
    """Return the batches to append for these records, with offsets, leader epoch and, where the
    topic asks for it, the broker's time. KafkaError: see `prepare_set` and `read_trusted`;
    MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    if origin == AppendOrigin.OLD_CLIENT:
        return prepare_set(data, rules, place)
    batches = read_trusted(data, place.topic_partition, rules, place.first_offset)
    _check_sizes(batches, rules, place)
    batches.assign_offsets(place.first_offset, place.leader_epoch, place.now_ms, rules)
    return batches


def _check_sizes(batches: TrustedBatches, rules: AppendRules, place: Place) -> None:
    """Hold a coordinator's batches to the limits of a producer's. Only batches that a leader has
    taken are exempt.
    """
    for header in batches.headers:
        if header.size_bytes > rules.max_message_bytes:
            raise too_large(header.size_bytes, place.topic_partition, rules)
    if len(batches.records) > rules.segment_bytes:
        raise larger_than_segment(len(batches.records), place.topic_partition, rules)


def prepare_set(data: memoryview | bytearray, rules: AppendRules, place: Place) -> TrustedBatches:
    """Check whole messages of one format and put them into the topic's, with their offsets.

    Raises KafkaError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP
    (InvalidRecordsError names the records), UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT, RECORD_LIST_TOO_LARGE.
    """
    if not len(data):
        return TrustedBatches(memoryview(data), [])
    messages = _checked_messages(memoryview(data), rules, place)
    first = messages[0].header
    entries = _checked_records(messages, rules, place)
    codec = first.compression if rules.compression is None else rules.compression
    stored = _in_place(messages, entries, rules, place, codec)
    if stored is None:
        stored = _rebuilt(entries, codec, rules, place)
    let_go(entries)
    if len(stored) > rules.segment_bytes:
        raise larger_than_segment(len(stored), place.topic_partition, rules)
    headers = _headers(stored)
    for header in headers:
        if header.size_bytes > rules.max_message_bytes:
            raise too_large(header.size_bytes, place.topic_partition, rules)
    stamp = place.now_ms if rules.stamps_append_time else -1
    return TrustedBatches(memoryview(stored), headers, stamp)


def as_one_batch(data: memoryview | bytearray, rules: AppendRules, place: Place) -> bytearray:
    """Check what an old client sent for a topic of format 2, and return it as the one batch that a
    new client would send; `place` has no offset and no epoch. May run on a worker thread.

    Raises KafkaError as `prepare_set`.
    """
    whole = whole_messages(data)
    if not len(whole):
        return bytearray()
    messages = _checked_messages(whole, rules, place)
    entries = _checked_records(messages, rules, place)
    codec = messages[0].header.compression if rules.compression is None else rules.compression
    stored = _rebuilt(entries, codec, rules._replace(stamps_append_time=False), place)
    let_go(entries)
    return bytearray(stored)


def _checked_messages(view: memoryview, rules: AppendRules, place: Place) -> list[Message]:
    """Headers and bytes of all messages: sizes, checksums, one format, one compressed message."""
    messages: list[Message] = []
    position = 0
    while position < len(view):
        header = read_any_header(view, position)
        message = view[position : position + header.size_bytes]
        if header.size_bytes > rules.max_message_bytes:
            raise too_large(header.size_bytes, place.topic_partition, rules)
        if not is_intact(header, message):
            raise record_corrupt(header, place.topic_partition)
        messages.append(Message(header, message))
        position += header.size_bytes
    is_compressed = any(each.header.compression for each in messages)
    is_single = is_compressed or messages[0].header.magic == MAGIC
    if is_single and len(messages) > 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch"
        )
    for before, after in pairwise(messages):
        if after.header.magic != before.header.magic:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"Batch magic {after.header.magic} is not the same as the first batch's magic byte "
                f"{before.header.magic} in topic partition {place.topic_partition}",
            )
    return messages


def _checked_records(messages: list[Message], rules: AppendRules, place: Place) -> list[Record]:
    header, message = messages[0]
    if header.compression > ZSTD:
        raise unsupported(header.compression)
    if header.magic == MAGIC:
        _check_can_go_down(header, rules)
        entries = list(records(message))
        _check_headers(entries, rules)
    else:
        entries = [entry for each in messages for entry in produced_records(*each)]
    for index, each in enumerate(messages):
        check_stamps(each.header, rules, len(entries) if len(messages) == 1 else 1, index)
    if rules.is_compacted:
        keyless = [index for index, entry in enumerate(entries) if entry.key is None]
        check_keys(keyless, place.topic_partition)
    if not rules.stamps_append_time:
        check_timestamps(entries, rules, place.now_ms)
        _check_after_epoch(entries)
    return entries


def _check_can_go_down(header: BatchHeader, rules: AppendRules) -> None:
    for is_so, kind in (
        (header.is_transactional, "Transactional"),
        (header.has_producer_id, "Idempotent"),
    ):
        if is_so:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"{kind} records cannot be used with magic version {rules.magic}",
            )


def _check_headers(entries: list[Record], rules: AppendRules) -> None:
    if any(entry.headers for entry in entries):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"Magic v{rules.magic} does not support record headers",
        )


def _check_after_epoch(entries: list[Record]) -> None:
    earliest = min((entry.timestamp for entry in entries), default=NO_TIMESTAMP)
    if earliest < NO_TIMESTAMP:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"Invalid negative timestamp {earliest}")


def _in_place(
    messages: list[Message], entries: list[Record], rules: AppendRules, place: Place, codec: int
) -> bytes | None:
    """A compressed message of format 1 that needs a new offset and time only; else None.

    Some clients count the wrapped offsets wrongly: those are wrapped again.
    """
    header, message = messages[0]
    if header.magic != 1 or rules.magic != 1 or not codec or header.compression != codec:
        return None
    if any(entry.offset != index for index, entry in enumerate(entries)):
        return None
    last_offset = place.first_offset + len(entries) - 1
    largest = max(entry.timestamp for entry in entries)
    stamp = place.now_ms if rules.stamps_append_time else None
    return place_wrapper(header, message, last_offset, largest, stamp)


def _rebuilt(entries: list[Record], codec: int, rules: AppendRules, place: Place) -> bytes:
    target = TargetFormat(
        rules.magic,
        codec or NONE,
        rules.compression_level,
        place.now_ms if rules.stamps_append_time else None,
        place.leader_epoch,
    )
    return convert(
        (Record(offset, *entry[1:]) for offset, entry in enumerate(entries, place.first_offset)),
        target,
    )


def _headers(stored: bytes) -> list[BatchHeader]:
    headers = []
    position = 0
    while position < len(stored):
        header = read_any_header(stored, position)
        headers.append(header)
        position += header.size_bytes
    return headers
