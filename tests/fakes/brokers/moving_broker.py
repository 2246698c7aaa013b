"""A broker's logs over two data directories in memory, and moves between them."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.replication.fetchers.fetcher_parts import CopyParts
from kbroker.replication.fetchers.replica_alter_log_dirs import ReplicaAlterLogDirsManager
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replication_quota import ReplicationQuotas
from tests.fakes.disks.power_disk import PowerDisk
from tests.fakes.logs.log_maker import PARTITION, batch, read_values
from tests.fakes.running.virtual_time import VirtualTime

A, B = "/a", "/b"
TOPIC_ID = UUID(int=7)
BROKER = 1
TURNS = 2000
ENOUGH = 1 << 30


class MovingBroker:
    """Its disk may be an image of another one's."""

    def __init__(self, disk: PowerDisk | None = None, **settings: Any) -> None:
        self.disk = disk or PowerDisk()
        self.time = VirtualTime()
        directories = LogDirectories.lock(self.disk, [A, B])
        self.logs = LogManager(
            directories, LogConfig, lambda _: TopicConfig(**settings), self.disk, self.time
        )
        self.logs.load("cluster", BROKER)
        self.offline: list[TopicPartition] = []
        self.logs.on_directory_offline(self._on_offline)
        self.hosted = HostedPartitions(MetadataCache(BROKER))
        self.woken: list[TopicPartition] = []
        parts = CopyParts(
            hosted=self.hosted,
            wake=self.woken.append,
            clock=self.time,
            backoff_ms=lambda: 1000,
            sleep=self.sleep,
        )
        self.quotas = ReplicationQuotas(BROKER)
        self.moves = ReplicaAlterLogDirsManager(
            parts, lambda: self.logs.futures, lambda: 2, self.quotas.moving
        )
        self.before_turn = lambda: None

    async def sleep(self, seconds: float) -> None:
        self.time.advance(seconds * 1000)
        await asyncio.sleep(0)
        self.before_turn()

    def _on_offline(self, _path: str, partitions: list[TopicPartition], _error: Any) -> None:
        self.offline += partitions
        for topic_partition in partitions:
            self.hosted.set_offline(topic_partition)

    def lead(self, topic_partition: TopicPartition = PARTITION, epoch: int = 0) -> Partition:
        """Lead a partition, made where there is none."""
        partition = self.hosted.find(topic_partition)
        if partition is None:
            log = self.logs.get_or_create_log(topic_partition, TOPIC_ID)
            partition = Partition(topic_partition, log, BROKER)
            self.hosted.add(partition)
        order = LeaderAndIsr(leader=BROKER, leader_epoch=epoch, isr=(BROKER,), partition_epoch=0)
        partition.make_leader(order, ReplicaAssignment(replicas=(BROKER,)), 0, 0)
        self.moves.on_leadership_change([partition], [])
        return partition

    def append(self, partition: Partition, *values: bytes, **options: Any) -> None:
        """One batch for each value, as a client with acks=all sends it."""
        for value in values:
            partition.append_records_to_leader(batch(value, **options), -1, 1, 0)  # type: ignore[arg-type]

    async def alter(self, path: str, topic_partition: TopicPartition = PARTITION) -> ErrorCode:
        return await self.moves.alter(topic_partition, path)

    async def settle(self) -> None:
        """Until nothing moves any more."""
        for _ in range(TURNS):
            if not self.logs.all_futures():
                return
            await asyncio.sleep(0)

    def names(self, path: str) -> list[str]:
        """Kinds of partition directories: `t-0`, or the suffix of one that is moved."""
        found = [n for n in self.disk.list(path) if n.startswith("t-")]
        return sorted(n if "." not in n else n.rpartition("-")[2] for n in found)

    async def stop(self) -> None:
        """Stop cleanly."""
        await self.moves.shutdown()
        self.logs.shutdown()


def values_of(log: Log) -> list[bytes | None]:
    """All values from the log start to its end."""
    values: list[bytes | None] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = bytes(log.read(offset, ENOUGH, FetchIsolation.LOG_END, True).records.read())
        values += read_values(found)
        offset = _end_of(log, found)
    return values


def _end_of(log: Log, found: bytes) -> int:
    from kbroker.record.legacy_record import read_any_header

    position, end = 0, log.log_end_offset
    while len(found) - position >= 61:
        header = read_any_header(memoryview(found), position)
        position, end = position + header.size_bytes, header.next_offset
    return end
