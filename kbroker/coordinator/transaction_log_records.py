"""The records of `__transaction_state`, as Kafka declares them.

record key   = int16 version (0), transactional id
record value = int16 version, fields        missing (tombstone) when the id has expired
"""

from __future__ import annotations

from struct import Struct as Layout

from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode
from kbroker.protocol.declaration import Struct
from kbroker.protocol.schema import Message, message, wire

STATUS_NAMES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)

_VERSION = Layout(">h")


@message(key=None, versions="0")
class TransactionLogKey(Message):
    """Names a transactional id."""

    transactional_id: str = wire("string", default="")


@message(key=None, versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    """The state of a transactional id. v1: tagged fields (KIP-890)."""

    class PartitionsSchema(Struct):
        """Partitions of one topic that take part."""

        topic: str = wire("string", default="")
        partition_ids: list[int] = wire("[]int32", default=[])

    producer_id: int = wire("int64", default=0)
    previous_producer_id: int = wire("int64", "1+", default=-1, tag=0)
    next_producer_id: int = wire("int64", "1+", default=-1, tag=1)
    producer_epoch: int = wire("int16", default=0)
    next_producer_epoch: int = wire("int16", "1+", default=-1, tag=3)
    transaction_timeout_ms: int = wire("int32", default=0)
    transaction_status: int = wire("int8", default=0)
    transaction_partitions: list[PartitionsSchema] | None = wire(
        "[]PartitionsSchema", nullable="0+", default=[]
    )
    transaction_last_update_timestamp_ms: int = wire("int64", default=0)
    transaction_start_timestamp_ms: int = wire("int64", default=0)
    client_transaction_version: int = wire("int16", "1+", default=0, tag=2)


def read_transaction_log_key(key: bytes) -> TransactionLogKey:
    """The id a record is about. ProtocolError for bytes that are not a key."""
    return decode(TransactionLogKey, _version(key), key, _VERSION.size)[0]


def read_transaction_log_value(value: bytes) -> TransactionLogValue:
    """The state in a record. ProtocolError for bytes that are none."""
    return decode(TransactionLogValue, _version(value), value, _VERSION.size)[0]


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too few for a version")
    version: int = _VERSION.unpack_from(data)[0]
    return version
