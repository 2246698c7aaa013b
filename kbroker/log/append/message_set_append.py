"""Appends that convert: sets of old messages that clients produce, and what goes into topics of an
old format (KIP-31, KIP-32, KIP-98).

Law: codes are those of Kafka's LogValidator, because clients act on them. An unknown codec, a
broken payload, a time before the epoch and headers that the format has no place for get
UNKNOWN_SERVER_ERROR from Kafka, and here codes that a client can act on. A set is taken or refused
as a whole.

Few brokers ever see an old message: what makes an append one of these imports this module then.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_refusals import larger_than_segment, record_corrupt, too_large
from kbroker.log.append.append_rules import AppendRules, Place
from kbroker.log.append.log_append import check_keys, check_stamps, check_timestamps
from kbroker.log.append.message_set import whole_messages
from kbroker.log.append.trusted_append import TrustedBatches
from kbroker.model import NO_TIMESTAMP
from kbroker.record.compression import NONE, ZSTD, unsupported
from kbroker.record.conversion import TargetFormat, convert
from kbroker.record.default_record import Record, let_go
from kbroker.record.legacy_builder import place_wrapper
from kbroker.record.legacy_record import is_intact, produced_records, read_any_header
from kbroker.record.record_batch import MAGIC, BatchHeader, records


class Message(NamedTuple):
    """One message of a set, and its header."""

    header: BatchHeader
    data: memoryview


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
