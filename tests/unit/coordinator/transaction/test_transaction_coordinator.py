"""Transactions from a request to the log and back: who is told what, and what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kbroker.coordinator.runtime.coordinator_finder import CoordinatorType
from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.coordinator.transaction.transaction import NOT_STARTED, Transaction, TransactionState
from kbroker.errors import ErrorCode, KafkaError
from kbroker.java_hash import java_hash
from kbroker.model import TRANSACTION_STATE_TOPIC, TopicPartition
from tests.fakes.brokers.group_broker import BROKER_ID, OffsetsLog
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
from tests.golden import golden_logs

Request = Callable[[TransactionBroker, str], Awaitable[object]]
LAST_EPOCH = 0x7FFE

REQUESTS: dict[str, Request] = {
    "init": lambda broker, name: broker.init(name),
    "add": lambda broker, name: broker.coordinator.add_partitions(name, Producer(1000, 0), [A]),
    "end": lambda broker, name: broker.end(Producer(1000, 0), name),
}


# ---- InitProducerId


async def test_each_producer_that_comes_gets_the_next_epoch() -> None:
    broker = TransactionBroker()

    assert await broker.init() == Producer(1000, 0)
    assert await broker.init() == Producer(1000, 1)
    assert await broker.init("y") == Producer(1001, 0)
    assert broker.states() == ["Empty", "Empty", "Empty"]


async def test_one_that_says_who_it_was_is_answered_twice_and_fences_the_other() -> None:
    broker = TransactionBroker()
    first = await broker.init()

    second = await broker.init(expected=first)

    assert second == Producer(1000, 1)
    assert await broker.init(expected=first) == second
    await broker.init(expected=second)
    for old in (first, Producer(2000, 0)):
        assert await code_of(broker.init(expected=old)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1, ErrorCode.INVALID_REQUEST),
        ("", 0, ErrorCode.INVALID_REQUEST),
        ("x", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", 900_000, ErrorCode.NONE),
        ("x" * 32_768, 1, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_what_makes_no_sense_is_refused(name: str, timeout_ms: int, code: ErrorCode) -> None:
    broker = TransactionBroker()

    assert await code_of(broker.init(name, timeout_ms=timeout_ms)) is code

    assert len(broker.listed()[0]) == (code is ErrorCode.NONE)


async def test_an_open_transaction_is_aborted_first_and_its_producer_is_fenced() -> None:
    broker = TransactionBroker()
    old = await broker.begun()

    assert await code_of(broker.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    await turns()
    new = await broker.init()

    assert new == Producer(1000, 2)
    assert broker.states() == ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort", "Empty"]
    (markers,) = broker.markers.sent
    assert (markers.producer, markers.is_commit) == (Producer(1000, 1), False)
    assert await code_of(broker.end(old)) is ErrorCode.PRODUCER_FENCED


async def test_a_producer_that_is_fenced_by_another_is_noted_once() -> None:
    broker = TransactionBroker()
    await broker.begun("x", A)
    assert broker.noted == []

    assert await code_of(broker.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    await turns()
    await broker.init()
    await broker.init()

    assert [event.fields()["producer_epoch"] for event in broker.noted] == [0, 2]
    assert broker.noted[0].cause == "newer_producer"
    assert broker.noted[0].sentence().endswith("its transaction in 1 partition is aborted")
    assert "aborted" not in broker.noted[1].sentence()


async def test_after_the_last_epoch_comes_another_producer_id() -> None:
    broker = TransactionBroker(lead=False)
    used_up = Transaction(
        transactional_id="x",
        producer=Producer(7, LAST_EPOCH),
        timeout_ms=TIMEOUT_MS,
        update_ms=NOW_MS,
    )
    broker.lead(log_of(used_up))

    new = await broker.init(expected=Producer(7, LAST_EPOCH))

    assert new == Producer(1000, 0)
    assert await broker.init(expected=Producer(7, LAST_EPOCH)) == new
    assert await code_of(broker.init(expected=Producer(7, 5))) is ErrorCode.PRODUCER_FENCED


async def test_those_that_come_while_a_producer_id_is_drawn_share_one_entry() -> None:
    broker = TransactionBroker()
    broker.ids.waiting = asyncio.Event()
    both = [asyncio.ensure_future(code_of(broker.init())) for _ in range(2)]
    await turns()

    broker.ids.waiting.set()
    codes = [await each for each in both]

    states = broker.states()
    assert codes.count(ErrorCode.NONE) == len(states) >= 1
    assert set(codes) <= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}
    assert {each.producer.producer_id for each in broker.written() if each} == {1000}


async def test_a_broker_that_resigns_while_a_producer_id_is_drawn_keeps_nothing() -> None:
    broker = TransactionBroker()
    broker.ids.waiting = asyncio.Event()
    waiting = asyncio.ensure_future(code_of(broker.init()))
    await turns()

    broker.resign()
    broker.ids.waiting.set()

    assert await waiting is ErrorCode.NOT_COORDINATOR
    assert broker.states() == []


async def test_without_a_producer_id_nothing_is_kept() -> None:
    broker = TransactionBroker()
    broker.ids.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await code_of(broker.init()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert broker.listed() == ([], [])


# ---- from the first partition to the end


@pytest.mark.parametrize(("is_commit", "name"), [(True, "Commit"), (False, "Abort")])
async def test_a_transaction_ends_when_all_its_partitions_have_their_markers(
    is_commit: bool, name: str
) -> None:
    broker = TransactionBroker()
    producer = await broker.begun("x", A)
    await broker.coordinator.add_partitions("x", producer, [B])
    await broker.coordinator.add_partitions("x", producer, [A, B])  # nothing new
    broker.markers.holds = True

    await broker.end(producer, is_commit=is_commit)
    await turns()

    assert broker.state() == f"Prepare{name}"
    (markers,) = broker.markers.sent
    assert (markers.transactional_id, markers.producer) == ("x", producer)
    assert (markers.partitions, markers.is_commit) == ({A, B}, is_commit)
    assert markers.coordinator_epoch == 0
    for busy in (
        broker.end(producer, is_commit=is_commit),
        broker.end(producer, is_commit=not is_commit),
        broker.init(),
        broker.init(expected=Producer(5, 5)),
        broker.coordinator.add_partitions("x", producer, [A]),
    ):
        assert await code_of(busy) is ErrorCode.CONCURRENT_TRANSACTIONS

    broker.markers.release()
    await turns()

    states = ["Empty", "Ongoing", "Ongoing", f"Prepare{name}", f"Complete{name}"]
    assert broker.states() == states
    assert await code_of(broker.end(producer, is_commit=is_commit)) is ErrorCode.NONE
    other = broker.end(producer, is_commit=not is_commit)
    assert await code_of(other) is ErrorCode.INVALID_TXN_STATE
    assert len(broker.markers.sent) == 1


async def test_one_transaction_follows_the_other_under_one_epoch() -> None:
    broker = TransactionBroker()
    producer = await broker.init()
    for partition in (A, B):
        await broker.coordinator.add_partitions("x", producer, [partition])
        await broker.end(producer)
        await turns()

    assert [markers.partitions for markers in broker.markers.sent] == [{A}, {B}]
    assert broker.state() == "CompleteCommit"


async def test_partitions_are_verified_while_the_transaction_is_open() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    verify = broker.coordinator.verify

    expected = {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify("x", producer, [A, B]) == expected
    await broker.end(producer)
    await turns()
    assert verify("x", producer, [A]) == {A: ErrorCode.TRANSACTION_ABORTABLE}
    for name, asking, code in (
        ("", producer, ErrorCode.INVALID_REQUEST),
        ("y", producer, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("x", Producer(1000, 7), ErrorCode.PRODUCER_FENCED),
    ):
        with pytest.raises(KafkaError) as error:
            verify(name, asking, [A])
        assert error.value.code is code


@pytest.mark.parametrize(
    ("name", "producer", "add", "end"),
    [
        ("", Producer(1000, 0), ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        *(
            (name, producer, code, code)
            for name, producer, code in (
                ("y", Producer(1000, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
                ("x", Producer(1, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
                ("x", Producer(1000, 1), ErrorCode.PRODUCER_FENCED),
            )
        ),
        ("x", Producer(1000, 0), ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    ],
)
async def test_others_are_refused(
    name: str, producer: Producer, add: ErrorCode, end: ErrorCode
) -> None:
    broker = TransactionBroker()
    await broker.init()
    assert await code_of(broker.end(producer, name)) is end
    added = broker.coordinator.add_partitions(name, producer, [A])
    assert await code_of(added) is add


async def test_while_one_decision_is_written_others_wait() -> None:
    broker = TransactionBroker()
    producer = await broker.init()
    broker.replicas.holds = True
    adding = asyncio.ensure_future(broker.coordinator.add_partitions("x", producer, [A]))
    await turns()

    assert broker.state() == "Empty"
    for busy in (
        broker.coordinator.add_partitions("x", producer, [B]),
        broker.end(producer),
        broker.init(),
    ):
        assert await code_of(busy) is ErrorCode.CONCURRENT_TRANSACTIONS
    with pytest.raises(KafkaError, match="CONCURRENT_TRANSACTIONS"):
        broker.coordinator.verify("x", producer, [A])
    broker.replicas.release()
    await adding
    assert broker.state() == "Ongoing"


async def test_a_request_that_is_given_up_ends_the_transaction_all_the_same() -> None:
    broker = TransactionBroker()
    producer = await broker.begun()
    broker.replicas.holds = True
    ending = asyncio.ensure_future(broker.end(producer))
    await turns()
    ending.cancel()
    await turns()
    broker.replicas.holds = False

    broker.replicas.release()
    await turns()

    assert broker.state() == "CompleteCommit"


# ---- where an id is kept


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_only_the_broker_that_leads_the_partition_answers(request_name: str) -> None:
    send = REQUESTS[request_name]
    broker = TransactionBroker(lead=False)
    assert await code_of(send(broker, "x")) is ErrorCode.NOT_COORDINATOR
    broker.lead()
    await broker.init()
    broker.resign()
    assert await code_of(send(broker, "x")) is ErrorCode.NOT_COORDINATOR
    broker.lead()
    assert await code_of(send(broker, "x")) is not ErrorCode.NOT_COORDINATOR
    broker.coordinator.shutdown()
    assert await code_of(send(broker, "x")) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_while_the_partition_is_read_clients_ask_again(
    request_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.coordinator.runtime.sliced_work.SLICE_MS", 0.0)
    broker = TransactionBroker()
    await broker.init()
    broker.resign()
    broker.lead()

    loading = await code_of(REQUESTS[request_name](broker, "x"))

    assert loading is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for ask in (broker.state, broker.listed):
        with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            ask()
    await turns()
    assert broker.state() == "Empty"


async def test_the_partition_of_an_id_is_that_of_its_java_hash() -> None:
    broker = TransactionBroker(partitions=5)
    for name in ("x", "some-id", "ü"):
        await broker.init(name)
        partition = abs(java_hash(name)) % 5
        assert broker.coordinator.partition_for(name) == partition
        newest = broker.written(partition)[-1]
        assert newest is not None
        assert newest.transactional_id == name


async def test_the_coordinator_of_an_id_is_found_and_its_topic_made() -> None:
    broker = TransactionBroker(lead=False)
    find = broker.coordinator.find_coordinator

    found = find(CoordinatorType.TRANSACTION, "x")

    assert await found == BROKER_ID  # type: ignore[misc]
    assert find(CoordinatorType.TRANSACTION, "x") == BROKER_ID


# ---- administration


async def test_ids_are_listed_by_state_producer_and_age() -> None:
    broker = TransactionBroker(partitions=3)
    for name in "abc":
        await broker.init(name)
    producer = await broker.begun("d")
    await broker.pass_time(1000)

    def names(**filters: object) -> tuple[set[str], list[str]]:
        found, unknown = broker.listed(**filters)  # type: ignore[arg-type]
        return {each.transactional_id for each in found}, unknown

    assert names() == (set("abcd"), [])
    assert names(states=["Ongoing"]) == ({"d"}, [])
    assert names(states=["Ongoing", "Odd"]) == ({"d"}, ["Odd"])
    assert names(states=["Odd"]) == (set(), ["Odd"])
    assert names(producer_ids=[producer.producer_id]) == ({"d"}, [])
    assert names(states=["Ongoing"], longer_than_ms=999) == ({"d"}, [])
    assert names(states=["Ongoing"], longer_than_ms=1000) == (set(), [])
    assert names(states=["Ongoing"], longer_than_ms=0) == ({"d"}, [])


async def test_an_id_is_described() -> None:
    broker = TransactionBroker()
    producer = await broker.begun("x", A, B)

    found = broker.coordinator.describe("x")

    assert (found.state, found.producer) == (TransactionState.ONGOING, producer)
    assert (found.partitions, found.timeout_ms) == ({A, B}, TIMEOUT_MS)
    assert found.start_ms == broker.time.now_ms()


@pytest.mark.parametrize(
    ("name", "code"),
    [("", ErrorCode.INVALID_REQUEST), ("y", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)],
)
async def test_an_id_that_is_not_there_is_not_described(name: str, code: ErrorCode) -> None:
    broker = TransactionBroker()
    with pytest.raises(KafkaError) as error:
        broker.coordinator.describe(name)
    assert error.value.code is code


async def test_a_coordinator_that_has_stopped_tells_nothing() -> None:
    broker = TransactionBroker()
    broker.coordinator.shutdown()
    for ask in (broker.state, broker.listed):
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
            ask()


# ---- loading


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
async def test_what_kafka_wrote_is_loaded_and_goes_on(version: str) -> None:
    logs = {
        path: content
        for path, content in golden_logs.files(f"{version}-clean").items()
        if path.startswith(f"{TRANSACTION_STATE_TOPIC}-") and path.endswith(".log")
    }
    count = 1 + max(int(path.split("/")[0].rpartition("-")[2]) for path in logs)
    broker = TransactionBroker(partitions=count, lead=False)
    in_order = sorted(logs, key=lambda path: int(path.split("/")[0].rpartition("-")[2]))
    assert len(in_order) == count

    broker.lead(*(OffsetsLog(logs[path]) for path in in_order))
    await turns()

    found, _ = broker.listed()
    assert len(found) == 16
    (open_one,) = broker.listed(states=["Ongoing"])[0]
    name = open_one.transactional_id
    assert await code_of(broker.init(name)) is ErrorCode.CONCURRENT_TRANSACTIONS
    await turns()
    assert broker.markers.sent[0].partitions == open_one.partitions
    producer = await broker.init(name)
    assert producer == open_one.producer._replace(epoch=open_one.producer.epoch + 2)


async def test_a_tombstone_ends_an_id_also_for_who_loads_it() -> None:
    broker = TransactionBroker(transactional_id_expiration_ms=1000)
    broker.coordinator.start()
    await broker.init()
    await broker.pass_time(3_600_000)
    assert broker.states() == ["Empty", "-"]
    after = broker.restarted()
    assert after.listed() == ([], [])
    assert await after.init(expected=Producer(1000, 0)) == Producer(1001, 0)


async def test_an_id_that_was_only_begun_has_no_start() -> None:
    broker = TransactionBroker()
    await broker.init(expected=NO_PRODUCER)
    assert broker.restarted().coordinator.describe("x").start_ms == NOT_STARTED
    assert TopicPartition(TRANSACTION_STATE_TOPIC, 0) in broker.replicas.logs
