"""Slow requests are in the log, whichever way they were answered, and those that only waited as
their client wished are not.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.apis.slow_requests import LINES_EACH, SlowRequests
from kbroker.line_fields import ATTRIBUTE
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.request import Request
from kbroker.protocol.schema import Message
from tests.fakes.clusters.replication_cluster import ReplicationCluster
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.recording_replier import request_of
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.running.virtual_time import VirtualTime
from tests.unit.apis.test_request_tracer import fetch, produce

MS = 1_000_000


@pytest.fixture
def slow() -> SlowRequests:
    return SlowRequests(VirtualTime(), 100, lambda _topic_id: None)


class SlowClient(RepeatingClient):
    """A client of a broker that reports what takes longer than a limit."""

    def __init__(self, call: ApiCaller, slow_ms: int) -> None:
        super().__init__(KafkaApis(registered(), call.services))
        self._slow = SlowRequests(call.services.clock, slow_ms, call.services.metadata.topic_name)
        self.reported = 0
        self.apis.stats.watch(self._slow.slow_ns, self._tell)

    def _tell(self, request: Request, took_ns: int, message: Message | None) -> None:
        self.reported += 1
        self._slow.tell(request, took_ns, message)


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [getattr(record, ATTRIBUTE) for record in caplog.records]


@pytest.mark.parametrize("acks", [1, 0])
async def test_a_slow_request_is_logged_on_the_long_way_and_on_the_short_one(
    cluster: ReplicationCluster, call: ApiCaller, caplog: pytest.LogCaptureFixture, acks: int
) -> None:
    cluster.lead("t")
    client = SlowClient(call, 0)
    for _ in range(6):
        await client.ask(produce(acks=acks), 9)

    assert client.short_ways > 0
    assert client.reported == 6
    for record in caplog.records:
        assert re.match(
            r"Produce of 't-0' took \d+ ms, for client 'client' at ", record.getMessage()
        )
        assert record.levelno == logging.WARNING
    (said,) = {tuple((n, f[n]) for n in ("event", "api", "topic")) for f in fields(caplog)}
    assert said == (("event", "slow_request"), ("api", "Produce"), ("topic", "t"))


async def test_a_request_in_the_short_way_is_named_with_its_own_partition(
    cluster: ReplicationCluster, call: ApiCaller, caplog: pytest.LogCaptureFixture
) -> None:
    client = SlowClient(call, 0)
    for partition in range(8):
        cluster.lead("t", partition)
        request = produce()
        request.topic_data[0].partition_data[0].index = partition
        await client.ask(request, 9)

    assert client.short_ways > 0
    named = [record.getMessage().split("'")[1] for record in caplog.records]
    assert named == [f"t-{partition}" for partition in range(8)]


async def test_a_request_that_is_not_slow_is_not_logged(
    cluster: ReplicationCluster, call: ApiCaller, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.lead("t")
    client = SlowClient(call, 3_600_000)
    for _ in range(6):
        await client.ask(produce(), 9)

    assert (client.reported, caplog.records) == (0, [])


@pytest.mark.parametrize("repeats", [0, 4], ids=["decoded", "in the short way"])
async def test_a_fetch_may_wait_as_its_client_wished(
    cluster: ReplicationCluster, call: ApiCaller, caplog: pytest.LogCaptureFixture, repeats: int
) -> None:
    cluster.append(cluster.lead("t"), b"v")
    client = SlowClient(call, 0)
    for _ in range(repeats + 1):
        await client.ask(fetch(0, max_wait_ms=3_600_000), 12)

    assert (client.short_ways > 0) is (repeats > 0)
    assert (client.reported, caplog.records) == (repeats + 1, [])


@pytest.mark.parametrize(("took_ms", "lines"), [(599, 0), (600, 0), (601, 1)])
def test_a_fetch_is_slow_beyond_the_time_that_it_may_wait(
    slow: SlowRequests, caplog: pytest.LogCaptureFixture, took_ms: int, lines: int
) -> None:
    body = encode(FetchRequest(max_wait_ms=500), 12)

    slow.tell(request_of(1, 12, body), took_ms * MS)

    assert len(caplog.records) == lines


def test_who_joins_waits_for_the_others(
    slow: SlowRequests, caplog: pytest.LogCaptureFixture
) -> None:
    body = encode(JoinGroupRequest(group_id="g"), 5)
    slow.tell(request_of(11, 5, body), 60_000 * MS)

    assert caplog.records == []


def test_a_request_that_cannot_be_decoded_again_is_logged_without_names(
    slow: SlowRequests, caplog: pytest.LogCaptureFixture
) -> None:
    slow.tell(request_of(0, 9, b"\xff"), 1_500 * MS)

    (record,) = caplog.records
    assert record.getMessage().startswith("Produce took 1,500 ms, for client 'test' at 127.0.0.1")


def test_many_slow_requests_leave_few_lines(
    slow: SlowRequests, caplog: pytest.LogCaptureFixture
) -> None:
    for took_ms in range(1_000, 1_000 + 5 * LINES_EACH):
        slow.tell(request_of(0, 9, b""), took_ms * MS)

    assert len(caplog.records) == LINES_EACH
