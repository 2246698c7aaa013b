"""Apache Kafka's kafka-transactions against kbroker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from compat_tests.clients.hanging_transactions import UNVERIFIED, hang
from compat_tests.commands.command_line import run
from compat_tests.commands.tool_runner import run_tool
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import WireClient

pytestmark = pytest.mark.java

TOOL = "org.apache.kafka.tools.TransactionsCommand"
VERSIONS = (apache_kafka.NEWEST, apache_kafka.ZOOKEEPER_LINE)
PRODUCER_ID = 4711
WAIT_S = 30.0

Tool = Callable[..., list[list[str]]]


@pytest.fixture(scope="module")
def bootstrap(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a broker that takes transactional records unverified."""
    if target != "kbroker":
        pytest.skip("starts a broker of its own")
    data: Path = tmp_path_factory.mktemp("unverified") / "data"
    broker = BrokerProcess(data, ("--override", UNVERIFIED))
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def wire(bootstrap: str) -> Iterator[WireClient]:
    client = WireClient(bootstrap)
    yield client
    client.close()


@pytest.fixture(params=VERSIONS)
def tool(request: pytest.FixtureRequest, bootstrap: str) -> Tool:
    """Runs the tool; the words of each line of its table, without the head."""

    def call(*args: str) -> list[list[str]]:
        done = run_tool(TOOL, "--bootstrap-server", bootstrap, *args, version=request.param)
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
        return [line.split() for line in done.stdout.splitlines()[1:]]

    return call


@pytest.fixture
def topic(wire: WireClient) -> str:
    return wire.create_topic()


@pytest.fixture
def transactional_id(bootstrap: str, topic: str) -> Iterator[str]:
    """With a transaction that is open from offset 0 of the topic on."""
    name = f"tx-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    assert producer.flush(WAIT_S) == 0
    yield name
    with suppress(KafkaException):  # a test may have fenced it
        producer.abort_transaction(WAIT_S)


def test_an_open_transaction_is_listed_and_described(
    tool: Tool, topic: str, transactional_id: str
) -> None:
    listed = {row[0]: row for row in tool("list")}
    described = tool("describe", "--transactional-id", transactional_id)
    (producer,) = tool("describe-producers", "--topic", topic, "--partition", "0")
    older = {row[0] for row in tool("list", "--duration-filter", "3600000")}
    hanging = tool("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")

    coordinator, producer_id, state = listed[transactional_id][1:]
    (row,) = described
    assert row[:6] == [coordinator, transactional_id, producer_id, "0", "Ongoing", "60000"]
    assert row[-1] == f"{topic}-0"
    assert state == "Ongoing"
    assert [producer[0], *producer[1:4], producer[-1]] == [producer_id, "0", "-1", "0", "0"]
    assert transactional_id not in older
    assert hanging == []  # nor does it say who ends what is open; `kbroker txn find-hanging` does


def test_the_tool_finds_none_with_times_that_are_to_come(
    tool: Tool, wire: WireClient, topic: str
) -> None:
    hang(wire, topic, PRODUCER_ID, 0, int(time.time() + 3_000) * 1_000)

    assert tool("find-hanging", "--topic", topic, "--max-transaction-timeout", "0") == []


def test_a_hanging_transaction_is_found_and_aborted(
    bootstrap: str, tool: Tool, wire: WireClient, topic: str
) -> None:
    hang(wire, topic, PRODUCER_ID, 0)
    wire.produce(topic, batch(1))
    at = ("--topic", topic, "--partition", "0")

    (found,) = tool("find-hanging", *at)
    everywhere = tool("find-hanging", "--broker-id", "0")
    tool("abort", *at, "--start-offset", "0")
    after = tool("find-hanging", "--topic", topic)

    assert found[:6] == [topic, "0", str(PRODUCER_ID), "3", "-1", "0"]
    assert found in [row[: len(found)] for row in everywhere]
    assert after == []
    assert run("consume", topic, bootstrap=bootstrap).lines() == ["v"]


def test_a_transaction_of_an_old_broker_is_named_by_its_producer(
    tool: Tool, wire: WireClient, topic: str
) -> None:
    hang(wire, topic, PRODUCER_ID, 0)
    at = ("--topic", topic, "--partition", "0")

    tool(
        "abort", *at, "--producer-id", str(PRODUCER_ID), "--producer-epoch", "3",
        "--coordinator-epoch", "0",
    )  # fmt: skip

    assert tool("find-hanging", *at) == []


def test_what_is_refused_is_told(bootstrap: str, topic: str, wire: WireClient) -> None:
    hang(wire, topic, PRODUCER_ID, 0)
    at = ("--bootstrap-server", bootstrap, "abort", "--topic", topic, "--partition", "0")
    whose = ("--producer-id", str(PRODUCER_ID), "--producer-epoch", "2", "--coordinator-epoch", "0")

    stale = run_tool(TOOL, *at, *whose)
    unknown = run_tool(
        TOOL, "--bootstrap-server", bootstrap, "describe", "--transactional-id", "nobody"
    )

    assert "failed due an invalid producer epoch" in stale.stderr
    assert "because the ID could not be found" in unknown.stderr


def test_an_id_is_fenced_by_force(bootstrap: str, topic: str, transactional_id: str) -> None:
    done = run_tool(
        TOOL, "--bootstrap-server", bootstrap, "forceTerminateTransaction",
        "--transactionalId", transactional_id,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    described = run("txn", "producers", topic, "--output", "jsonl", bootstrap=bootstrap)
    assert '"transaction_start_offset": null' in described.out
