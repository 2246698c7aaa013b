"""The records of `__transaction_state`, as Kafka declares them. Pure.

record key   = int16 version (0), transactional id
record value = int16 version, fields        missing (tombstone) when the id has expired
"""

from __future__ import annotations

from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.versioned_record import VERSION_BYTES, version_of, versioned
from kbroker.coordinator.transaction.producer import Producer
from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.errors import ProtocolError
from kbroker.model import NO_PRODUCER_ID, TopicPartition
from kbroker.protocol.codec import decode
from kbroker.protocol.declaration import Struct
from kbroker.protocol.schema import Message, message, wire

_KEY_VERSION = 0
_FIRST_FLEXIBLE = 1  # also the level of transaction.version from which on it is written


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


# ---- writing


def transaction_record(transaction: Transaction, level: int) -> KeyValue:
    """Return the record of a transaction, as Kafka writes it at a level of transaction.version.

    Below level 1 it lacks which producer id comes next, and whether an epoch ended with it.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [
        TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=partitions)
        for topic, partitions in by_topic.items()
    ]
    value = TransactionLogValue(
        producer_id=transaction.producer.producer_id,
        producer_epoch=transaction.producer.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else parts,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    key = _key(transaction.transactional_id)
    if level < _FIRST_FLEXIBLE:
        return KeyValue(key, versioned(value, 0))
    previous = transaction.previous_producer_id
    own = transaction.producer.producer_id
    value.previous_producer_id = own if previous == NO_PRODUCER_ID else previous
    value.next_producer_id = transaction.next_producer_id
    value.client_transaction_version = transaction.client_version
    return KeyValue(key, versioned(value, _FIRST_FLEXIBLE))


def expired_record(transactional_id: str) -> KeyValue:
    return KeyValue(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    key = TransactionLogKey(transactional_id=transactional_id)
    return versioned(key, _KEY_VERSION)


# ---- reading


def read_transaction(transactional_id: str, value: bytes) -> Transaction:
    """The transaction in a record. ProtocolError for bytes that are none."""
    read = read_transaction_log_value(value)
    try:
        state = TransactionState(read.transaction_status)
    except ValueError as error:
        raise ProtocolError(f"{read.transaction_status} is not a state") from error
    return Transaction(
        transactional_id=transactional_id,
        producer=Producer(read.producer_id, read.producer_epoch),
        previous_producer_id=read.previous_producer_id,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in read.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=read.transaction_start_timestamp_ms,
        update_ms=read.transaction_last_update_timestamp_ms,
        client_version=read.client_transaction_version,
        next_producer_id=read.next_producer_id,
    )


def read_transaction_log_key(key: bytes) -> TransactionLogKey:
    """The id a record is about. ProtocolError for bytes that are not a key."""
    return decode(TransactionLogKey, version_of(key), key, VERSION_BYTES)[0]


def read_transaction_log_value(value: bytes) -> TransactionLogValue:
    """The state in a record. ProtocolError for bytes that are none."""
    return decode(TransactionLogValue, version_of(value), value, VERSION_BYTES)[0]
