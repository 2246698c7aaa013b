"""Real clients and a cluster: whatever address a client is given, it finds every partition and every
group's coordinator.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.clients.every_client import run
from compat_tests.cluster.processes import Cluster
from compat_tests.commands.tool_runner import run_tool
from compat_tests.matrix import new_groups
from compat_tests.matrix.cells import State
from compat_tests.matrix.client import clients
from compat_tests.matrix.run import run as run_scenarios
from compat_tests.matrix.scenarios import SCENARIOS
from compat_tests.matrix.targets import at_address
from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import require_program
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import FIND_COORDINATOR, METADATA, WireClient

PARTITIONS = 6
COUNT = 60
Write = Callable[[str, str, list[bytes]], None]
Read = Callable[[str, str, int], list[bytes]]


def spread(cluster: Cluster, topic: str) -> None:
    """A topic with partitions on all brokers, made by the controller's own choice."""
    with cluster.wire(cluster.controller_id()) as wire:
        wanted = {"name": topic, "num_partitions": PARTITIONS, "replication_factor": 1}
        assert wire.create_topics(wanted) == ["0"]
    until(lambda: len(cluster.tree.leaders(topic)) == PARTITIONS, "all partitions led")
    leaders = cluster.tree.leaders(topic)
    assert set(leaders.values()) == set(cluster.ids)
    cluster.wait_for_leaders(topic, leaders)


# ---- each client writes some records to all partitions, and reads so many from all of them


