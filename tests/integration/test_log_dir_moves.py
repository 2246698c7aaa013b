"""A running broker moves partitions between its data directories, as requests of clients ask."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message
from kbroker.record.record_batch import Record, build
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.running.waiting import until


class Broker:
    """One broker with two data directories, and a client of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.directories = [str(tmp_path / "a"), str(tmp_path / "b")]
        self.server = self._server()

    def _server(self) -> KafkaServer:
        values = {
            "log.dirs": ",".join(self.directories),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "broker.id": "0",
            "kbroker.flush": "acks-all",
        }
        return KafkaServer(KafkaConfig.for_profile("dev", values))

    async def restart(self) -> None:
        await self.server.shutdown()
        self.server = self._server()
        await self.server.startup()

    async def ask(self, request: Message, highest_version: int) -> Any:
        client = BrokerClient(self.server.end_points[0], "test", 20_000)
        try:
            return await client.send(request, highest_version=highest_version)
        finally:
            client.close()

    async def create(self, topic: str) -> None:
        wanted = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=1, replication_factor=1
        )
        await self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=20_000), 5)

    async def produce(self, topic: str, value: bytes = b"v") -> ErrorCode:
        batch = build([Record(0, int(time.time() * 1000), b"k", value)])
        data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
        answer = await self.ask(request, 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def end_offset(self, topic: str) -> int:
        kind = ListOffsetsRequest
        named = kind.ListOffsetsTopic(
            name=topic, partitions=[kind.ListOffsetsPartition(partition_index=0, timestamp=-1)]
        )
        answer = await self.ask(kind(replica_id=-1, topics=[named]), 7)
        return int(answer.topics[0].partitions[0].offset)

    async def move(self, topic: str, path: str) -> ErrorCode:
        kind = AlterReplicaLogDirsRequest
        named = kind.AlterReplicaLogDirTopic(name=topic, partitions=[0])
        answer = await self.ask(kind(dirs=[kind.AlterReplicaLogDir(path=path, topics=[named])]), 2)
        return ErrorCode(answer.results[0].partitions[0].error_code)

    async def places(self, topic: str) -> list[tuple[str, bool]]:
        """(path, whether it is a future replica) of partition 0."""
        answer = await self.ask(DescribeLogDirsRequest(topics=None), 4)
        return [
            (result.log_dir, row.is_future_key)
            for result in answer.results
            for named in result.topics
            if named.name == topic
            for row in named.partitions
        ]

    async def moved(self, topic: str, path: str) -> None:
        async def is_there() -> bool:
            return await self.places(topic) == [(path, False)]

        await until(is_there)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    await broker.server.startup()
    yield broker
    await broker.server.shutdown()


async def test_a_partition_moves_while_it_is_written_to(broker: Broker) -> None:
    await broker.create("t")
    ((home, _),) = await broker.places("t")
    (target,) = (path for path in broker.directories if path != home)
    for _ in range(30):
        await broker.produce("t", b"v" * 50_000)

    assert await broker.move("t", target) is ErrorCode.NONE
    for _ in range(30):
        assert await broker.produce("t") is ErrorCode.NONE
    await broker.moved("t", target)
    assert await broker.produce("t") is ErrorCode.NONE

    assert await broker.end_offset("t") == 61
    await broker.restart()
    assert await broker.places("t") == [(target, False)]
    assert await broker.end_offset("t") == 61
    assert await broker.produce("t") is ErrorCode.NONE


async def test_a_move_that_a_stop_interrupts_goes_on(broker: Broker) -> None:
    await broker.create("t")
    ((home, _),) = await broker.places("t")
    (target,) = (path for path in broker.directories if path != home)
    for _ in range(20):
        await broker.produce("t", b"v" * 900_000)
    await broker.move("t", target)
    await broker.restart()

    await broker.moved("t", target)
    assert await broker.end_offset("t") == 20


async def test_a_topic_is_made_where_it_is_wanted(broker: Broker) -> None:
    for number, path in enumerate(broker.directories * 2):
        topic = f"t{number}"
        assert await broker.move(topic, path) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await broker.create(topic)
        assert await broker.places(topic) == [(path, False)]


async def test_a_partition_moves_there_and_back(broker: Broker) -> None:
    await broker.create("t")
    for path in broker.directories * 2:
        assert await broker.produce("t") is ErrorCode.NONE
        assert await broker.move("t", path) is ErrorCode.NONE
        await broker.moved("t", path)

    assert await broker.end_offset("t") == 4
