from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbroker.apis.deprecated_requests import DeprecatedRequests
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.refused_requests import RefusedRequests
from kbroker.apis.registry import registered
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.counters import CounterRegistry
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import Coming
from tests.fakes.clusters.copying_cluster import TrustingPeers
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch
from tests.fakes.counted import counted
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.recording_replier import request_of
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import frame_of
from tests.fakes.running.virtual_time import VirtualTime


class Asker:
    """A client, and what its broker has counted."""

    def __init__(self, call: ApiCaller) -> None:
        refusals = RefusedRequests(VirtualTime(), KafkaConfig, lambda _topic: TopicConfig())
        services = replace(call.services, refusals=refusals)
        self.client = RepeatingClient(KafkaApis(registered(), services))
        self._counters = CounterRegistry()
        self.client.apis.stats.register(self._counters)
        call.services.replicas.hosted.topics.register(self._counters)

    def times(self) -> dict[str, int]:
        """How many answers of each API have a time."""
        return {api: sum(each.counts) for (api,), each in self.values("TotalTimeMs").items()}

    def values(self, name: str, tags: int = 1) -> dict[tuple[str, ...], Any]:
        return counted(self._counters, name, tags)


@pytest.fixture
def asker(call: ApiCaller) -> Asker:
    return Asker(call)


def produce(partition: int = 0, *, acks: int = 1, value: bytes = b"v") -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(
        index=partition, records=memoryview(bytearray(batch(value, b"w")))
    )
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    wanted = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=100_000)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[wanted])],
    )


SIZE = len(batch(b"v", b"w"))


async def test_each_request_and_each_answer_counts_once_in_whichever_way_it_goes(
    cluster: ReplicationCluster, asker: Asker
) -> None:
    cluster.lead("t")
    for _ in range(5):
        await asker.client.ask(produce(), 9)
        await asker.client.ask(produce(acks=0), 8)
    for _ in range(5):
        await asker.client.ask(fetch(0), 12)
    await asker.client.ask(ApiVersionsRequest(), 3)

    assert asker.client.short_ways == 9
    assert asker.values("RequestsPerSec", 2) == {
        ("Produce", "9"): 5,
        ("Produce", "8"): 5,
        ("Fetch", "12"): 5,
        ("FetchConsumer", "12"): 5,
        ("FetchFollower", "12"): 0,
        ("ApiVersions", "3"): 1,
    }
    times = asker.values("TotalTimeMs")
    assert {api: sum(histogram.counts) for (api,), histogram in times.items()} == {
        "Produce": 10,
        "Fetch": 5,
        "FetchConsumer": 5,
        "FetchFollower": 0,
        "ApiVersions": 1,
    }
    assert all(bool(each.total_ns) == bool(sum(each.counts)) for each in times.values())


@pytest.mark.parametrize("repeats", [0, 3], ids=["decoded", "in the short way"])
async def test_fetches_of_followers_are_counted_apart(
    cluster: ReplicationCluster, repeats: int
) -> None:
    asker = Asker(ApiCaller(cluster, peers=TrustingPeers()))
    partition = cluster.lead("t", replicas=(0, 1))
    cluster.append(partition, b"v")
    request = fetch(0, max_wait_ms=500)
    request.replica_id = 1
    for _ in range(repeats):
        await asker.client.ask(request, 12)
    await asker.client.ask(fetch(0), 12)
    request.topics[0].partitions[0].fetch_offset = 1
    coming = begin(asker.client, request)
    counts = {"Fetch": repeats + 1, "FetchConsumer": 1, "FetchFollower": repeats}
    assert asker.times() == counts

    cluster.append(partition, b"w")
    coming.finish()

    counts |= {"Fetch": repeats + 2, "FetchFollower": repeats + 1}
    assert asker.times() == counts
    requests = asker.values("RequestsPerSec", 2)
    assert {name: requests[name, "12"] for name in counts} == counts


def begin(client: RepeatingClient, request: FetchRequest) -> Coming[Any]:
    """Send a request that waits, and return its coming answer."""
    coming = client.send(frame_of(request, 12))
    if coming is None:
        decoded = request_of(1, 12, encode(request, 12))._replace(connection=client.connection)
        coming = client.apis.handle(decoded)
    assert isinstance(coming, Coming)
    return coming


@pytest.mark.parametrize("repeats", [0, 3], ids=["decoded", "in the short way"])
async def test_a_request_that_waits_has_its_time_when_it_is_answered(
    cluster: ReplicationCluster, asker: Asker, repeats: int
) -> None:
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    for _ in range(repeats):
        await asker.client.ask(fetch(0, max_wait_ms=500), 12)
    coming = begin(asker.client, fetch(1, max_wait_ms=500))
    assert sum(asker.values("TotalTimeMs")["Fetch",].counts) == repeats

    cluster.append(partition, b"v")
    coming.finish()

    for name in ("TotalTimeMs", "LocalTimeMs", "RemoteTimeMs", "RequestQueueTimeMs"):
        assert sum(asker.values(name)["Fetch",].counts) == repeats + 1, name
    remote, local = (asker.values(name)["Fetch",] for name in ("RemoteTimeMs", "LocalTimeMs"))
    assert (remote.counts[0], local.counts[0]) == (repeats, 1)  # the rest took no time there
    assert remote.total_ns + local.total_ns == asker.values("TotalTimeMs")["Fetch",].total_ns


