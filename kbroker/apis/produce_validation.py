"""Refuses records of a Produce request, if it can, before the log is asked (KIP-98, KIP-110).

Law: looks at three fields of the first batch header, once per partition, because every produce
request pays for it. As in Kafka, a batch that is not whole is none. The log checks the batch.
"""

from __future__ import annotations

from struct import Struct

from kbroker.errors import ErrorCode
from kbroker.log.producers.verification import TransactionalBatch
from kbroker.record.compression import COMPRESSION_MASK, ZSTD
from kbroker.record.record_batch import HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT

_FIRST_VERSION_WITH_BATCHES = 3  # from here on the codec is looked at
FIRST_VERSION_WITH_ZSTD = 7

_FRAME_SIZE = 12  # base offset and length
_LEAST_LENGTH = 14  # of what may be a batch of any format
_LEAST_SIZE = _FRAME_SIZE + _LEAST_LENGTH

_unpack_length_magic_attributes = Struct(">8xi4xb4xh").unpack_from
_unpack_producer = Struct(">43xqhi").unpack_from  # id, epoch, base sequence


def refusal(
    records: memoryview | None, version: int, transactional_id: str | None
) -> ErrorCode | None:
    """Return why these records are not appended, None if the log may look at them.

    A batch of a transaction can only be written by a request that names its transactional id.
    """
    if records is None:
        return ErrorCode.INVALID_RECORD
    attributes = _attributes(records)
    if attributes is None:
        return None
    if (
        attributes & COMPRESSION_MASK == ZSTD
        and _FIRST_VERSION_WITH_BATCHES <= version < FIRST_VERSION_WITH_ZSTD
    ):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if attributes & TRANSACTIONAL_BIT and transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None


def is_transactional(records: memoryview | None) -> bool:
    """Whether the batch is one of a transaction."""
    attributes = None if records is None else _attributes(records)
    return attributes is not None and bool(attributes & TRANSACTIONAL_BIT)


def _attributes(records: memoryview) -> int | None:
    """The attributes of the first batch; None if it is not whole, or of an older format."""
    if len(records) < _LEAST_SIZE:
        return None
    length, magic, attributes = _unpack_length_magic_attributes(records)
    is_whole = _LEAST_LENGTH <= length <= len(records) - _FRAME_SIZE
    return attributes if magic == MAGIC and is_whole else None


def transactional_batch(records: memoryview) -> TransactionalBatch | None:
    """Return who writes the batch, if it is one of a transaction."""
    if len(records) < HEADER_SIZE or not is_transactional(records):
        return None
    batch = TransactionalBatch(*_unpack_producer(records))
    return batch if batch.producer_id >= 0 else None
