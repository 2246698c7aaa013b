"""What a Produce request may hold for a partition, as far as that can be told before the log is asked (KIP-98).

Law: looks at the first batch header only, once per partition. The log checks the batch itself.
"""

from __future__ import annotations

from struct import Struct

from kbroker.errors import ErrorCode
from kbroker.record.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
)

_FIRST_VERSION_WITH_ZSTD = 7
_FIRST_VERSION_WITH_ABORTABLE = 11
_COMPRESSION_MASK = 0x07
_ZSTD = 4
_MIN_LENGTH = 14  # the shortest message of the oldest format, after offset and length

# Base offset, length, leader epoch, magic, CRC, attributes: what stands in front of every format 2 batch.
_unpack_front = Struct(">8xi4xb4xh").unpack_from


def refusal(
    records: memoryview | None, version: int, transactional_id: str | None
) -> ErrorCode | None:
    """Why these records cannot be appended, None when the log may look at them.

    INVALID_RECORD: no batch, more than one, an older format, or one cut short. CORRUPT_MESSAGE: no batch at all.
    Transactions are not served: a batch of one is answered as for a transaction that the coordinator does not know.
    """
    if records is None:
        return ErrorCode.INVALID_RECORD
    size = len(records)
    if size < HEADER_SIZE:
        return _refusal_of_short(records)
    length, magic, attributes = _unpack_front(records)
    if length < _MIN_LENGTH or magic > MAGIC or magic < 0:
        return ErrorCode.CORRUPT_MESSAGE
    if magic != MAGIC or size != length + LOG_OVERHEAD:
        return ErrorCode.INVALID_RECORD
    if attributes & _COMPRESSION_MASK == _ZSTD and version < _FIRST_VERSION_WITH_ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if attributes & TRANSACTIONAL_BIT:
        return refusal_of_transaction(version, transactional_id)
    return None


def refusal_of_transaction(version: int, transactional_id: str | None) -> ErrorCode:
    """The answer to a transactional batch; without a transactional id nobody may have written it."""
    if transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if version >= _FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return ErrorCode.INVALID_TXN_STATE


def _refusal_of_short(records: memoryview) -> ErrorCode:
    """Fewer bytes than the header of format 2: an old or cut message, or nothing that is a batch."""
    if len(records) <= MAGIC_POSITION:
        return ErrorCode.INVALID_RECORD
    length = int.from_bytes(records[8:LOG_OVERHEAD], "big", signed=True)
    is_whole = len(records) >= length + LOG_OVERHEAD
    if length < _MIN_LENGTH or (is_whole and not 0 <= records[MAGIC_POSITION] < MAGIC):
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.INVALID_RECORD
