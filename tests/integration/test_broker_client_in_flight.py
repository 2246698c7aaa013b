"""A BrokerClient with several requests in flight to a broker that runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.record.record_batch import Record, build
from kbroker.server.broker.kafka_server import KafkaServer

VALUE = os.urandom(900_000)
BATCHES = 8


async def create(client: BrokerClient) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answer = await client.send(CreateTopicsRequest(topics=[topic]), highest_version=5)
    assert answer.topics[0].error_code == ErrorCode.NONE


async def produce(client: BrokerClient, number: int) -> int:
    data = ProduceRequest.PartitionProduceData(
        records=build([Record(0, number, b"%d" % number, VALUE)])
    )
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    answer = await client.send(ProduceRequest(acks=1, topic_data=[topic]), highest_version=8)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NONE
    return int(partition.base_offset)


async def fetch(client: BrokerClient, offset: int) -> bytes:
    partition = FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic="t", partitions=[partition])
    answer = await client.send(FetchRequest(topics=[topic], max_bytes=1 << 20), highest_version=12)
    return bytes(answer.responses[0].partitions[0].records)


@pytest.mark.both_loops
async def test_large_and_small_answers_reach_those_who_asked(tmp_path: Path) -> None:
    values = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "0",
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", values))
    await server.startup()
    client = BrokerClient(server.end_points[0], "1", 20_000)
    try:
        await create(client)
        offsets = await asyncio.gather(*[produce(client, n) for n in range(BATCHES)])
        assert offsets == [*range(BATCHES)]  # appended in the order of the calls

        asked: list[Any] = []
        for offset in range(BATCHES):
            asked += [fetch(client, offset), client.send(MetadataRequest())]
        answers = await asyncio.gather(*asked)
        assert all(answer.brokers for answer in answers[1::2])
        for offset, records in enumerate(answers[::2]):
            assert int.from_bytes(records[:8]) == offset
            assert VALUE in records
    finally:
        client.close()
        await server.shutdown()
