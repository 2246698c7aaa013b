"""The metrics of a broker that runs, as a page for Prometheus, in every dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

from kbroker.config.kafka_config import KafkaConfig
from kbroker.counters import Kind, Metric, MetricName
from kbroker.metrics.confluent_dialect import confluent_dialect
from kbroker.metrics.dialect import Dialect
from kbroker.metrics.jmx_dialect import jmx_dialect
from kbroker.metrics.page import OPEN_METRICS, TEXT, Format, Page
from kbroker.metrics.redpanda_dialect import redpanda_dialect
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import Record
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.clusters.replication_cluster import batch

GROUP = 'a "group" \\ {x="y"}\nof two lines'
DIALECTS = [jmx_dialect, confluent_dialect, redpanda_dialect]
READERS: dict[Format, Callable[[str], Any]] = {OPEN_METRICS: read_open, TEXT: read_text}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[KafkaServer]:
    values = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "0",
        "offsets.topic.num.partitions": "1",
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", values))
    await server.startup()
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await server.parts.services.topics.create_topics([topic], 10_000, False)
    await server.parts.services.topics.auto_create(["__consumer_offsets"])
    yield server
    await server.shutdown()


async def use(server: KafkaServer) -> None:
    """Write three records, read them, and commit an offset."""
    client = BrokerClient(server.end_points[0], "1", 20_000)
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(b"a", b"b", b"c"))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    produce = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
    await client.send(produce, highest_version=9)
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=10_000)
    topics = [FetchRequest.FetchTopic(topic="t", partitions=[partition])]
    fetch = FetchRequest(max_wait_ms=1, min_bytes=1, session_epoch=-1, topics=topics)
    await client.send(fetch, highest_version=11)
    committed = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1
    )
    offsets = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[committed])
    while True:
        commit = OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=-1, topics=[offsets]
        )
        answer = await client.send(commit, highest_version=8)
        if not answer.topics[0].partitions[0].error_code:  # the coordinator has loaded
            break
    client.close()


def page(server: KafkaServer, dialect: Dialect, page_format: Format) -> str:
    written = Page(dialect, page_format)
    written.add(server.parts.counters.samples())
    return "".join(written.parts())


def values(text: str) -> dict[str, float]:
    """The values of a page, by name and labels as they are written."""
    return {
        sample.name
        + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in read_open(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("page_format", READERS, ids=["open", "text"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_dialect_is_read(
    server: KafkaServer, dialect: Dialect, page_format: Format
) -> None:
    await use(server)

    families = list(READERS[page_format](page(server, dialect, page_format)))

    assert len(families) > 10
    assert len({family.name for family in families}) == len(families)


async def test_the_page_says_what_was_done(server: KafkaServer) -> None:
    await use(server)

    found = values(page(server, jmx_dialect, OPEN_METRICS))

    topics = "kafka_server_brokertopicmetrics"
    size = len(batch(b"a", b"b", b"c"))
    for name, value in {
        f"{topics}_messagesin_total topic=t": 3,
        f"{topics}_bytesin_total topic=t": size,
        f"{topics}_bytesout_total topic=t": size,
        f"{topics}_totalproducerequests_total topic=t": 1,
        "kafka_network_requestmetrics_requests_total request=Produce version=9": 1,
        "kafka_log_log_logendoffset partition=0 topic=t": 3,
        "kafka_log_log_size partition=0 topic=t": size,
        "kafka_topic_partition_current_offset partition=0 topic=t": 3,
        "kafka_topic_partitions topic=t": 2,
        f"kafka_consumergroup_current_offset consumergroup={GROUP} partition=0 topic=t": 1,
        f"kafka_consumergroup_lag consumergroup={GROUP} partition=0 topic=t": 2,
        f"kafka_consumergroup_lag_sum consumergroup={GROUP} topic=t": 2,
        "kafka_brokers": 1,
        "kafka_controller_kafkacontroller_activecontrollercount": 1,
        "kafka_controller_kafkacontroller_offlinepartitionscount": 0,
        "kafka_server_replicamanager_leadercount": 3,
        "kafka_server_kafkaserver_brokerstate": 4,
        "kafka_coordinator_group_groupmetadatamanager_numgroupsempty": 1,
    }.items():
        assert found.get(name) == value, name
    assert 0 <= found["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"] <= 1
    assert found["process_resident_memory_bytes"] > 1_000_000


async def test_records_that_are_converted_count_for_their_topic(server: KafkaServer) -> None:
    gzip = CreateTopicsRequest.CreatableTopicConfig(name="compression.type", value="gzip")
    topic = CreateTopicsRequest.CreatableTopic(
        name="z", num_partitions=1, replication_factor=1, configs=[gzip]
    )
    await server.parts.services.topics.create_topics([topic], 10_000, False)
    client = BrokerClient(server.end_points[0], "1", 20_000)
    old = build_legacy([Record(number, 1_000, b"k", b"v") for number in range(5)], 1)
    for records, version in ((batch(b"a", b"b", b"c"), 9), (bytearray(old), 2)):
        for name in ("z", "t"):
            data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(records))
            topics = [ProduceRequest.TopicProduceData(name=name, partition_data=[data])]
            produce = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics)
            answer = await client.send(produce, highest_version=version)
            assert not answer.responses[0].partition_responses[0].error_code
    partition = FetchRequest.FetchPartition(fetch_offset=1, partition_max_bytes=10_000)
    fetched = [FetchRequest.FetchTopic(topic="t", partitions=[partition])]
    await client.send(FetchRequest(max_wait_ms=1, topics=fetched), highest_version=3)
    client.close()

    found = values(page(server, jmx_dialect, OPEN_METRICS))

    topics = "kafka_server_brokertopicmetrics"
    assert found[f"{topics}_producemessageconversions_total topic=z"] == 3 + 5
    assert found[f"{topics}_producemessageconversions_total topic=t"] == 5
    assert found[f"{topics}_fetchmessageconversions_total topic=t"] == 2 + 5
    assert found[f"{topics}_fetchmessageconversions_total"] == 2 + 5


async def test_a_deleted_topic_vanishes_from_the_page_and_stays_in_the_sums(
    server: KafkaServer,
) -> None:
    await use(server)
    sums = "kafka_server_brokertopicmetrics_messagesin_total"
    before = values(page(server, jmx_dialect, OPEN_METRICS))[sums]
    await server.parts.services.topics.delete_topics(["t"], 10_000)
    while server.parts.data.replicas.hosted.topics.of("t") is not None:  # noqa: ASYNC110
        await asyncio.sleep(0)

    text = page(server, jmx_dialect, OPEN_METRICS)

    assert [line for line in text.splitlines() if 'topic="t"' in line] == []
    assert values(text)[sums] >= before


async def test_a_topic_that_is_made_again_while_a_page_is_made_is_there_once(
    server: KafkaServer,
) -> None:
    topics, created = server.parts.services.topics, 0
    again = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=3, replication_factor=1)
    samples = len(list(server.parts.counters.samples()))
    for after in range(samples // 8, samples, samples // 8):
        written = Page(jmx_dialect, OPEN_METRICS)
        for number, sample in enumerate(server.parts.counters.samples()):
            written.add([sample])
            if number == after:
                await topics.delete_topics(["t"], 10_000)
                await topics.create_topics([again], 10_000, False)
                created += 1
        shown = [
            (sample.name, tuple(sample.labels.items()))
            for family in read_open("".join(written.parts()))
            for sample in family.samples
        ]
        assert len(set(shown)) == len(shown)

    assert created > 6


def test_no_metric_of_a_broker_has_two_kinds_under_one_name() -> None:
    """A family has one type: a gauge and a counter never share a name."""
    name = MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec")
    families = [
        {place.family for place in jmx_dialect(Metric(name, kind), ())}
        for kind in (Kind.COUNTER, Kind.GAUGE)
    ]

    assert families[0].isdisjoint(families[1])