def write_with_confluent(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def read_with_confluent(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{bootstrap}",
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe([topic])
    found: list[bytes] = []
    until(lambda: len(found) >= count or _take(consumer, found), f"{count} records of {topic}")
    consumer.close()
    return found


def _take(consumer: Consumer, found: list[bytes]) -> None:
    for message in consumer.consume(1_000, timeout=0.2):
        assert message.error() is None, message.error()
        found.append(message.value())


def write_with_kafka_python(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    sent = [producer.send(topic, v, partition=n % PARTITIONS) for n, v in enumerate(values)]
    for future in sent:
        future.get(30)
    producer.close()


def read_with_kafka_python(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=f"{topic}-{bootstrap}",
        auto_offset_reset="earliest", consumer_timeout_ms=30_000,
    )  # fmt: skip
    found = [record.value for record in itertools.islice(consumer, count)]
    consumer.close()
    return found


def write_with_aiokafka(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            for number, value in enumerate(values):
                await producer.send_and_wait(topic, value, partition=number % PARTITIONS)

    asyncio.run(write())


def read_with_aiokafka(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        options = {"group_id": f"{topic}-{bootstrap}", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
            async with asyncio.timeout(30):
                return [(await consumer.getone()).value for _ in range(count)]

    return asyncio.run(read())


def write_with_kcat(bootstrap: str, topic: str, values: list[bytes]) -> None:
    kcat = require_program("kcat", "install kcat")
    for partition in range(PARTITIONS):
        lines = b"".join(value + b"\n" for value in values[partition::PARTITIONS])
        run([kcat, "-b", bootstrap, "-P", "-t", topic, "-p", str(partition)], stdin=lines)


def read_with_kcat(bootstrap: str, topic: str, count: int) -> list[bytes]:
    kcat = require_program("kcat", "install kcat")
    return run([kcat, "-b", bootstrap, "-C", "-t", topic, "-c", str(count), "-q"]).splitlines()


def write_with_java(bootstrap: str, topic: str, values: list[bytes]) -> None:
    done = run_tool(
        "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", bootstrap,
        "--topic", topic, stdin="".join(f"{value.decode()}\n" for value in values),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]


def read_with_java(bootstrap: str, topic: str, count: int) -> list[bytes]:
    done = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap,
        "--topic", topic, "--from-beginning", "--max-messages", str(count),
        "--timeout-ms", "30000",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
    return [line.encode() for line in done.stdout.splitlines()]


CLIENTS: dict[str, tuple[Write, Read]] = {
    "confluent": (write_with_confluent, read_with_confluent),
    "kafka-python": (write_with_kafka_python, read_with_kafka_python),
    "aiokafka": (write_with_aiokafka, read_with_aiokafka),
    "kcat": (write_with_kcat, read_with_kcat),
    "java": (write_with_java, read_with_java),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_writes_and_reads_everywhere_through_any_address(
    cluster: Cluster, topic: str, client: str
) -> None:
    write, read = CLIENTS[client]
    spread(cluster, topic)
    written: list[bytes] = []

    for number, bootstrap in enumerate(cluster.bootstraps):
        values = [b"%s-%d-%d" % (client.encode(), number, n) for n in range(COUNT)]
        write(bootstrap, topic, values)
        written += values
    found = [read(cluster.bootstraps[number], topic, len(written)) for number in (1, 2)]

    assert [sorted(values) for values in found] == [sorted(written)] * 2


@pytest.mark.java
def test_a_java_client_does_all_that_it_can_in_a_cluster(cluster: Cluster) -> None:
    java = [client for client in clients() if client.title == f"Java {apache_kafka.NEWEST}"]
    not_here = {"restart", *new_groups.SCENARIOS}  # these need a level that a cluster is raised to
    asked = [name for name in SCENARIOS if name not in not_here]

    cells = run_scenarios(java, asked, at_address(cluster.address(2)), told=lambda cell: None)

    assert [cell for cell in cells if cell.state != State.OK] == []
    assert len(cells) == len(asked)


def test_groups_are_kept_by_coordinators_on_every_broker(cluster: Cluster, topic: str) -> None:
    spread(cluster, topic)
    groups = one_group_per_coordinator(cluster, topic)
    values = [b"%d" % n for n in range(COUNT)]
    write_with_confluent(cluster.bootstrap, topic, values)

    for coordinator, group in groups.items():
        elsewhere = cluster.address(next(n for n in cluster.ids if n != coordinator))
        assert sorted(read_in_group(elsewhere, topic, group, COUNT)) == sorted(values)
    write_with_kafka_python(cluster.bootstrap, topic, [b"later"])

    for coordinator, group in groups.items():
        assert read_in_group(cluster.address(coordinator), topic, group, 1) == [b"later"]


def one_group_per_coordinator(cluster: Cluster, topic: str) -> dict[int, str]:
    """A group for each broker that the broker coordinates."""
    groups: dict[int, str] = {}

    def look() -> bool:
        with cluster.wire(cluster.ids[0]) as wire:
            for number in range(40):
                group = f"{topic}-{number}"
                answer = wire.call(FIND_COORDINATOR, 1, key=group, key_type=0)
                if answer.error_code == 0:
                    groups.setdefault(int(answer.node_id), group)
        return sorted(groups) == cluster.ids

    until(look, "coordinators on all brokers")
    return groups


def read_in_group(bootstrap: str, topic: str, group: str, count: int) -> list[bytes]:
    """Read what a group has not read yet; its offsets are committed."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        consumer_timeout_ms=30_000, enable_auto_commit=False,
    )  # fmt: skip
    found = [record.value for record in itertools.islice(consumer, count)]
    consumer.commit()
    consumer.close()
    return found


def test_a_topic_made_by_its_first_use_is_usable_through_every_broker(
    cluster: Cluster, topic: str
) -> None:
    for number, bootstrap in zip(cluster.ids, cluster.bootstraps, strict=True):
        name = f"{topic}-{number}"
        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
        assert producer.send(name, b"first").get(30).offset == 0
        producer.close()

    made = {f"{topic}-{n}" for n in cluster.ids}
    for number in cluster.ids:
        with cluster.wire(number) as wire:

            def knows_them(wire: WireClient = wire) -> bool:
                """The others hear of a topic a moment after the broker that made it."""
                told = wire.call(METADATA, 8, topics=None, allow_auto_topic_creation=False)
                return made <= {t.name for t in told.topics}

            until(knows_them, f"{made} at broker {number}")
