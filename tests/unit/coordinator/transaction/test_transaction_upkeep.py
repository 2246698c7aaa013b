"""Transactions out of time are aborted, and ids that nobody uses are forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kbroker.coordinator.transaction.producer import Producer
from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.errors import ErrorCode
from kbroker.record.record_batch import Record, build
from tests.fakes.brokers.transaction_broker import (
    NOW_MS,
    TIMEOUT_MS,
    A,
    B,
    TransactionBroker,
    code_of,
    log_of,
    turns,
)

INTERVAL_MS = 10_000
EXPIRY_INTERVAL_MS = 3_600_000
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
S = TransactionState
RARELY = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": EXPIRY_INTERVAL_MS}
DAILY = {
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": DAY_MS,
    "transaction_remove_expired_transaction_cleanup_interval_ms": DAY_MS,
}
SETTINGS = {**RARELY, "transactional_id_expiration_ms": EXPIRY_INTERVAL_MS // 2}


def started(**settings: object) -> TransactionBroker:
    broker = TransactionBroker(**settings)  # type: ignore[arg-type]
    broker.coordinator.start()
    return broker


def kept(name: str, state: TransactionState = S.EMPTY) -> Transaction:
    return Transaction(
        transactional_id=name,
        producer=Producer(5, 1),
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=frozenset({A}) if state is S.ONGOING else frozenset(),
        start_ms=NOW_MS,
        update_ms=NOW_MS,
    )


# ---- time-outs


async def test_a_transaction_out_of_time_is_aborted_and_its_producer_fenced() -> None:
    broker = started()
    producer = await broker.begun("x", A, B)
    await broker.pass_time(TIMEOUT_MS)
    assert broker.state() == "Ongoing"

    await broker.pass_time(INTERVAL_MS)

    (markers,) = broker.markers.sent
    assert (markers.producer, markers.is_commit) == (Producer(1000, 1), False)
    assert (markers.partitions, broker.state()) == ({A, B}, "CompleteAbort")
    for late in (broker.end(producer), broker.coordinator.add_partitions("x", producer, [A])):
        assert await code_of(late) is ErrorCode.PRODUCER_FENCED
    assert await code_of(broker.init(expected=producer)) is ErrorCode.PRODUCER_FENCED
    assert await broker.init() == Producer(1000, 2)


async def test_a_transaction_out_of_time_is_noted_with_its_time() -> None:
    broker = started()
    await broker.begun("x", A, B)

    await broker.pass_time(TIMEOUT_MS)
    await broker.pass_time(INTERVAL_MS)

    (event,) = broker.noted
    assert (event.name, event.cause) == ("producer_fenced", "timed_out")
    assert f"was open for over {TIMEOUT_MS:,} ms" in event.sentence()
    assert event.sentence().endswith("its transaction in 2 partitions is aborted")


async def test_each_has_its_own_time() -> None:
    broker = started()
    for name, timeout_ms in (("short", 15_000), ("long", 500_000)):
        producer = await broker.init(name, timeout_ms=timeout_ms)
        await broker.coordinator.add_partitions(name, producer, [A])
    await broker.init("idle", timeout_ms=1)

    await broker.pass_time(2 * INTERVAL_MS)

    states = {name: broker.state(name) for name in ("short", "long", "idle")}
    assert states == {"short": "CompleteAbort", "long": "Ongoing", "idle": "Empty"}


async def test_time_is_counted_from_the_first_partition_also_by_the_next_coordinator() -> None:
    broker = TransactionBroker()
    producer = await broker.begun("x", A)
    await broker.pass_time(TIMEOUT_MS)
    await broker.coordinator.add_partitions("x", producer, [B])

    after = broker.restarted()
    after.coordinator.start()
    await after.pass_time(INTERVAL_MS)

    assert after.state() == "CompleteAbort"


async def test_an_abort_that_is_refused_is_tried_at_the_next_look() -> None:
    broker = started()
    await broker.begun()
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS
    await broker.pass_time(TIMEOUT_MS + 5 * INTERVAL_MS)
    assert broker.states()[2:] == []

    broker.replicas.error = ErrorCode.NONE
    await broker.pass_time(INTERVAL_MS)

    assert broker.states()[2:] == ["PrepareAbort", "CompleteAbort"]
    assert broker.markers.sent[0].producer.epoch == 1


async def test_a_transaction_whose_end_is_being_written_is_left_alone() -> None:
    broker = started()
    producer = await broker.begun()
    broker.replicas.holds = True
    ending = asyncio.ensure_future(code_of(broker.end(producer)))

    await broker.pass_time(TIMEOUT_MS + 5 * INTERVAL_MS)
    broker.replicas.holds = False
    broker.replicas.release()

    assert await ending is ErrorCode.NONE
    await turns()
    assert broker.states()[2:] == ["PrepareCommit", "CompleteCommit"]


# ---- expiry


async def test_an_id_that_nobody_uses_is_forgotten() -> None:
    broker = started(**SETTINGS)
    await broker.init("old")
    ended = await broker.begun("ended")
    await broker.end(ended, "ended")
    await broker.begun("open")
    await broker.pass_time(EXPIRY_INTERVAL_MS // 2 + 1)
    await broker.init("young")

    await broker.pass_time(EXPIRY_INTERVAL_MS // 2)

    found, _ = broker.listed()
    assert {each.transactional_id for each in found} == {"young", "open"}
    assert broker.states().count("-") == 2


async def test_the_default_is_a_week() -> None:
    broker = started(**RARELY)
    await broker.init()
    for _ in range(2):
        await broker.pass_time(WEEK_MS / 2 - 1)
    assert broker.state() == "Empty"
    await broker.pass_time(EXPIRY_INTERVAL_MS)
    assert broker.listed() == ([], [])
    assert await broker.init(expected=Producer(1000, 0)) == Producer(1001, 0)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT, S.ONGOING])
async def test_many_ids_expire_in_several_writes(state: TransactionState) -> None:
    broker = TransactionBroker(lead=False, **DAILY)
    names = [f"x{number}" for number in range(1201)]
    broker.lead(log_of(*(replace(kept(name, state), timeout_ms=2 * WEEK_MS) for name in names)))
    before = len(broker.log().batches())
    broker.coordinator.start()

    await broker.pass_time(WEEK_MS + DAY_MS)

    found, _ = broker.listed()
    assert len(found) == (0 if state.is_over else len(names))
    sizes = [len(records) for _, records in broker.log().batches()[before:]]
    assert sizes == ([500, 500, 201] if state.is_over else [])
    listed, _ = broker.restarted().listed()
    assert len(listed) == len(found)


async def test_tombstones_that_are_refused_are_written_at_the_next_look() -> None:
    broker = started(**SETTINGS)
    producer = await broker.init()
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS
    await broker.pass_time(EXPIRY_INTERVAL_MS)
    assert (broker.states(), broker.state()) == (["Empty"], "Empty")
    assert await code_of(broker.init()) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    broker.replicas.error = ErrorCode.NONE
    await broker.pass_time(EXPIRY_INTERVAL_MS)

    assert broker.states() == ["Empty", "-"]
    added = broker.coordinator.add_partitions("x", producer, [A])
    assert await code_of(added) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_an_id_whose_record_is_on_its_way_is_not_forgotten() -> None:
    broker = started(**SETTINGS)
    producer = await broker.init()
    broker.replicas.holds = True
    adding = asyncio.ensure_future(broker.coordinator.add_partitions("x", producer, [A]))

    await broker.pass_time(EXPIRY_INTERVAL_MS)
    broker.replicas.holds = False
    broker.replicas.release()
    await adding

    assert broker.state() == "Ongoing"
    assert "-" not in broker.states()


async def test_an_id_that_is_kept_elsewhere_by_now_is_not_forgotten_here() -> None:
    broker = started(**SETTINGS)
    await broker.init()
    broker.resign()
    await broker.pass_time(EXPIRY_INTERVAL_MS)
    assert broker.states() == ["Empty"]
    broker.lead()
    assert broker.state() == "Empty"


async def test_nothing_is_forgotten_that_could_not_be_read_completely() -> None:
    log = log_of(replace(kept("x"), update_ms=NOW_MS - WEEK_MS))
    log.append(memoryview(bytearray(build([Record(0, NOW_MS, b"\x00\x63", b"")]))))
    log.confirm()
    broker = TransactionBroker(lead=False, **RARELY)
    broker.lead(log)
    broker.coordinator.start()

    await broker.pass_time(WEEK_MS - 1)
    assert broker.state("x") == "Empty"
    await broker.pass_time(EXPIRY_INTERVAL_MS)
    assert broker.listed() == ([], [])