async def test_requests_in_versions_that_kafka_4_refuses_are_counted_and_have_a_rate(
    cluster: ReplicationCluster, asker: Asker
) -> None:
    cluster.lead("t")
    seconds, counters = iter((100, 110)), CounterRegistry()
    stats = asker.client.apis.stats
    DeprecatedRequests(stats.by_version, 0.0, lambda: next(seconds)).register(counters)
    for _ in range(3):
        await asker.client.ask(ApiVersionsRequest(), 0)
        stats.of(ApiKey.FETCH, 3).requests += 1
        stats.of(ApiKey.FETCH, 4).requests += 1

    assert counted(counters, "DeprecatedRequestsPerSec", 2) == {("Fetch", "3"): 3}
    (rate,) = counted(counters, "DeprecatedRequestsPerSec_FiveMinuteRate", 2).values()
    assert 0 < rate < 3 / 100


async def test_a_topic_counts_what_is_written_read_and_refused(
    cluster: ReplicationCluster, asker: Asker
) -> None:
    log = cluster.lead("t").log
    cluster.lead("t", 1)
    for partition in (0, 0, 0, 1):
        await asker.client.ask(produce(partition), 9)
    for code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS):
        log.fail_with = KafkaError(code)
        await asker.client.ask(produce(), 9)
    log.fail_with = None
    for _ in range(3):
        await asker.client.ask(fetch(2), 12)

    assert asker.values("MessagesInPerSec") == {("t",): 8}
    assert asker.values("BytesInPerSec") == {("t",): 4 * SIZE}
    assert asker.values("BytesOutPerSec") == {("t",): 3 * 2 * SIZE}
    assert asker.values("BytesRejectedPerSec") == {("t",): SIZE}
    assert asker.values("TotalProduceRequestsPerSec") == {("t",): 6}
    assert asker.values("FailedProduceRequestsPerSec") == {("t",): 1}
    assert asker.values("TotalFetchRequestsPerSec") == {("t",): 3}
    assert asker.values("ErrorsPerSec", 2) == {
        ("Produce", "MESSAGE_TOO_LARGE"): 1,
        ("Produce", "NOT_ENOUGH_REPLICAS"): 1,
    }


@pytest.mark.parametrize("repeats", [0, 3], ids=["decoded", "in the short way"])
async def test_bytes_that_a_fetch_finds_before_it_waits_count_once(
    cluster: ReplicationCluster, asker: Asker, repeats: int
) -> None:
    partition = cluster.lead("t")
    cluster.append(partition, b"v", b"w")
    for _ in range(repeats):
        await asker.client.ask(fetch(9, max_wait_ms=500, min_bytes=SIZE + 1), 12)
    coming = begin(asker.client, fetch(0, max_wait_ms=500, min_bytes=SIZE + 1))
    assert asker.values("BytesOutPerSec") == {("t",): 0}

    cluster.append(partition, b"v", b"w")
    coming.finish()

    assert asker.values("BytesOutPerSec") == {("t",): 2 * SIZE}


@pytest.mark.parametrize("repeats", [0, 3], ids=["decoded", "in the short way"])
async def test_bytes_beside_a_partition_that_is_refused_count(
    cluster: ReplicationCluster, asker: Asker, repeats: int
) -> None:
    for partition in range(2):
        cluster.append(cluster.lead("t", partition), b"v", b"w")
    request = fetch(0)
    other = FetchRequest.FetchPartition(partition=1, partition_max_bytes=100_000)
    request.topics[0].partitions.append(other)
    for _ in range(repeats):
        await asker.client.ask(request, 12)
    other.fetch_offset = 99

    await asker.client.ask(request, 12)

    assert asker.client.short_ways == (repeats and repeats - 1)
    assert asker.values("BytesOutPerSec") == {("t",): (2 * repeats + 1) * SIZE}


async def test_a_topic_that_is_gone_stays_in_the_sums(
    cluster: ReplicationCluster, asker: Asker
) -> None:
    for partition in range(2):
        cluster.lead("t", partition)
    cluster.lead("other")
    await asker.client.ask(produce(), 9)
    hosted = cluster.replicas.hosted

    found = hosted.find(TopicPartition("t", 1))
    assert found is not None
    hosted.remove(TopicPartition("t", 1))
    hosted.add(found)
    hosted.add(found)
    hosted.set_offline(TopicPartition("t", 0))
    assert asker.values("MessagesInPerSec") == {("t",): 2, ("other",): 0}
    hosted.remove(TopicPartition("t", 0))
    hosted.remove(TopicPartition("t", 1))

    assert asker.values("MessagesInPerSec") == {("other",): 0}
    assert asker.values("MessagesInPerSec", 0) == {(): 2}


async def test_bytes_of_a_session_count_once(cluster: ReplicationCluster, asker: Asker) -> None:
    partition = cluster.lead("t")
    session_id = 0
    for epoch in range(6):
        cluster.append(partition, b"v", b"w")
        request = fetch(2 * epoch)
        request.session_id, request.session_epoch = session_id, epoch
        session_id = (await asker.client.ask(request, 12)).session_id

    assert asker.client.short_ways > 0
    assert asker.values("BytesOutPerSec") == {("t",): 6 * SIZE}
