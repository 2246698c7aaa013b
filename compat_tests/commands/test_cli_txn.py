"""Transactions as `kbroker txn` shows and ends them, on kbroker and on Apache Kafka."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from compat_tests.clients.hanging_transactions import UNVERIFIED, hang
from compat_tests.commands.command_line import (
    FINE,
    ITEM_FAILED,
    USAGE,
    Run,
    interrupted,
    run,
    started,
)
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import WireClient

APACHE = [apache_kafka.ZOOKEEPER_LINE, apache_kafka.NEWEST]
PRODUCER_ID = 4711
WAIT_S = 30.0


@pytest.fixture(
    scope="module", params=["kbroker", *(pytest.param(v, marks=pytest.mark.java) for v in APACHE)]
)
def bootstrap(
    request: pytest.FixtureRequest, target: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of a broker that takes transactional records unverified."""
    if target != "kbroker":
        pytest.skip("starts brokers of its own")
    if request.param in APACHE:
        with apache_kafka.broker(request.param, dict([UNVERIFIED.split("=")])) as (address, _):
            yield address
        return
    broker = BrokerProcess(
        tmp_path_factory.mktemp("unverified") / "data", ("--override", UNVERIFIED)
    )
    broker.start()
    yield broker.bootstrap
    broker.stop()
    assert "Traceback" not in broker.log_text()


@pytest.fixture
def wire(bootstrap: str) -> Iterator[WireClient]:
    client = WireClient(bootstrap)
    yield client
    client.close()


@pytest.fixture
def kbroker(bootstrap: str) -> Run:
    return partial(run, "txn", bootstrap=bootstrap)


@pytest.fixture
def topic(wire: WireClient) -> str:
    """With one record outside of transactions."""
    name = wire.create_topic()
    wire.produce(name, batch(1))
    return name


@pytest.fixture
def transactional_id() -> str:
    return f"tx-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def producer(bootstrap: str, transactional_id: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    made.init_transactions(WAIT_S)
    return made


