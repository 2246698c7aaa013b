"""The first look at what an old client sent: sizes and checksums of all messages, one format.

Law: as Kafka looks. Nothing is kept of the single messages, of which a request may hold millions.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_refusals import batch_too_large, record_corrupt
from kbroker.log.append.append_rules import AppendRules
from kbroker.log.append.log_append import check_stamps
from kbroker.model import TopicPartition
from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.legacy_record import is_intact, read_any_header
from kbroker.record.record_batch import MAGIC, TIMESTAMP_TYPE_BIT, BatchHeader
from kbroker.record.record_stream import Pace


class CheckedSet(NamedTuple):
    """Whole messages with right checksums: plain ones of an old format, or one that is compressed,
    or one batch of format 2.
    """

    view: memoryview
    header: BatchHeader  # of the first
    stamps_error: KafkaError | None  # of a message that claims the broker's time

    @property
    def is_single(self) -> bool:
        return self.header.compression > 0 or self.header.magic == MAGIC


def checked_set(
    view: memoryview, rules: AppendRules, topic_partition: TopicPartition, pace: Pace | None
) -> CheckedSet:
    """Look at all messages; `pace` hears of their bytes.

    KafkaError: MESSAGE_TOO_LARGE, CORRUPT_MESSAGE; INVALID_RECORD if formats are mixed, or if one
    of several messages is compressed.
    """
    first = read_any_header(view)
    position = paced = count = 0
    is_single = False
    other: int | None = None  # the first other format
    stamps_error: KafkaError | None = None
    while position < len(view):
        header = read_any_header(view, position)
        if header.size_bytes > rules.max_message_bytes:
            raise batch_too_large(header.size_bytes, topic_partition, rules)
        if not is_intact(header, view, position):
            raise record_corrupt(header, topic_partition)
        is_single = is_single or header.compression > 0
        if header.magic != first.magic and other is None:
            other = header.magic
        if header.attributes & TIMESTAMP_TYPE_BIT and stamps_error is None:
            stamps_error = _stamps_error(header, rules, count)
        count += 1
        position += header.size_bytes
        if pace is not None and position - paced >= PIECE_BYTES:
            pace(position - paced)
            paced = position
    if count > 1 and (is_single or first.magic == MAGIC):
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "Compressed outer record has more than one batch"
        )
    if other is not None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"Batch magic {other} is not the same as the first batch's magic byte "
            f"{first.magic} in topic partition {topic_partition}",
        )
    return CheckedSet(view, first, None if is_single else stamps_error)


def _stamps_error(header: BatchHeader, rules: AppendRules, index: int) -> KafkaError | None:
    try:
        check_stamps(header, rules, 1, index)
    except KafkaError as error:
        return error
    return None
