"""Transactions and their producers as administrators see and end them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import Batch
from compat_tests.wire.wire_client import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
    WireClient,
    code,
)

PRODUCER_ID = 1 << 40
NOBODY = -1


def producers(wire: WireClient, topic: str, *partitions: int) -> Any:
    asked = [{"name": topic, "partition_indexes": partitions or (0,)}]
    return wire.call(DESCRIBE_PRODUCERS, 0, topics=asked).topics[0].partitions


def mark(wire: WireClient, topic: str, *partitions: int, **fields: Any) -> list[str]:
    """Write markers; the code of each partition."""
    marker = {
        "producer_id": PRODUCER_ID, "producer_epoch": 3, "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": topic, "partition_indexes": partitions or (0,)}], **fields,
    }  # fmt: skip
    (answer,) = wire.call(WRITE_TXN_MARKERS, 1, markers=[marker]).markers
    found = sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)
    return [code(each.error_code) for each in found]


@pytest.fixture
def transactional_id(wire: WireClient) -> str:
    """An id that has a producer."""
    name = f"x-{uuid.uuid4().hex[:12]}"
    until(lambda: wire.call(FIND_COORDINATOR, 1, key=name, key_type=1).error_code == 0)

    def is_there() -> bool:
        answer = wire.call(INIT_PRODUCER_ID, 1, transactional_id=name, transaction_timeout=60_000)
        return bool(answer.error_code == 0)

    until(is_there, "a producer")
    return name


@pytest.mark.row(94)
def test_an_unknown_id_has_its_own_code(wire: WireClient, transactional_id: str) -> None:
    unknown = transactional_id + "x"

    answer = wire.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=("", unknown))

    found = [(each.transactional_id, code(each.error_code)) for each in answer.transaction_states]
    assert found == [("", "42 INVALID_REQUEST"), (unknown, "105 TRANSACTIONAL_ID_NOT_FOUND")]


@pytest.mark.row(95)
def test_producers_of_a_missing_topic(wire: WireClient) -> None:
    topic = wire.create_topic()

    answers = [
        (code(each.error_code), each.error_message)
        for name in (topic, topic + "x", "a b")
        for each in producers(wire, name, 0, 7)
    ]

    unknown, invalid = "3 UNKNOWN_TOPIC_OR_PARTITION", "17 INVALID_TOPIC_EXCEPTION"
    fault = (
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
        "alphanumerics, '.', '_' and '-'"
    )
    assert answers == [
        ("0", None),
        (unknown, None),
        *[(unknown, "This server does not host this topic-partition.")] * 2,
        *[(invalid, fault)] * 2,
    ]


def test_a_producer_is_told_with_its_last_batch(wire: WireClient) -> None:
    topic = wire.create_topic()
    written = Batch(producer_id=PRODUCER_ID, producer_epoch=3, base_sequence=0, timestamp_ms=12_345)
    wire.produce(topic, written.to_bytes())

    (found,) = producers(wire, topic)[0].active_producers

    assert (found.producer_id, found.producer_epoch, found.last_sequence) == (PRODUCER_ID, 3, 0)
    assert (found.coordinator_epoch, found.current_txn_start_offset) == (-1, -1)


@pytest.mark.row(96)
def test_unknown_states_are_named(wire: WireClient, transactional_id: str) -> None:
    def listed(**fields: Any) -> tuple[str, list[str], bool]:
        values = {"state_filters": (), "producer_id_filters": (), **fields}
        answer = wire.call(LIST_TRANSACTIONS, 1, **values)
        names = {each.transactional_id for each in answer.transaction_states}
        return (
            code(answer.error_code),
            list(answer.unknown_state_filters),
            transactional_id in names,
        )

    assert listed() == ("0", [], True)
    assert listed(state_filters=("Nope", "empty", "Nope")) == ("0", ["Nope", "empty"], False)
    assert listed(state_filters=("Ongoing",)) == ("0", [], False)
    assert listed(state_filters=("Empty", "Dead")) == ("0", [], True)
    assert listed(producer_id_filters=(NOBODY,)) == ("0", [], False)


def test_markers_of_administrators_are_written(wire: WireClient) -> None:
    topic = wire.create_topic()

    said = [
        mark(wire, topic),
        mark(wire, topic, producer_epoch=2),
        mark(wire, topic, coordinator_epoch=-1),
        mark(wire, topic, 0, 9),
        mark(wire, topic, producer_id=NOBODY),
        mark(wire, topic, producer_epoch=NOBODY),
    ]

    assert said == [
        ["0"],
        ["47 INVALID_PRODUCER_EPOCH"],
        ["52 TRANSACTION_COORDINATOR_FENCED"],
        ["0", "3 UNKNOWN_TOPIC_OR_PARTITION"],
        ["-1 UNKNOWN_SERVER_ERROR"],
        ["-1 UNKNOWN_SERVER_ERROR"],
    ]
    (found,) = producers(wire, topic)[0].active_producers
    assert (found.producer_id, found.producer_epoch, found.coordinator_epoch) == (PRODUCER_ID, 3, 0)