def begin(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction", partition=0)
    assert producer.flush(WAIT_S) == 0


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def values(bootstrap: str, topic: str) -> list[str]:
    """The values that a reader with read_committed finds up to the end."""
    read = run("consume", topic, bootstrap=bootstrap)
    assert read.code == FINE, read.err
    return read.lines()


def test_an_open_transaction_is_listed_and_described_until_it_ends(
    kbroker: Run, producer: Producer, transactional_id: str, topic: str
) -> None:
    begin(producer, topic)
    listed = rows(kbroker("list", "--state", "ongoing", "--output", "jsonl").out)
    (described,) = rows(kbroker("describe", transactional_id, "--output", "jsonl").out)
    longer = rows(kbroker("list", "--longer-than", "1ms", "--output", "jsonl").out)
    none = kbroker("list", "--longer-than", "1d")
    (state,) = rows(kbroker("producers", topic, "--output", "jsonl").out)
    producer.commit_transaction(WAIT_S)
    (after,) = rows(kbroker("describe", transactional_id, "--output", "jsonl").out)
    # A commit is answered before the partitions have it.
    until(lambda: "0 open transactions" in kbroker("producers", topic).err)

    (mine,) = [row for row in listed if row["transactional_id"] == transactional_id]
    assert described["producer_id"] == mine["producer_id"] == state["producer_id"]
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
    assert described["timeout_ms"] == 60_000
    assert described["open_s"] < WAIT_S
    (mine,) = [row for row in longer if row["transactional_id"] == transactional_id]
    assert mine["start_ms"] == described["start_ms"]
    assert (none.code, none.out, none.err) == (FINE, "", "no transactional ids like that\n")
    assert (state["last_sequence"], state["transaction_start_offset"]) == (0, 1)
    assert after["state"] in ("PrepareCommit", "CompleteCommit")


def test_who_reads_hears_where_a_transaction_is_open(
    bootstrap: str, producer: Producer, transactional_id: str, topic: str
) -> None:
    read, group = partial(run, "consume", topic, bootstrap=bootstrap), f"g-{transactional_id}"
    begin(producer, topic)
    alone, in_a_group = read(), read("--group", group)
    one, before, all_of_it = (
        read("--count", "1"), read("--to", "1"), read("--isolation", "read_uncommitted"),
    )  # fmt: skip
    held = run("group", "describe", group, bootstrap=bootstrap)
    copied = run("topic", "copy", topic, f"{topic}-copy", bootstrap=bootstrap)
    producer.commit_transaction(WAIT_S)
    until(lambda: not read().err)  # a commit is answered before the partitions have it
    freed = run("group", "describe", group, bootstrap=bootstrap)

    said = (
        f"{topic}-0 has an open transaction at offset 1: read_committed waits there "
        f"(`kbroker txn producers {topic}`)\n"
    )
    assert (alone.code, alone.err) == (in_a_group.code, in_a_group.err) == (FINE, said)
    assert held.err == f"group {group} is Empty: 0 members, lag 1\n{said}"
    assert copied.err.endswith(f"1 record copied from {topic} to {topic}-copy\n{said}")
    assert not one.err + before.err + all_of_it.err
    assert freed.err == f"group {group} is Empty: 0 members, lag 2\n"


def test_who_follows_hears_where_a_transaction_stays_open_and_reads_on(
    bootstrap: str, producer: Producer, topic: str
) -> None:
    begin(producer, topic)
    with started("consume", topic, "--follow", bootstrap=bootstrap) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        before = following.stdout.readline()
        said = following.stderr.readline()
        producer.commit_transaction(WAIT_S)
        after = following.stdout.readline()
        done = interrupted(following)

    assert before
    assert said.startswith(f"{topic}-0 has an open transaction at offset 1: read_committed waits ")
    assert after == "in a transaction\n"
    assert (done.code, done.err) == (FINE, "")


def test_ids_are_found_by_their_producers(
    kbroker: Run, producer: Producer, transactional_id: str
) -> None:
    (described,) = rows(kbroker("describe", transactional_id, "--output", "jsonl").out)
    number = str(described["producer_id"])

    listed = rows(kbroker("list", "--producer-id", number, "--output", "jsonl").out)
    other = kbroker("list", "--producer-id", str(2**40))

    assert [row["transactional_id"] for row in listed] == [transactional_id]
    assert (described["state"], described["start_ms"], described["partitions"]) == (
        "Empty",
        None,
        [],
    )
    assert (other.code, other.out) == (FINE, "")


def test_an_id_that_nobody_uses_is_named(
    kbroker: Run, producer: Producer, transactional_id: str
) -> None:
    refused = kbroker("describe", transactional_id + "x").refused(ITEM_FAILED)
    empty = kbroker("describe", "").refused(ITEM_FAILED)

    assert empty == "Error: no such transactional id: '' (see `kbroker txn list`)"
    assert refused.startswith(f"Error: no such transactional id: {transactional_id}x, did you mean")


def test_a_hanging_transaction_is_found_and_aborted_and_readers_go_on(
    bootstrap: str, kbroker: Run, wire: WireClient, topic: str
) -> None:
    hang(wire, topic, PRODUCER_ID, 1)
    wire.produce(topic, batch(2))
    assert values(bootstrap, topic) == ["v"]

    found = kbroker("find-hanging", topic, "--output", "jsonl")
    everywhere = kbroker("find-hanging", "--output", "jsonl")
    younger = kbroker("find-hanging", topic, "--max-transaction-timeout", "2h")
    aborted = kbroker("abort", topic, "--partition", "0", "--start-offset", "1")
    again = kbroker("abort", topic, "--partition", "0", "--start-offset", "1")
    after = kbroker("find-hanging", topic)

    (row,) = rows(found.out)
    assert (row["topic"], row["partition"], row["producer_id"]) == (topic, 0, PRODUCER_ID)
    assert (row["producer_epoch"], row["transaction_start_offset"]) == (3, 1)
    assert 3600 <= row["idle_s"] < 3600 + WAIT_S
    command = f"`kbroker txn abort {topic} --partition 0 --start-offset 1`"
    assert found.code == ITEM_FAILED
    assert f"Error: a transaction hangs in {topic}-0 ({command} ends it)\n" in found.err
    assert row["topic"] in {each["topic"] for each in rows(everywhere.out)}
    assert (younger.code, younger.out) == (FINE, "")
    assert younger.err == (
        f"producer {PRODUCER_ID} has an open transaction in {topic}-0 at offset 1 that no "
        "coordinator knows: it was written to 60 min ago, and hangs when nothing is written for "
        "2.0 h\n0 hanging transactions in 1 partition\n"
    )
    assert aborted.err == f"{topic}-0: transaction of producer {PRODUCER_ID} aborted\n"
    assert aborted.code == FINE
    assert again.refused(ITEM_FAILED) == (
        f"Error: no open transaction begins at offset 1 of {topic}-0: none is open there"
    )
    assert (after.code, after.err) == (FINE, "0 hanging transactions in 1 partition\n")
    assert values(bootstrap, topic) == ["v"] * 3


def test_a_hanging_transaction_with_times_that_are_to_come_is_found(
    kbroker: Run, wire: WireClient, topic: str
) -> None:
    hang(wire, topic, PRODUCER_ID, 1, int(time.time() + 3_000) * 1_000)

    found = kbroker("find-hanging", topic, "--output", "jsonl")

    (row,) = rows(found.out)
    assert (found.code, row["transaction_start_offset"], row["idle_s"]) == (ITEM_FAILED, 1, None)


def test_a_transaction_that_its_coordinator_will_end_does_not_hang_and_its_end_is_told(
    bootstrap: str, kbroker: Run, producer: Producer, transactional_id: str, topic: str
) -> None:
    begin(producer, topic)

    found = kbroker("find-hanging", topic, "--max-transaction-timeout", "1ms")
    young = kbroker("find-hanging", topic)
    refused = kbroker("abort", topic, "--partition", "0", "--start-offset", "1")
    producer.commit_transaction(WAIT_S)

    ending = r"broker \d aborts it when its time is up, in \d+ s"
    told = f"{transactional_id} has an open transaction in {topic}-0: {ending}\n"
    for search in (found, young):
        assert (search.code, search.out) == (FINE, "")
        assert re.fullmatch(f"{told}0 hanging transactions in 1 partition\n", search.err)
    assert re.fullmatch(
        rf"Error: nothing was aborted: the transaction in {topic}-0 does not hang, "
        rf"transactional id {transactional_id} is Ongoing, and {ending}, or now with `kbroker txn "
        rf"abort --transactional-id {transactional_id}` "
        r"\(--force aborts it in this partition alone\)",
        refused.refused(ITEM_FAILED),
    )
    assert values(bootstrap, topic) == ["v", "in a transaction"]


def test_what_a_producer_that_is_gone_left_open_is_aborted_by_its_id(
    bootstrap: str, kbroker: Run, producer: Producer, transactional_id: str, topic: str
) -> None:
    begin(producer, topic)
    (is_open,) = rows(kbroker("describe", transactional_id, "--output", "jsonl").out)

    aborted = kbroker("abort", "--transactional-id", transactional_id)
    (after,) = rows(kbroker("describe", transactional_id, "--output", "jsonl").out)
    (state,) = rows(kbroker("producers", topic, "--output", "jsonl").out)
    again = kbroker("abort", "--transactional-id", transactional_id)
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)

    number = is_open["producer_id"]
    assert (aborted.code, aborted.err) == (
        FINE,
        f"{transactional_id}: the transaction of producer {number}, epoch 0, in {topic}-0 is "
        "aborted; that epoch is shut out (now 1)\n",
    )
    assert (after["state"], after["producer_epoch"]) == ("CompleteAbort", 1)
    assert state["transaction_start_offset"] is None
    assert (again.code, again.err) == (
        FINE,
        f"{transactional_id}: no transaction is open, it is CompleteAbort; nobody was shut out\n",
    )
    assert values(bootstrap, topic) == ["v"]


