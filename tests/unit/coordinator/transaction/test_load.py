"""A transaction coordinator reads its log: the newest record of an id counts that can be read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kbroker.coordinator.transaction.producer import Producer
from kbroker.coordinator.transaction.records import expired_record, transaction_record
from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.errors import ErrorCode
from kbroker.record.record_batch import Record, build
from tests.fakes.brokers.group_broker import OffsetsLog
from tests.fakes.brokers.transaction_broker import (
    NOW_MS,
    TIMEOUT_MS,
    A,
    TransactionBroker,
    code_of,
    turns,
)

S = TransactionState
WEEK_MS = 7 * 24 * 3_600_000
Entry = tuple[bytes | None, bytes | None]


def state(name: str, which: TransactionState) -> Transaction:
    return Transaction(
        transactional_id=name,
        producer=Producer(5, 1),
        timeout_ms=TIMEOUT_MS,
        state=which,
        partitions=frozenset({A}) if which in {S.ONGOING, S.PREPARE_COMMIT} else frozenset(),
        start_ms=NOW_MS,
        update_ms=NOW_MS,
    )


def sound(name: str, which: TransactionState, level: int = 0) -> Entry:
    return transaction_record(state(name, which), level)


def broken(name: str) -> Entry:
    """The value says that it is of a version that nobody knows."""
    return expired_record(name).key, b"\0\x63"


def cut(name: str, level: int) -> Entry:
    key, value = sound(name, S.ONGOING, level)
    assert value is not None
    return key, value[:-1]


def gone(name: str) -> Entry:
    return expired_record(name)


def batch(*entries: Entry) -> memoryview:
    records = [Record(at, NOW_MS, *entry) for at, entry in enumerate(entries)]
    return memoryview(bytearray(build(records)))


def log_of(*batches: Sequence[Entry]) -> OffsetsLog:
    log = OffsetsLog()
    for each in batches:
        log.append(batch(*each))
    log.confirm()
    return log


def loaded(log: OffsetsLog) -> TransactionBroker:
    broker = TransactionBroker(
        lead=False,
        transactional_id_expiration_ms=WEEK_MS,
        transaction_remove_expired_transaction_cleanup_interval_ms=1000,
    )
    broker.lead(log)
    return broker


def states(broker: TransactionBroker) -> dict[str, TransactionState]:
    found, _ = broker.listed()
    return {each.transactional_id: each.state for each in found}


def skipped(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.partition(": ")[2] for line in caplog.messages if "skipped" in line]


@pytest.mark.parametrize("level", [0, 2])
def test_the_newest_record_of_an_id_tells_its_state(level: int) -> None:
    log = log_of(
        [sound("x", S.EMPTY, level), sound("y", S.EMPTY, level), sound("x", S.ONGOING, level)],
        [sound("z", S.ONGOING, level), sound("x", S.COMPLETE_ABORT, level)],
    )

    assert states(loaded(log)) == {"x": S.COMPLETE_ABORT, "y": S.EMPTY, "z": S.ONGOING}


def test_a_tombstone_ends_an_id_and_a_later_record_begins_it_again() -> None:
    log = log_of(
        [sound("x", S.EMPTY), sound("y", S.EMPTY), gone("z"), gone("x"), gone("y")],
        [sound("y", S.ONGOING)],
    )

    assert states(loaded(log)) == {"y": S.ONGOING}


@pytest.mark.parametrize("spoiled", [broken("x"), cut("x", 0), cut("x", 2)])
def test_where_the_newest_record_cannot_be_read_the_one_before_counts(
    spoiled: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_of(
        [sound("x", S.EMPTY), sound("y", S.EMPTY), gone("z")],
        [sound("x", S.COMPLETE_COMMIT), spoiled, spoiled],
        [sound("y", S.ONGOING), sound("z", S.EMPTY)],
    )

    with caplog.at_level(logging.WARNING, "kbroker.coordinator"):
        broker = loaded(log)

    assert states(broker) == {"x": S.COMPLETE_COMMIT, "y": S.ONGOING, "z": S.EMPTY}
    (line,) = skipped(caplog)
    assert line.startswith("skipped 2 records, ")


def test_an_id_without_a_record_that_can_be_read_is_not_there() -> None:
    log = log_of([broken("x"), sound("y", S.EMPTY)], [sound("z", S.EMPTY), gone("z"), broken("z")])

    assert states(loaded(log)) == {"y": S.EMPTY}


async def test_nothing_is_forgotten_where_a_record_that_counts_cannot_be_read() -> None:
    old = replace(state("y", S.EMPTY), update_ms=NOW_MS - WEEK_MS)
    broker = loaded(log_of([sound("x", S.ONGOING), broken("x"), transaction_record(old, 0)]))
    broker.coordinator.start()

    await broker.pass_time(20_000)

    assert states(broker)["y"] is S.EMPTY


@pytest.mark.parametrize("last", [sound("x", S.ONGOING), gone("x")])
async def test_a_record_that_another_follows_takes_nothing_with_it(
    last: Entry, caplog: pytest.LogCaptureFixture
) -> None:
    old = replace(state("y", S.EMPTY), update_ms=NOW_MS - WEEK_MS)
    log = log_of([transaction_record(old, 0), broken("x")], [last])

    with caplog.at_level(logging.WARNING, "kbroker.coordinator"):
        broker = loaded(log)
        broker.coordinator.start()
        await broker.pass_time(20_000)

    assert "y" not in states(broker)
    assert skipped(caplog) == []


def test_keys_that_tell_the_same_id_in_other_bytes_are_one_id() -> None:
    key, value = sound("x", S.EMPTY)
    assert key is not None
    longer = key + b"\0"  # bytes behind a message are left alone
    log = log_of([(longer, value), sound("x", S.ONGOING)], [(longer, None)], [sound("y", S.EMPTY)])

    assert states(loaded(log)) == {"y": S.EMPTY}


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\0\0\5x", b"\0\7\0\1x"])
def test_a_record_with_a_broken_key_hides_no_other(
    key: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    value = sound("x", S.EMPTY)[1]

    with caplog.at_level(logging.WARNING, "kbroker.coordinator"):
        broker = loaded(log_of([sound("x", S.EMPTY), (key, value), (key, None), gone("x")],
                               [sound("y", S.EMPTY)]))  # fmt: skip

    assert states(broker) == {"y": S.EMPTY}
    assert len(skipped(caplog)) == 1


async def test_what_is_above_the_high_watermark_waits_until_it_is_confirmed() -> None:
    log = log_of([sound("x", S.ONGOING), sound("y", S.ONGOING)])
    log.append(batch(sound("x", S.PREPARE_COMMIT)))
    broker = loaded(log)

    await broker.pass_time(1000)
    assert broker.markers.sent == []
    assert await code_of(broker.init("x")) is ErrorCode.CONCURRENT_TRANSACTIONS

    log.confirm()
    await broker.pass_time(1000)
    assert [marker.producer for marker in broker.markers.sent] == [Producer(5, 1)]
    assert states(broker) == {"x": S.COMPLETE_COMMIT, "y": S.ONGOING}


async def test_a_partition_that_moves_away_while_it_is_read_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kbroker.coordinator.runtime.sliced_work.SLICE_MS", 0.0)
    broker = loaded(log_of([sound("x", S.EMPTY), broken("x")], [sound("y", S.PREPARE_COMMIT)]))
    broker.resign()
    await turns()

    assert broker.markers.sent == []
    assert broker.listed() == ([], [])
