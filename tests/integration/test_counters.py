"""The counters of a broker that runs: all of them have names, and they count what was asked."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.counters import Counter, MetricName, Value
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.request import OWN_SOFTWARE
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.counted import counted


@pytest.fixture
async def server(tmp_path: Path, before: list[Counter]) -> AsyncIterator[KafkaServer]:
    values = {
        "log.dirs": str(tmp_path),
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        "inter.broker.listener.name": "A",
        "broker.id": "0",
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", values))
    await server.startup()
    yield server
    await server.shutdown()


@pytest.fixture
def before() -> list[Counter]:
    """The counters that were there when there was no broker."""
    return counters_alive()


def counters_alive() -> list[Counter]:
    return [found for found in gc.get_objects() if type(found) is Counter]


async def test_every_counter_of_a_broker_is_registered(
    before: list[Counter], server: KafkaServer
) -> None:
    made = {id(counter) for counter in counters_alive()} - {id(counter) for counter in before}
    named = {id(server.parts.counters.source(name)) for name in server.parts.counters}

    assert len(made) > 10
    assert made <= named


def connections(server: KafkaServer, listener: str) -> tuple[Value, ...]:
    """The connections of a listener: open now, ever opened, closed."""
    for sample in server.parts.counters.samples():
        if sample is not None:
            table, tags, values = sample
            if table.metrics[0].name.name == "connection-count" and tags == (listener, "0"):
                open_now, opened, _, closed, _ = values
                return open_now, opened, closed
    raise AssertionError(f"nothing is known of {listener}")


async def test_counters_follow_requests(server: KafkaServer) -> None:
    def value(group: str, type_: str, name: str, **tags: str) -> float:
        return server.parts.counters.value(MetricName(group, type_, name, tuple(tags.items())))

    def socket(name: str) -> float:
        return value("kafka.server", "socket-server-metrics", name)

    requests, bytes_in = socket("request-total"), socket("incoming-byte-total")
    client = BrokerClient(server.end_points[1], "1", 20_000)
    for _ in range(3):
        await client.send(MetadataRequest())
    await client.send(FetchRequest(max_wait_ms=1, min_bytes=1))

    assert socket("request-total") == requests + 5  # with ApiVersions
    assert value("kbroker.apis", "KafkaApis", "Requests") == requests + 5
    assert socket("incoming-byte-total") > bytes_in
    assert socket("outgoing-byte-total") > 0
    assert connections(server, "B") == (1, 1, 0)
    assert connections(server, "A") == (0, 0, 0)
    software = counted(server.parts.counters, "connections", 4)
    assert [(name, *rest) for (name, _, *rest) in software] == [(OWN_SOFTWARE, "B", "0")]
    assert list(software.values()) == [1]
    assert value("kbroker.network", "SocketServer", "ConnectionsAccepted", listener="B") == 1
    assert value("kbroker.network", "SocketServer", "ConnectionsAccepted", listener="A") == 0
    client.close()
    while connections(server, "B")[0]:  # noqa: ASYNC110  the end of the connection comes
        await asyncio.sleep(0.001)
    assert connections(server, "B") == (0, 1, 1)


async def test_gauges_tell_who_waits(server: KafkaServer) -> None:
    def waiting(name: str) -> dict[str, float]:
        counters = server.parts.counters
        return {
            kind: counters.value(
                MetricName(
                    "kafka.server",
                    "DelayedOperationPurgatory",
                    name,
                    (("delayedOperation", kind),),
                )
            )
            for kind in ("Fetch", "Produce", "DeleteRecords")
        }

    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await server.parts.services.topics.create_topics([topic], 10_000, False)
    partitions = [
        FetchRequest.FetchPartition(partition=number, partition_max_bytes=1) for number in (0, 1)
    ]
    topics = [FetchRequest.FetchTopic(topic="t", partitions=partitions)]
    fetch = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1, topics=topics)
    client = BrokerClient(server.end_points[1], "1", 20_000)
    answer = asyncio.ensure_future(client.send(fetch, highest_version=11))

    while not waiting("NumDelayedOperations")["Fetch"]:  # noqa: ASYNC110  it tells nobody
        await asyncio.sleep(0.001)
    assert waiting("NumDelayedOperations") == {"Fetch": 1, "Produce": 0, "DeleteRecords": 0}
    assert waiting("PurgatorySize") == {"Fetch": 2, "Produce": 0, "DeleteRecords": 0}

    answer.cancel()
    client.close()
    while waiting("PurgatorySize")["Fetch"]:  # noqa: ASYNC110  until its time is over
        await asyncio.sleep(0.001)
    queue = MetricName("kafka.controller", "ControllerChannelManager", "TotalQueueSize")
    assert server.parts.counters.value(queue) == 0
