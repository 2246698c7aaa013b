"""Brokers that copy from each other: each has a real ReplicaManager over logs on a disk in memory,
real fetchers and the real handlers. A test is their controller, and their network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self

from kbroker.apis import registry
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.config.log_config import LogConfig
from kbroker.config.replication_config import ReplicationConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.disk.file_system import StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import Broker, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.protocol.schema import Message
from kbroker.replication.fetchers.fetcher_parts import FetcherParts, Follower, FollowerThrottle
from kbroker.replication.fetchers.replica_fetcher_manager import ReplicaFetcherManager
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replica_manager import ReplicaManager
from tests.fakes.clusters.replication_cluster import (
    leader_and_isr,
    partition_metadata,
    stop_replica,
    topic_id_of,
    update_metadata,
)
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import batch, read_values
from tests.fakes.logs.verified_batches import verified
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.request_frames import answer_to, frame_of, response_of
from tests.fakes.running.virtual_loop import LoopClock, VirtualLoop

T = TopicPartition("t", 0)
DIRECTORY = "/data"
LATENCY_S = 0.001
STEP_S = LATENCY_S / 2
SETTLED_S = 3.0  # longer than a pause after an error, and the longest wait of a fetch

Answering = Callable[[Message, Any], Any]
"""Sees each request of a follower with its answer, which it may change, hold back or replace by
raising."""


@dataclass(slots=True)
class Asked:
    """A request between brokers."""

    sender: int
    target: int
    request: Any
    version: int


class TrustingPeers:
    """Believes every sender."""

    def are_heard_on(self, _listener_name: str) -> bool:
        return True

    def is_known(self, _claim: object) -> bool:
        return True

    async def broker_refusal(self, _claim: object) -> ErrorCode:
        return ErrorCode.NONE


class CopyingBroker:
    """One broker, from a start to a stop."""

    def __init__(self, cluster: CopyingCluster, broker_id: int) -> None:
        self.broker_id = broker_id
        self.disk = cluster.disks[broker_id]
        self.metadata = MetadataCache(broker_id, "cluster")
        clock, config = cluster.clock, cluster.config
        self.clock = clock
        self.logs = LogManager(
            LogDirectories.lock(self.disk, [DIRECTORY], None),
            lambda: LogConfig(num_recovery_threads_per_data_dir=1),
            lambda _topic: cluster.topic,
            self.disk,
            clock,
        )
        self.logs.load("cluster", broker_id)
        self.replicas = ReplicaManager(self.logs, self.metadata, clock, clock, config)
        self.logs.on_directory_offline(self._directory_offline)
        self.fetchers = ReplicaFetcherManager(
            FetcherParts(
                hosted=self.replicas.hosted,
                wake=self.replicas.waiting.wake,
                clock=clock,
                throttle=FollowerThrottle(
                    self.replicas.quotas,
                    self.replicas.hosted,
                    clock,
                    lambda: config.replica_fetch_backoff_ms,
                ),
                backoff_ms=lambda: config.replica_fetch_backoff_ms,
            ),
            Follower(
                broker_id=broker_id,
                broker_epoch=lambda: 7,
                config=config,
                uses_topic_ids=cluster.uses_topic_ids,
            ),
            self.replicas.leadership.live_broker,
            lambda broker: CopyingClient(cluster, broker_id, broker),
            lambda: cluster.fetchers_per_broker,
        )
        self.replicas.leadership.add_leadership_listener(self.fetchers.on_leadership_change)
        nothing: Any = None
        peers: Any = TrustingPeers()
        settings: Any = SimpleNamespace()
        self.apis = KafkaApis(
            registry.registered(),
            Services(
                replicas=self.replicas,
                groups=nothing,
                transactional=nothing,
                metadata=self.metadata,
                topics=nothing,
                configs=nothing,
                producer_ids=nothing,
                controller=nothing,
                control=nothing,
                peers=peers,
                forwarding=nothing,
                config=settings,
                clock=clock,
            ),
        )

    async def stop(self) -> None:
        await self.fetchers.shutdown()
        self.replicas.shutdown()
        self.logs.shutdown()

    def partition(self, topic_partition: TopicPartition = T) -> Partition:
        return self.replicas.hosted.get(topic_partition)

    def log(self, topic_partition: TopicPartition = T) -> Log:
        return self.partition(topic_partition).log

    def values(self, topic_partition: TopicPartition = T) -> list[bytes | None]:
        """Of the records from the log start on, committed or not."""
        return read_values(self.content(topic_partition))

    def content(self, topic_partition: TopicPartition = T) -> bytes:
        """The bytes of all segments, in their order."""
        directory = f"{DIRECTORY}/{topic_partition}"
        names = sorted(name for name in self.disk.list(directory) if name.endswith(".log"))
        return b"".join(self.disk.read_bytes(f"{directory}/{name}") for name in names)

    def epochs(self, topic_partition: TopicPartition = T) -> list[tuple[int, int]]:
        """Epochs with their start offsets; a leader has one more while it has appended nothing."""
        log = self.log(topic_partition)
        entries: list[EpochEntry] = log.leader_epoch_cache.entries
        return [tuple(entry) for entry in entries if entry.start_offset < log.log_end_offset]

    def append(
        self,
        *values: bytes,
        to: TopicPartition = T,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        **options: Any,
    ) -> None:
        """As its leader, one batch."""
        self.append_batch(batch(*values, **options), to, origin)

    def append_batch(
        self,
        data: bytearray,
        to: TopicPartition = T,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> None:
        partition = self.partition(to)
        verified(partition.log, data)
        partition.append_records_to_leader(data, 1, self.clock.now_ms(), origin)
        self.replicas.waiting.wake(to)

    def _directory_offline(
        self, _path: str, partitions: list[TopicPartition], _error: StorageError
    ) -> None:
        self.replicas.leadership.partitions_offline(partitions)


class CopyingClient:
    """Fulfils PeerClient: the requests of one fetcher, as bytes."""

    def __init__(self, cluster: CopyingCluster, sender: int, target: Broker) -> None:
        self._cluster = cluster
        self._link = sender, target.broker_id
        self.is_closed = False

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        cluster, (sender, target) = self._cluster, self._link
        version = request.spec.versions.highest
        if isinstance(request, FetchRequest):
            version = min(version, cluster.fetch_version_max)
        if highest_version is not None:
            version = min(version, highest_version)
        cluster.asked.append(Asked(sender, target, request, version))
        frame = frame_of(request, version)
        await asyncio.sleep(LATENCY_S)
        broker = cluster.check_reached(self._link)
        assert timeout_ms is not None
        assert not self.is_closed
        async with asyncio.timeout(timeout_ms / 1000):
            data = await answer_to(broker.apis, frame, local_connection())
            await asyncio.sleep(LATENCY_S)
            cluster.check_reached(self._link)
            response = response_of(request, version, data)
            for see in cluster.answering:
                seen = see(request, response)
                if seen is not None:
                    await seen
        return response

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        assert timeout_ms is not None
        assert key == FetchRequest.spec.key
        await asyncio.sleep(LATENCY_S)
        self._cluster.check_reached(self._link)
        return version <= self._cluster.fetch_version_max

    def close(self) -> None:
        self.is_closed = True


class CopyingCluster:
    """Brokers by id, with disks that outlive them. It needs a VirtualLoop."""

    def __init__(
        self,
        *broker_ids: int,
        topic: TopicConfig | None = None,
        uses_topic_ids: bool = True,
        **config: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = LoopClock(loop)
        self.topic = topic or TopicConfig()
        self.config = ReplicationConfig(**config)
        self.uses_topic_ids = uses_topic_ids
        self.fetchers_per_broker = 1
        self.asked: list[Asked] = []
        self.answering: list[Answering] = []
        self.cut_links: set[tuple[int, int]] = set()  # (follower, leader)
        self.fetch_version_max = 99  # that the brokers know
        self.disks = {broker_id: self.empty_disk() for broker_id in broker_ids}
        self.brokers: dict[int, CopyingBroker] = {}
        self.leaders: dict[TopicPartition, tuple[int, int, tuple[int, ...], tuple[int, ...]]] = {}
        for broker_id in broker_ids:
            self.start(broker_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:
            for broker in self.brokers.values():
                stack.push_async_callback(broker.stop)

    def __getitem__(self, broker_id: int) -> CopyingBroker:
        return self.brokers[broker_id]

    # The controller.

    def order(
        self,
        leader: int,
        epoch: int,
        *,
        of: TopicPartition = T,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] | None = None,
        to: tuple[int, ...] | None = None,
    ) -> None:
        """Who leads from now on; `to` all brokers that run, or to these alone. The ISR is all of
        them, where nothing else is said.
        """
        everybody = replicas or tuple(self.disks)
        self.leaders[of] = (leader, epoch, isr or everybody, everybody)
        for broker_id in to if to is not None else tuple(self.brokers):
            self.tell(broker_id, of)

    def tell(self, broker_id: int, of: TopicPartition = T) -> None:
        """One broker hears what was ordered last."""
        leader, epoch, isr, replicas = self.leaders[of]
        where: Any = {"leader": leader, "leader_epoch": epoch, "isr": isr, "replicas": replicas}
        state = partition_metadata(of.partition, **where)
        broker = self.brokers[broker_id]
        broker.metadata.update(update_metadata((of.topic, state), brokers=self.brokers))
        if broker_id in replicas:
            request = leader_and_isr(
                of.topic, of.partition, topic_id=topic_id_of(of.topic), **where
            )
            broker.replicas.leadership.become_leader_or_follower(request)

    def stop_replica(self, broker_id: int, of: TopicPartition = T, *, delete: bool) -> None:
        _, epoch, _, _ = self.leaders[of]
        self.brokers[broker_id].replicas.leadership.stop_replicas(
            stop_replica(of.topic, of.partition, leader_epoch=epoch, delete=delete)
        )

    # Processes and time.

    def start(self, broker_id: int, *, with_metadata: bool = True) -> None:
        """Start a broker on what its disk holds; it hears of nothing yet but of the others."""
        broker = self.brokers[broker_id] = CopyingBroker(self, broker_id)
        if with_metadata:
            broker.metadata.update(self.description())

    def description(self) -> UpdateMetadataRequest:
        """All brokers, and no partition."""
        return update_metadata(brokers=self.brokers)

    async def stop(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).stop()

    async def until(self, is_so: Callable[[], object], seconds: float = 10) -> None:
        """Return as soon as it is."""
        for _ in range(int(seconds / STEP_S)):
            if is_so():
                return
            await asyncio.sleep(STEP_S)
        raise AssertionError("it never was")

    async def settle(self, seconds: float = SETTLED_S) -> None:
        """Let everything happen that is under way."""
        await asyncio.sleep(seconds)

    def check_reached(self, link: tuple[int, int]) -> CopyingBroker:
        """The broker that is asked. Raises OSError."""
        broker = self.brokers.get(link[1])
        if broker is None or link in self.cut_links:
            raise ConnectionRefusedError(f"broker {link[1]} is not reached")
        return broker

    def fetches(self, sender: int) -> list[FetchRequest]:
        """Of a follower, so far."""
        return [
            asked.request
            for asked in self.asked
            if asked.sender == sender and isinstance(asked.request, FetchRequest)
        ]

    def check_equal(self, of: TopicPartition = T, *broker_ids: int) -> None:
        """Logs, epochs and high watermarks are the same everywhere."""
        first, *others = (self.brokers[each] for each in broker_ids or tuple(self.brokers))
        for other in others:
            assert other.content(of) == first.content(of)
            assert other.epochs(of) == first.epochs(of)
            assert other.log(of).log_start_offset == first.log(of).log_start_offset
            assert other.log(of).log_end_offset == first.log(of).log_end_offset
            assert other.log(of).high_watermark == first.log(of).high_watermark

    def empty_disk(self) -> FailingFileSystem:
        disk = FailingFileSystem(MemoryFileSystem(now_ms=self.clock.now_ms))
        disk.make_directory(DIRECTORY)
        return disk
