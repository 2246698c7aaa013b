"""A client of a LocalCluster that runs in the test's own event loop."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.model import NO_LEADER
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message
from kbroker.record.record_batch import Record, build
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.start.local_cluster import LocalCluster
from kbroker.server.start.local_configs import configs_of_brokers
from tests.fakes.running.waiting import until

PATIENCE_S = 30.0


class Cluster:
    """A running cluster and a client of it."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local

    def server(self, number: int) -> KafkaServer:
        assert number >= 0, "a partition without a leader has no server"
        server = self.local.servers[number]
        assert server is not None
        return server

    @property
    def controller(self) -> int:
        return next(n for n, s in enumerate(self.local.servers) if s and s.is_controller)

    async def ask(self, number: int, request: Message, highest_version: int | None = None) -> Any:
        client = BrokerClient(self.server(number).end_points[0], "test", 20_000)
        try:
            return await client.send(request, highest_version=highest_version)
        finally:
            client.close()

    async def create(
        self, topic: str, partitions: int, through: int = 0, *, replicas: int = 1
    ) -> ErrorCode:
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=topic, num_partitions=partitions, replication_factor=replicas
                )
            ],
            timeout_ms=20_000,
        )
        return ErrorCode((await self.ask(through, request)).topics[0].error_code)

    async def leaders(self, through: int, topic: str) -> dict[int, int]:
        """Leader by partition, as one broker tells it."""
        asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
        answer = await self.ask(
            through, MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9
        )
        return {p.partition_index: p.leader_id for p in answer.topics[0].partitions}

    async def all_leaders(self, through: int, topic: str) -> dict[int, int]:
        """The same, once one broker knows a leader of every partition."""

        async def find() -> dict[int, int] | None:
            found = await self.leaders(through, topic)
            return None if NO_LEADER in found.values() else found

        return await until(find)

    async def produce(self, number: int, topic: str, partition: int, value: bytes) -> ErrorCode:
        batch = build([Record(0, int(time.time() * 1000), b"k", value)])
        data = ProduceRequest.PartitionProduceData(
            index=partition, records=memoryview(bytearray(batch))
        )
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
        answer = await self.ask(number, request, 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def end_offset(self, number: int, topic: str, partition: int) -> tuple[ErrorCode, int]:
        asked = FetchRequest.FetchTopic(
            topic=topic,
            partitions=[
                FetchRequest.FetchPartition(
                    partition=partition, fetch_offset=0, partition_max_bytes=1_000_000
                )
            ],
        )
        answer = await self.ask(number, FetchRequest(max_wait_ms=0, topics=[asked]), 11)
        found = answer.responses[0].partitions[0]
        return ErrorCode(found.error_code), found.high_watermark

    async def coordinator(self, number: int, group: str) -> int:
        async def find() -> int | None:
            answer = await self.ask(number, FindCoordinatorRequest(key=group), 3)
            return None if answer.error_code else int(answer.node_id)

        return int(await until(find))


@asynccontextmanager
async def running(directory: Path, *, brokers: int, **settings: str) -> AsyncIterator[Cluster]:
    """A cluster that was started, and is stopped after."""
    values = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0"}
    values["log.retention.ms"] = "-1"  # batches of tests have times of 1970
    config = KafkaConfig.for_profile("dev", {**values, **settings})
    local = LocalCluster(configs_of_brokers(config, brokers), str(directory))
    await local.startup()
    try:
        yield Cluster(local)
    finally:
        await local.shutdown()
