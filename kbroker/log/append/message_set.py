"""Looks at messages and batches before they are opened: where each ends, and how long a conversion
would take.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_rules import BYTE_COSTS, TakesLongError, WorkLimit
from kbroker.record.compression import COMPRESSION_MASK, GZIP
from kbroker.record.legacy_record import HEADER_SIZE_UP_TO_MAGIC
from kbroker.record.record_batch import ATTRIBUTES_POSITION, LOG_OVERHEAD, MAGIC

_LENGTH = Struct(">8xi").unpack_from
_MIN_LENGTH: Final = 14
_MAGIC_POSITION: Final = HEADER_SIZE_UP_TO_MAGIC - 1
_ATTRIBUTES_POSITION: Final = HEADER_SIZE_UP_TO_MAGIC  # of a message of format 0 or 1
_BATCH_ATTRIBUTES_POSITION: Final = ATTRIBUTES_POSITION + 1  # the byte that names the codec
_CONVERSION_COST: Final = 4 * BYTE_COSTS[GZIP]  # records are built, not only walked over


def whole_messages(data: memoryview | bytearray) -> memoryview:
    """Return the messages of an old client, without one that is cut off at the end.
    KafkaError(CORRUPT_MESSAGE) for lengths and formats that cannot be.
    """
    view = memoryview(data)
    end = 0
    while (size := size_of_next(view, end)) is not None:
        end += size
    return view[:end]


def size_of_next(view: memoryview, at: int) -> int | None:
    """How many bytes the message or batch at `at` has; None if it is cut off.
    KafkaError(CORRUPT_MESSAGE) for lengths and formats that cannot be.
    """
    left = len(view) - at
    if left < LOG_OVERHEAD:
        return None
    (length,) = _LENGTH(view, at)
    if length < _MIN_LENGTH:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"message with the length {length}")
    if left < HEADER_SIZE_UP_TO_MAGIC:
        return None
    magic = view[at + _MAGIC_POSITION]
    if magic > MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"message of format {magic}")
    size: int = LOG_OVERHEAD + length
    return size if size <= left else None


def holds_batch(data: memoryview | bytearray) -> bool:
    """True if whole messages begin with a batch of format 2."""
    return len(data) > _MAGIC_POSITION and data[_MAGIC_POSITION] == MAGIC


def check_takes_not_long(data: memoryview | bytearray, limit: WorkLimit) -> None:
    """TakesLongError if the event loop should not convert these messages: they are many, or
    compressed, and so may be more than they look.
    """
    if len(data) <= _BATCH_ATTRIBUTES_POSITION:
        return
    attributes = data[_BATCH_ATTRIBUTES_POSITION if holds_batch(data) else _ATTRIBUTES_POSITION]
    cost = len(data) * _CONVERSION_COST
    if attributes & COMPRESSION_MASK or cost > limit.byte_cost:
        raise TakesLongError
    limit.byte_cost -= cost
