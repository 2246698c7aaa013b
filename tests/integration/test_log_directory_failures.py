"""A running broker loses a data directory, or has no room for a new log: clients are told that
nobody leads what cannot be served, and are served again as soon as it can.
"""

from __future__ import annotations

import errno
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message
from kbroker.record.record_batch import Record, build
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.membership import log_dir_events
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.running.waiting import until

PATIENCE_S = 30.0
PARTITIONS = 4


class Broker:
    """A broker with two data directories on a disk that can fail, and a client of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.disk = FailingFileSystem(RealFileSystem())
        self.directories = [str(tmp_path / "a"), str(tmp_path / "b")]
        self.server = self._server()

    def _server(self) -> KafkaServer:
        values = {
            "log.dirs": ",".join(self.directories),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "broker.id": "0",
        }
        config = KafkaConfig.for_profile("dev", values)
        return KafkaServer(config, file_system=self.disk)

    async def restart(self) -> None:
        await self.server.shutdown()
        self.disk.heal()
        self.server = self._server()
        await self.server.startup()

    async def ask(self, request: Message, highest_version: int) -> Any:
        client = BrokerClient(self.server.end_points[0], "test", 20_000)
        try:
            return await client.send(request, highest_version=highest_version)
        finally:
            client.close()

    async def create(self, topic: str, timeout_ms: int = 20_000) -> None:
        wanted = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=PARTITIONS, replication_factor=1
        )
        await self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=timeout_ms), 5)

    async def led(self, topic: str) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Leader and offline replicas by partition."""
        asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
        answer = await self.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9)
        return {
            p.partition_index: (p.leader_id, tuple(p.offline_replicas))
            for p in answer.topics[0].partitions
        }

    async def produce(self, topic: str, partition: int) -> ErrorCode:
        batch = build([Record(0, int(time.time() * 1000), b"k", b"v")])
        data = ProduceRequest.PartitionProduceData(
            index=partition, records=memoryview(bytearray(batch))
        )
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
        answer = await self.ask(request, 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def delete(self, topic: str, timeout_ms: int = 20_000) -> ErrorCode:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=timeout_ms)
        return ErrorCode((await self.ask(request, 3)).responses[0].error_code)

    def named(self, topic: str) -> list[str]:
        """List the directories of a topic's partitions on the disk, without those being deleted."""
        found = [p.name for d in self.directories for p in Path(d).glob(f"{topic}-*")]
        return [name for name in found if not name.endswith("-delete")]

    def directory_of(self, topic: str, partition: int) -> str:
        return next(d for d in self.directories if (Path(d) / f"{topic}-{partition}").is_dir())


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    await broker.server.startup()
    yield broker
    await broker.server.shutdown()


async def test_partitions_of_a_failed_directory_have_no_leader_until_the_broker_is_started_anew(
    broker: Broker,
) -> None:
    await broker.create("t")
    lost = {p for p in range(PARTITIONS) if broker.directory_of("t", p).endswith("b")}
    assert 0 < len(lost) < PARTITIONS
    broker.disk.fail("*", f"{broker.directories[1]}/*", times=None)
    assert await broker.produce("t", min(lost)) is ErrorCode.KAFKA_STORAGE_ERROR

    expected = {p: (-1, (0,)) if p in lost else (0, ()) for p in range(PARTITIONS)}

    async def is_told() -> bool:
        return await broker.led("t") == expected

    await until(is_told)
    sound = min(set(range(PARTITIONS)) - lost)
    assert await broker.produce("t", sound) is ErrorCode.NONE

    await broker.restart()
    assert await broker.led("t") == dict.fromkeys(range(PARTITIONS), (0, ()))
    for partition in range(PARTITIONS):
        assert await broker.produce("t", partition) is ErrorCode.NONE


async def test_a_broker_without_its_first_directory_names_itself_leader_of_what_it_serves_alone(
    broker: Broker,
) -> None:
    """The tree lies there: nothing can be written to it any more, and the controller cannot be
    told.
    """
    await broker.create("t")
    lost = {p for p in range(PARTITIONS) if broker.directory_of("t", p).endswith("a")}
    assert 0 < len(lost) < PARTITIONS
    broker.disk.fail("*", f"{broker.directories[0]}*", times=None)
    assert await broker.produce("t", min(lost)) is ErrorCode.KAFKA_STORAGE_ERROR

    expected = {p: (-1, (0,)) if p in lost else (0, ()) for p in range(PARTITIONS)}
    assert await broker.led("t") == expected
    sound = min(set(range(PARTITIONS)) - lost)
    assert await broker.produce("t", sound) is ErrorCode.NONE

    await broker.restart()
    assert await broker.led("t") == dict.fromkeys(range(PARTITIONS), (0, ()))


@pytest.mark.parametrize("at", range(1, 16))
async def test_a_topic_that_is_made_while_the_disk_fills_up_is_led_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch, at: int, broker: Broker
) -> None:
    """Full from the n-th write on, which may be one of the tree or of a log."""
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.05)
    for operation in ("write", "create directory"):
        broker.disk.fail(operation, number=errno.ENOSPC, at=at, times=None)
    await broker.create("t", timeout_ms=200)
    broker.disk.heal()
    await broker.create("t")

    async def is_led() -> bool:
        return await broker.led("t") == dict.fromkeys(range(PARTITIONS), (0, ()))

    await until(is_led)
    assert await broker.produce("t", 0) is ErrorCode.NONE
    assert broker.server.parts.data.logs.online_directories == broker.directories


async def test_a_topic_made_on_a_full_disk_is_led_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch, broker: Broker
) -> None:
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.1)
    broker.disk.fail("create directory", "*/t-*", number=errno.ENOSPC, times=None)
    await broker.create("t", timeout_ms=1_000)
    assert await broker.led("t") == dict.fromkeys(range(PARTITIONS), (-1, (0,)))

    broker.disk.heal()

    async def is_led() -> bool:
        return await broker.led("t") == dict.fromkeys(range(PARTITIONS), (0, ()))

    await until(is_led)
    assert await broker.produce("t", 0) is ErrorCode.NONE


@pytest.mark.parametrize("operation", ["rename", "open"])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOSPC])
async def test_a_topic_is_deleted_once_there_are_descriptors_again(
    monkeypatch: pytest.MonkeyPatch, operation: str, number: int, broker: Broker
) -> None:
    """The names are changed, and the directory could not be opened for its sync; or not even that.
    Neither is a fault of the disk.
    """
    monkeypatch.setattr(log_dir_events, "UNMADE_RETRY_S", 0.05)
    await broker.create("t")
    assert await broker.produce("t", 0) is ErrorCode.NONE
    pattern = "/t-?" if operation == "rename" else ""
    faults = [
        broker.disk.fail(operation, f"{directory}{pattern}", number=number, times=None)
        for directory in broker.directories
    ]

    async def is_refused() -> bool:
        return all(fault.hits for fault in faults)

    assert await broker.delete("t") is ErrorCode.NONE
    await until(is_refused)
    assert len(broker.named("t")) == (PARTITIONS if operation == "rename" else 0)
    assert "t" in await broker.server.parts.storage.zk.topics()
    broker.disk.heal()

    async def is_deleted() -> bool:
        return not await broker.server.parts.storage.zk.topics()

    await until(is_deleted)
    assert broker.named("t") == []
    assert broker.server.parts.data.logs.online_directories == broker.directories
    await broker.create("t")
    assert await broker.produce("t", 0) is ErrorCode.NONE
    await broker.restart()
    assert await broker.led("t") == dict.fromkeys(range(PARTITIONS), (0, ()))
