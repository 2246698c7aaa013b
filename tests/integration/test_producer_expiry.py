"""Producers that have written nothing for `producer.id.expiration.ms` are forgotten, by a setting
that may change while the broker runs; a restart forgets nobody, and no batch that may come again.
"""

from __future__ import annotations

import time
from pathlib import Path

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.produce import ProduceRequest
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.running.waiting import until
from tests.integration.local_cluster_client import Cluster, running

SETTING = "producer.id.expiration.ms"
OFTEN = {"producer.id.expiration.check.interval.ms": "5"}
DAY_MS = 86_400_000
BROKER_RESOURCE, SET = 4, 0


async def set_expiration(cluster: Cluster, ms: int) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(
        name=SETTING, config_operation=SET, value=str(ms)
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="", configs=[config]
    )
    answer = await cluster.ask(0, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE


async def produce(cluster: Cluster, producer_id: int, sequence: int) -> ErrorCode:
    now_ms = int(time.time() * 1000)
    records = batch(
        b"v", timestamp=now_ms, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    answer = await cluster.ask(0, ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics), 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def producers(cluster: Cluster) -> set[int]:
    topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
    answer = await cluster.ask(0, DescribeProducersRequest(topics=[topic]))
    return {each.producer_id for each in answer.topics[0].partitions[0].active_producers}


async def test_idle_producers_are_forgotten_by_the_setting_of_now(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=1, **OFTEN) as cluster:
        assert await cluster.create("t", 1) is ErrorCode.NONE
        assert await produce(cluster, 7, 0) is ErrorCode.NONE
        assert await producers(cluster) == {7}

        await set_expiration(cluster, 1)

        async def is_forgotten() -> bool:
            return not await producers(cluster)

        await until(is_forgotten)
        await set_expiration(cluster, DAY_MS)
        assert await produce(cluster, 8, 0) is ErrorCode.NONE
        assert await producers(cluster) == {8}
        assert await produce(cluster, 7, 9) is ErrorCode.NONE  # any number, as at its first time


async def test_a_start_forgets_by_the_setting_that_was_made_while_it_ran(tmp_path: Path) -> None:
    short = {**OFTEN, SETTING: "1"}
    async with running(tmp_path, brokers=1, **short) as cluster:
        assert await cluster.create("t", 1) is ErrorCode.NONE
        await set_expiration(cluster, DAY_MS)
        assert await produce(cluster, 7, 0) is ErrorCode.NONE

    async with running(tmp_path, brokers=1, **short) as cluster:

        async def is_led() -> bool:
            return (await cluster.leaders(0, "t")) == {0: 0}

        await until(is_led)
        assert await producers(cluster) == {7}


async def test_batches_that_were_in_flight_may_be_sent_again_after_a_clean_restart(
    tmp_path: Path,
) -> None:
    """A snapshot in Kafka's format holds the last batch of a producer alone."""
    async with running(tmp_path, brokers=1) as cluster:
        assert await cluster.create("t", 1) is ErrorCode.NONE
        for sequence in range(5):
            assert await produce(cluster, 7, sequence) is ErrorCode.NONE

    async with running(tmp_path, brokers=1) as cluster:

        async def is_led() -> bool:
            return (await cluster.leaders(0, "t")) == {0: 0}

        await until(is_led)
        for sequence in range(6):
            assert await produce(cluster, 7, sequence) is ErrorCode.NONE
        assert await cluster.end_offset(0, "t", 0) == (ErrorCode.NONE, 6)