def test_an_id_that_never_was_is_not_made_by_an_abort(kbroker: Run, transactional_id: str) -> None:
    refused = kbroker("abort", "--transactional-id", transactional_id).refused(ITEM_FAILED)
    described = kbroker("describe", transactional_id).refused(ITEM_FAILED)

    assert refused.startswith(f"Error: no such transactional id: {transactional_id}")
    assert described.startswith(f"Error: no such transactional id: {transactional_id}")


def test_who_knows_better_aborts_it_all_the_same(
    bootstrap: str, kbroker: Run, producer: Producer, topic: str
) -> None:
    begin(producer, topic)

    done = kbroker("abort", topic, "--partition", "0", "--start-offset", "1", "--force")

    assert done.code == FINE, done
    assert values(bootstrap, topic) == ["v"]
    (state,) = rows(kbroker("producers", topic, "--output", "jsonl").out)
    assert state["transaction_start_offset"] is None


def test_a_transaction_may_be_named_by_its_producer(
    kbroker: Run, wire: WireClient, topic: str
) -> None:
    hang(wire, topic, PRODUCER_ID, 1)

    def abort(producer_id: int, epoch: int, coordinator_epoch: int) -> Any:
        return kbroker(
            "abort", topic, "--partition", "0", "--producer-id", str(producer_id),
            "--producer-epoch", str(epoch), "--coordinator-epoch", str(coordinator_epoch),
        )  # fmt: skip

    assert abort(1, 3, 0).refused(ITEM_FAILED) == (
        f"Error: producer 1 has no open transaction in {topic}-0: those open there begin at "
        f"1 (producer {PRODUCER_ID})"
    )
    assert abort(PRODUCER_ID, 2, 0).refused(ITEM_FAILED) == (
        f"Error: the transaction of producer {PRODUCER_ID} in {topic}-0 was not aborted: its "
        "producer has a newer epoch than 2: look again (INVALID_PRODUCER_EPOCH)"
    )
    assert abort(PRODUCER_ID, 3, 0).code == FINE


