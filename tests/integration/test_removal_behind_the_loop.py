"""Retention of many segments and deletion of many partitions: the event loop of a running broker
waits for no sync, and renames and removes no file of a segment itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.record.record_batch import Record, build
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.disks.failing_file_system import FailingFileSystem, Fault
from tests.fakes.running.waiting import until

SEGMENTS = 80
PARTITIONS = 30
HOUR_MS = 3_600_000
SLOW = ("fsync", "rename", "remove")


class WatchedFileSystem(FailingFileSystem):
    """Counts (operation, is it on the main thread); neither of the tree's own files, nor of leader
    epochs, which the log start changes once. `removed` are names of files.
    """

    def __init__(self) -> None:
        super().__init__(RealFileSystem())
        self.counts: Counter[tuple[str, bool]] = Counter()
        self.removed: set[str] = set()

    def check(self, operation: str, path: str) -> Fault | None:
        if operation in SLOW and "/kbroker-" not in path and "/leader-epoch-" not in path:
            is_main = threading.current_thread() is threading.main_thread()
            self.counts[operation, is_main] += 1
            if operation == "remove":
                self.removed.add(os.path.basename(path))
        return super().check(operation, path)


def names(path: Path, pattern: str) -> list[str]:
    return [found.name for found in path.glob(pattern)]


async def test_the_loop_removes_nothing_itself(tmp_path: Path) -> None:
    disk = WatchedFileSystem()
    values = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.id": "0",
        "log.initial.task.delay.ms": str(HOUR_MS),
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", values), file_system=disk)
    await server.startup()
    client = BrokerClient(server.end_points[0], "test", 30_000)
    try:
        await create(client, "old", 1)
        await create(client, "wide", PARTITIONS)
        fill(server)
        disk.counts.clear()

        await expire(server, tmp_path, disk)
        retention = disk.counts.copy()
        disk.counts.clear()
        await delete(client, server, tmp_path)
        deletion = disk.counts.copy()
    finally:
        client.close()
        await server.shutdown()

    assert retention["rename", False] >= 3 * SEGMENTS
    assert retention["remove", False] >= 4 * SEGMENTS
    assert {operation for operation, is_main in retention if is_main} == set()
    assert deletion["remove", False] == PARTITIONS
    assert deletion["fsync", False] < PARTITIONS
    assert {operation for operation, is_main in deletion if is_main} == {"rename"}
    assert deletion["rename", True] == PARTITIONS


async def create(client: BrokerClient, name: str, partitions: int) -> None:
    settings = {"segment.bytes": "300", "retention.ms": "1000", "file.delete.delay.ms": "0"}
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in settings.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
    answer = await client.send(request, highest_version=5)
    assert answer.topics[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def fill(server: KafkaServer) -> None:
    log = server.parts.data.logs.get_log(TopicPartition("old", 0))
    assert log is not None
    for number in range(SEGMENTS):
        log.append_as_leader(bytearray(build([Record(0, number, b"k", b"v" * 200)])), 0, number)
    log.update_high_watermark(log.log_end_offset)
    log.flush(and_closed=True)


async def expire(server: KafkaServer, data: Path, disk: WatchedFileSystem) -> None:
    now_ms = int(time.time() * 1000)
    server.parts.data.logs.cleanup(now_ms)
    await until(lambda: len(names(data, "old-0/*.log")) == 1)
    server.parts.data.logs.cleanup(now_ms + HOUR_MS)
    last_name = f"{SEGMENTS - 1:020}.txnindex"  # which nobody made
    await until(lambda: last_name in disk.removed and not names(data, "old-0/*.deleted"))


async def delete(client: BrokerClient, server: KafkaServer, data: Path) -> None:
    request = DeleteTopicsRequest(topic_names=["wide"], timeout_ms=20_000)
    await client.send(request, highest_version=3)
    await until(lambda: not [n for n in names(data, "wide-*") if not n.endswith("-delete")])

    def is_gone() -> bool:
        server.parts.data.logs.cleanup(int(time.time() * 1000) + HOUR_MS)
        return not names(data, "wide-*")

    await until(is_gone)
