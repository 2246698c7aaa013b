"""What Kafka wrote into __transaction_state, read and written again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kbroker.coordinator.transaction.records import (
    TransactionLogValue,
    expired_record,
    read_transaction,
    read_transaction_log_key,
    read_transaction_log_value,
    transaction_record,
)
from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.errors import ProtocolError
from kbroker.record.record_batch import Record, read_header, records
from tests.golden import golden_logs


def written(version: str) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of all records of __transaction_state, in their order."""
    found: list[tuple[bytes, bytes | None]] = []
    for path, content in sorted(golden_logs.files(f"{version}-clean").items()):
        if path.startswith("__transaction_state-") and path.endswith(".log"):
            found += [(record.key or b"", record.value) for record in records_of(content)]
    return found


def records_of(content: bytes) -> Iterator[Record]:
    position = 0
    while position < len(content):
        yield from records(content, position)
        position += read_header(content, position).size_bytes


def read(key: bytes, value: bytes) -> Transaction:
    return read_transaction(read_transaction_log_key(key).transactional_id, value)


def test_records_of_kafka_3_9_come_out_as_they_were() -> None:
    rows = written("3.9.2")
    assert len(rows) > 15
    for key, value in rows:
        assert value is not None
        assert transaction_record(read(key, value), 0) == (key, value)


@pytest.mark.parametrize("level", [1, 2])
def test_records_of_kafka_4_come_out_as_they_were_but_for_the_order_of_topics(level: int) -> None:
    rows = written("4.3.1")
    assert len(rows) > 15
    for key, value in rows:
        assert value is not None
        again = transaction_record(read(key, value), level)
        assert again.value is not None
        assert (again.key, again.value[:2]) == (key, value[:2])
        assert sorted_topics(again.value) == sorted_topics(value)


def sorted_topics(value: bytes) -> TransactionLogValue:
    found = read_transaction_log_value(value)
    (found.transaction_partitions or []).sort(key=lambda topic: topic.topic)
    return found


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_the_newest_record_of_an_id_tells_its_state(version: str) -> None:
    newest = {key: value for key, value in written(version) if value is not None}
    states = [read(key, value).state for key, value in newest.items()]
    assert states.count(TransactionState.ONGOING) == 1
    assert all(state.is_over for state in states if state is not TransactionState.ONGOING)
    assert len(states) == 16


def test_the_record_of_an_expired_id_has_no_value() -> None:
    key, value = expired_record("x")
    assert read_transaction_log_key(key).transactional_id == "x"
    assert value is None


def test_a_state_that_nobody_knows_is_told() -> None:
    key, value = next((k, v) for k, v in written("3.9.2") if v is not None)
    at = 2 + 8 + 2 + 4  # after version, producer id, epoch, time-out
    with pytest.raises(ProtocolError, match="99 is not a state"):
        read(key, value[:at] + b"\x63" + value[at + 1 :])
