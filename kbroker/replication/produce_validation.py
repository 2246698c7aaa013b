"""Refuses records of a Produce request, where it can, before the log is asked (KIP-98, KIP-110).

Law: looks at two fields of the first batch header, once per partition, because every produce
request pays for it. The log checks the batch itself.
"""

from __future__ import annotations

from struct import Struct

from kbroker.errors import ErrorCode
from kbroker.record.compression import COMPRESSION_MASK, ZSTD
from kbroker.record.record_batch import HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT

_FIRST_VERSION_WITH_BATCHES = 3  # from here on the codec is looked at
_FIRST_VERSION_WITH_ZSTD = 7
_FIRST_VERSION_WITH_ABORTABLE = 11

_unpack_magic_and_attributes = Struct(">16xb4xh").unpack_from


def refusal(
    records: memoryview | None, version: int, transactional_id: str | None
) -> ErrorCode | None:
    """Why these records are not appended, None when the log may look at them.

    Transactions are not served: a batch of one is answered as for a transaction that the
    coordinator does not know. Without a transactional id nobody may have written it.
    """
    if records is None:
        return ErrorCode.INVALID_RECORD
    if len(records) < HEADER_SIZE:
        return None
    magic, attributes = _unpack_magic_and_attributes(records)
    if magic != MAGIC:
        return None
    if attributes & TRANSACTIONAL_BIT:
        if transactional_id is None:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if version >= _FIRST_VERSION_WITH_ABORTABLE:
            return ErrorCode.TRANSACTION_ABORTABLE
        return ErrorCode.INVALID_TXN_STATE
    if (
        attributes & COMPRESSION_MASK == ZSTD
        and _FIRST_VERSION_WITH_BATCHES <= version < _FIRST_VERSION_WITH_ZSTD
    ):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return None
