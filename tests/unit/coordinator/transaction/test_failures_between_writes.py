"""What becomes of a transaction where a record is refused, late or lost, and where markers fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from unittest.mock import patch

import pytest

from kbroker.coordinator.transaction.endings import SEND_AGAIN_MS
from kbroker.coordinator.transaction.producer import Producer
from kbroker.coordinator.transaction.store import LOOK_AGAIN_MS, WRITE_AGAIN_MS
from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.record.record_batch import Record, build
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult
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
from tests.fakes.clusters.replication import Replication

E = ErrorCode
HOME = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
REFUSALS = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.UNKNOWN_SERVER_ERROR: E.UNKNOWN_SERVER_ERROR,
}
LATE = (E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
FENCED = (E.TRANSACTION_COORDINATOR_FENCED, E.INVALID_PRODUCER_EPOCH)

Step = Callable[[TransactionBroker, Producer], Awaitable[object]]
STEPS: dict[str, tuple[Step, list[str]]] = {
    "init": (lambda broker, producer: broker.init(expected=producer), ["Empty"]),
    "add": (
        lambda broker, producer: broker.coordinator.add_partitions("x", producer, [B]),
        ["Ongoing"],
    ),
    "commit": (
        lambda broker, producer: broker.end(producer),
        ["PrepareCommit", "CompleteCommit"],
    ),
    "abort": (
        lambda broker, producer: broker.end(producer, is_commit=False),
        ["PrepareAbort", "CompleteAbort"],
    ),
    "fence": (lambda broker, _: broker.init(), ["PrepareAbort", "CompleteAbort"]),
}


async def before(step: str, **settings: object) -> tuple[TransactionBroker, Producer]:
    """A broker, and a producer for which this step comes next."""
    broker = TransactionBroker(**settings)  # type: ignore[arg-type]
    producer = await (broker.init() if step == "init" else broker.begun())
    return broker, producer


def refused_step(step: str) -> ErrorCode:
    """How a step ends where all goes well."""
    return E.CONCURRENT_TRANSACTIONS if step == "fence" else E.NONE


# ---- refused


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("refusal", "told"), REFUSALS.items())
async def test_what_the_log_refuses_never_was_and_can_be_asked_for_again(
    step: str, refusal: ErrorCode, told: ErrorCode
) -> None:
    broker, producer = await before(step)
    states, state = broker.states(), broker.state()
    send, written = STEPS[step]
    broker.replicas.error = refusal

    assert await code_of(send(broker, producer)) is told

    assert (broker.states(), broker.state(), broker.markers.sent) == (states, state, [])
    broker.replicas.error = E.NONE
    assert await code_of(send(broker, producer)) is refused_step(step)
    await turns()
    assert broker.states() == [*states, *written]


async def test_a_refused_fence_holds_off_the_producer_and_takes_no_second_epoch() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.replicas.error = E.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert await code_of(broker.init()) is E.COORDINATOR_NOT_AVAILABLE
    broker.replicas.error = E.NONE

    fenced = broker.coordinator.add_partitions("x", producer, [B])

    assert await code_of(fenced) is E.PRODUCER_FENCED
    assert await code_of(broker.end(producer)) is E.PRODUCER_FENCED
    assert await code_of(broker.init()) is E.CONCURRENT_TRANSACTIONS
    await turns()
    assert [markers.producer.epoch for markers in broker.markers.sent] == [1]
    assert (await broker.init()).epoch == 2


async def test_after_a_fence_that_was_stored_the_next_one_takes_another_epoch() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.replicas.error = E.NOT_ENOUGH_REPLICAS
    await code_of(broker.init())
    broker.replicas.error = E.NONE
    await code_of(broker.init())
    await turns()
    producer = await broker.begun()

    await code_of(broker.init())
    await turns()

    assert broker.markers.sent[-1].producer.epoch == producer.epoch + 1


async def test_the_last_record_is_written_until_it_is_stored() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.markers.holds = True
    await broker.end(producer)
    await turns()
    broker.replicas.error = E.NOT_ENOUGH_REPLICAS
    broker.markers.release()
    await broker.pass_time(3 * WRITE_AGAIN_MS)
    assert broker.state() == "PrepareCommit"
    assert await code_of(broker.init()) is E.CONCURRENT_TRANSACTIONS

    broker.replicas.error = E.NONE
    await broker.pass_time(WRITE_AGAIN_MS)

    assert broker.states()[2:] == ["PrepareCommit", "CompleteCommit"]
    assert len(broker.markers.sent) == 1


async def test_what_stands_in_line_behind_a_refused_record_is_written_all_the_same() -> None:
    broker = TransactionBroker()
    first, second = await broker.init("x"), await broker.init("y")
    checked = asyncio.get_running_loop().create_future()
    with patch.object(broker.replicas, "append_records", lambda *_: AppendOutcome([], checked)):
        adding = [
            asyncio.ensure_future(code_of(broker.coordinator.add_partitions(name, producer, [A])))
            for name, producer in (("x", first), ("y", second))
        ]
        await turns()
    assert broker.state("y") == "Empty"

    checked.set_result([PartitionProduceResult(HOME, E.NOT_ENOUGH_REPLICAS)])

    assert [await each for each in adding] == [E.COORDINATOR_NOT_AVAILABLE, E.NONE]
    assert (broker.state("x"), broker.state("y")) == ("Empty", "Ongoing")
    assert await code_of(broker.coordinator.add_partitions("x", first, [A])) is E.NONE


# ---- late


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("late", LATE)
async def test_what_is_not_confirmed_in_time_holds_when_enough_replicas_have_it(
    step: str, late: ErrorCode
) -> None:
    broker, producer = await before(step)
    states, state = broker.states(), broker.state()
    send, written = STEPS[step]
    broker.replicas.holds = True
    asking = asyncio.ensure_future(code_of(send(broker, producer)))
    await turns()

    broker.replicas.release(late)

    assert await asking is E.COORDINATOR_NOT_AVAILABLE
    broker.replicas.holds = False
    await broker.pass_time(3 * LOOK_AGAIN_MS)
    assert (broker.state(), broker.markers.sent) == (state, [])
    assert await code_of(send(broker, producer)) in (E.CONCURRENT_TRANSACTIONS, E.PRODUCER_FENCED)
    broker.log().confirm()
    await broker.pass_time(LOOK_AGAIN_MS)
    assert broker.states() == [*states, *written]
    assert broker.state() == written[-1]
    assert len(broker.markers.sent) == (written[-1].startswith("Complete"))


async def test_a_last_record_that_is_late_is_not_written_twice() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.markers.holds = True
    await broker.end(producer)
    await turns()
    broker.replicas.holds = True
    broker.markers.release()
    await turns()

    broker.replicas.release(E.REQUEST_TIMED_OUT)
    await broker.pass_time(3 * WRITE_AGAIN_MS)

    assert broker.state() == "PrepareCommit"
    broker.log().confirm()
    await broker.pass_time(LOOK_AGAIN_MS)
    assert broker.state() == "CompleteCommit"
    assert broker.states()[2:] == ["PrepareCommit", "CompleteCommit"]


# ---- resigned in the middle


@pytest.mark.parametrize("step", STEPS)
async def test_who_waits_for_replicas_is_sent_to_the_next_coordinator(step: str) -> None:
    broker, producer = await before(step)
    send, written = STEPS[step]
    broker.replicas.holds = True
    asking = asyncio.ensure_future(code_of(send(broker, producer)))
    await turns()

    broker.resign()

    assert await asking is E.NOT_COORDINATOR
    broker.replicas.release()  # too late for anybody
    await broker.pass_time(10 * WRITE_AGAIN_MS)
    assert broker.markers.sent == []
    after = broker.restarted()  # with the record: it was in the log
    await turns()
    assert after.state() == written[-1]


@pytest.mark.parametrize("late", LATE)
async def test_what_is_late_is_looked_after_by_the_next_coordinator(late: ErrorCode) -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.replicas.holds = True
    asking = asyncio.ensure_future(code_of(broker.end(producer)))
    await turns()
    broker.replicas.release(late)
    assert await asking is E.COORDINATOR_NOT_AVAILABLE

    broker.resign()
    broker.log().confirm()
    await broker.pass_time(10 * LOOK_AGAIN_MS)

    assert broker.markers.sent == []
    broker.replicas.holds = False
    broker.lead(epoch=4)
    await turns()
    assert broker.state() == "CompleteCommit"
    assert [markers.coordinator_epoch for markers in broker.markers.sent] == [4]


async def test_markers_under_way_are_called_off_and_sent_again_by_the_next_coordinator() -> None:
    broker = TransactionBroker()
    producer = await broker.begun("x", A, B)
    broker.markers.holds = True
    await broker.end(producer)
    await turns()

    broker.resign()
    await turns()

    assert broker.markers.cancelled == broker.markers.sent
    broker.markers.release()
    await broker.pass_time(10 * WRITE_AGAIN_MS)
    assert broker.states()[2:] == ["PrepareCommit"]
    after = broker.restarted()
    await turns()
    (markers,) = after.markers.sent
    assert (markers.coordinator_epoch, markers.partitions) == (1, {A, B})
    assert after.states()[2:] == ["PrepareCommit", "CompleteCommit"]


async def test_a_last_record_that_waits_to_be_written_again_is_left_to_the_next_one() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.markers.holds = True
    await broker.end(producer)
    await turns()
    broker.replicas.error = E.NOT_ENOUGH_REPLICAS
    broker.markers.release()
    await turns()

    broker.resign()
    broker.replicas.error = E.NONE
    broker.lead(epoch=2)
    broker.markers.holds = True
    await broker.pass_time(3 * WRITE_AGAIN_MS)

    assert broker.states()[2:] == ["PrepareCommit"]
    broker.markers.release()
    await turns()
    assert broker.states()[2:] == ["PrepareCommit", "CompleteCommit"]


async def test_a_last_record_that_is_not_confirmed_before_the_end_of_the_reign_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.markers.holds = True
    await broker.end(producer)
    await turns()
    broker.replicas.holds = True
    broker.markers.release()
    await turns()

    broker.resign()
    await turns()

    assert broker.states()[3:] == ["CompleteCommit"]
    assert caplog.messages == []


async def test_a_broker_that_stops_leaves_nothing_running() -> None:
    broker = TransactionBroker()
    broker.coordinator.start()
    producer = await broker.begun()
    await broker.begun("y")
    broker.markers.holds = True
    await broker.end(producer)
    broker.replicas.holds = True
    asking = asyncio.ensure_future(code_of(broker.init("y")))
    await turns()

    broker.coordinator.shutdown()
    await turns()

    assert await asking is E.NOT_COORDINATOR
    assert broker.time.armed() == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


# ---- logs that end early


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("count", range(1, 5))
async def test_who_loads_the_log_goes_on_where_it_ends(count: int, is_commit: bool) -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    await broker.end(producer, is_commit=is_commit)
    await turns()
    assert len(broker.states()) == 4

    after = broker.restarted(records=count)
    await turns()

    is_decided = count >= 3
    assert len(after.markers.sent) == (count == 3)
    assert all(markers.is_commit == is_commit for markers in after.markers.sent)
    if count == 1:
        await after.coordinator.add_partitions("x", producer, [A])
    if not is_decided:
        await after.end(producer, is_commit=is_commit)
        await turns()
    assert after.states() == broker.states()
    assert await code_of(after.end(producer, is_commit=is_commit)) is E.NONE


@pytest.mark.parametrize("is_commit", [True, False])
async def test_no_marker_is_sent_for_a_loaded_record_that_could_still_be_lost(
    is_commit: bool,
) -> None:
    before = TransactionBroker()
    producer = await before.begun()
    before.markers.holds = True
    await before.end(producer, is_commit=is_commit)
    log = log_of(*[each for each in before.written() if each])
    log.high_watermark = log.log_end_offset - 1
    broker = TransactionBroker(lead=False)

    broker.lead(log)
    await broker.pass_time(5 * LOOK_AGAIN_MS)

    assert broker.markers.sent == []
    ending = broker.end(producer, is_commit=is_commit)
    assert await code_of(ending) is E.CONCURRENT_TRANSACTIONS
    log.confirm()
    await broker.pass_time(LOOK_AGAIN_MS)
    assert len(broker.markers.sent) == 1
    assert broker.state() == ("CompleteCommit" if is_commit else "CompleteAbort")


async def test_a_partition_that_a_lost_record_may_name_is_not_said_to_take_part() -> None:
    before = TransactionBroker()
    producer = await before.begun()
    log = log_of(*[each for each in before.written() if each])
    log.high_watermark = 1
    broker = TransactionBroker(lead=False)
    broker.lead(log)

    adding = broker.coordinator.add_partitions("x", producer, [A])
    assert await code_of(adding) is E.CONCURRENT_TRANSACTIONS
    with pytest.raises(KafkaError, match="CONCURRENT_TRANSACTIONS"):
        broker.coordinator.verify("x", producer, [A])

    log.confirm()
    await broker.pass_time(LOOK_AGAIN_MS)
    assert broker.coordinator.verify("x", producer, [A]) == {A: E.NONE}


async def test_a_prepared_transaction_without_partitions_needs_no_marker() -> None:
    prepared = Transaction(
        transactional_id="x",
        producer=Producer(5, 1),
        timeout_ms=TIMEOUT_MS,
        state=TransactionState.PREPARE_COMMIT,
        start_ms=NOW_MS,
        update_ms=NOW_MS,
    )
    broker = TransactionBroker(lead=False)
    broker.lead(log_of(prepared))
    await turns()
    assert (broker.markers.sent, broker.state()) == ([], "CompleteCommit")


async def test_the_newest_record_counts_and_what_cannot_be_read_does_not() -> None:
    broker = TransactionBroker()
    await broker.begun("x")
    await broker.init("y")
    log = log_of(*[each for each in broker.written() if each], "y")
    for key, value in ((None, b"v"), (b"\x00", b"v"), (b"\x00\x00\x00\x01x", b"\x00\x63")):
        log.append(memoryview(bytearray(build([Record(0, NOW_MS, key, value)]))))
    log.confirm()

    after = TransactionBroker(lead=False)
    after.lead(log)
    await turns()

    listed, _ = after.listed()
    assert [(each.transactional_id, each.state.label) for each in listed] == [("x", "Ongoing")]


# ---- markers that fail


@pytest.mark.parametrize("error", [KafkaError(E.UNKNOWN_SERVER_ERROR), RuntimeError("bug")])
async def test_markers_that_could_not_be_sent_are_sent_again(error: Exception) -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.markers.errors = [error] * 2
    await broker.end(producer)
    await broker.pass_time(SEND_AGAIN_MS / 2)
    assert len(broker.markers.sent) == 1

    await broker.pass_time(2 * SEND_AGAIN_MS)

    assert len(broker.markers.sent) == 3
    assert broker.state() == "CompleteCommit"


@pytest.mark.parametrize("code", FENCED)
async def test_a_coordinator_that_was_replaced_writes_nothing_more(code: ErrorCode) -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.markers.errors = [KafkaError(code)]

    await broker.end(producer)
    await broker.pass_time(10 * SEND_AGAIN_MS)

    assert broker.states()[2:] == ["PrepareCommit"]
    assert len(broker.markers.sent) == 1
    assert await code_of(broker.init()) is E.CONCURRENT_TRANSACTIONS


async def test_one_that_leads_under_a_newer_epoch_sends_its_markers_under_that() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.markers.holds = True
    await broker.end(producer)
    await turns()
    broker.lead(epoch=3)
    broker.markers.fail(KafkaError(E.TRANSACTION_COORDINATOR_FENCED))
    await turns()
    broker.markers.release()
    await turns()

    assert [markers.coordinator_epoch for markers in broker.markers.sent] == [0, 3]
    assert broker.state() == "CompleteCommit"


# ---- many


async def test_what_is_asked_for_until_it_is_done_is_done_once_in_the_log() -> None:
    broker = TransactionBroker(mode=Replication.FAILING)
    names = [f"x{number}" for number in range(6)]
    committed = dict.fromkeys(names, 0)

    async def produce(name: str) -> None:
        for _ in range(5):
            await one_transaction(broker, name)
            committed[name] += 1

    await asyncio.gather(*map(produce, names))
    for _ in range(10):
        confirm(broker)
        await broker.pass_time(WRITE_AGAIN_MS)

    assert set(committed.values()) == {5}
    assert {broker.state(name) for name in names} == {"CompleteCommit"}
    for name in names:
        of_name = [each for each in broker.written() if each and each.transactional_id == name]
        states = [each.state.label for each in of_name]
        assert states.count("PrepareCommit") == states.count("CompleteCommit") == 5
        after = broker.restarted()
        assert after.coordinator.describe(name) == broker.coordinator.describe(name)


async def one_transaction(broker: TransactionBroker, name: str) -> None:
    """Commit one, asking for each step until it is done."""
    producers: list[Producer] = []

    async def init() -> None:
        producers.append(await broker.init(name))

    await until_done(broker, init)
    (producer,) = producers
    await until_done(broker, lambda: broker.coordinator.add_partitions(name, producer, [A, B]))
    await until_done(broker, lambda: broker.end(producer, name))


async def until_done(broker: TransactionBroker, ask: Callable[[], Awaitable[None]]) -> None:
    while (code := await code_of(ask())) is not E.NONE:
        assert code in (E.COORDINATOR_NOT_AVAILABLE, E.CONCURRENT_TRANSACTIONS)
        await turns()
        confirm(broker)
        broker.time.advance(WRITE_AGAIN_MS)
        await turns()


def confirm(broker: TransactionBroker) -> None:
    """The replicas catch up, though nobody waits for them."""
    if not broker.replicas.held:
        broker.log().confirm()