@pytest.mark.parametrize(
    "options",
    [(), ("--start-offset", "1", "--producer-id", "1"), ("--producer-id", "1"),
     ("--producer-id", "1", "--producer-epoch", "1")],
)  # fmt: skip
def test_a_transaction_is_named_in_one_way(
    options: tuple[str, ...], kbroker: Run, topic: str
) -> None:
    done = kbroker("abort", topic, "--partition", "0", *options)

    assert done.code == USAGE
    assert "give --start-offset, or all of --producer-id, --producer-epoch and" in done.err


def test_what_is_not_there_is_named(kbroker: Run, topic: str) -> None:
    for command, sentence in (
        (("producers", topic + "x"), f"no such topic: {topic}x, did you mean {topic}"),
        (("producers", topic, "--partition", "7"), f"no such partition: {topic}-7"),
        (("producers", topic, "--broker", "77"), "no such broker: 77 (online: "),
        (("find-hanging", topic + "x"), f"no such topic: {topic}x, did you mean {topic}"),
        (("find-hanging", topic, "--partition", "7"), f"no such partition: {topic}-7"),
        (("find-hanging", "--broker", "77"), "no such broker: 77 (online: "),
        (
            ("abort", topic + "x", "--partition", "0", "--start-offset", "0"),
            f"no such topic: {topic}x",
        ),
        (
            ("abort", topic, "--partition", "7", "--start-offset", "0"),
            f"no such partition: {topic}-7",
        ),
        (
            ("abort", topic, "--partition", "0", "--start-offset", "0"),
            "no open transaction begins at",
        ),
    ):
        assert kbroker(*command).refused(ITEM_FAILED).startswith(f"Error: {sentence}")
