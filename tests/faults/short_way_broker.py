"""A whole broker on a loop of virtual time and a real directory, reached over wires in memory: with
the short way of repeated requests (see `kbroker/apis/lanes`), or without.
"""

from __future__ import annotations

import asyncio
import struct
from collections import ChainMap
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID
from zlib import crc32

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType, PatternType
from kbroker.apis import registry
from kbroker.apis.authorizer import ALLOW_ALL, Authorizer
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import Api
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.model import TopicPartition
from kbroker.network.channel import Channel
from kbroker.network.request_channel import RequestChannel
from kbroker.network.request_handler_pool import KafkaRequestHandlerPool
from kbroker.protocol.request import ConnectionInfo
from kbroker.quotas.quota_keys import ClientQuotaType
from kbroker.replication.partitions.partition import Partition
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from tests.fakes.acls.ruled_authorizer import RuledAuthorizer
from tests.fakes.clusters.replication_cluster import (
    leader_and_isr,
    partition_metadata,
    stop_replica,
    update_metadata,
)
from tests.fakes.requests.memory_wire import MemoryWire
from tests.fakes.requests.recording_quotas import RecordingQuotas
from tests.fakes.running.virtual_loop import LoopClock, VirtualLoop
from tests.fakes.trees.simulated_tree import Ensemble, TreeWeather
from tests.faults.cluster_network import ClusterNetwork, NetworkWeather, SimulatedChannels
from tests.faults.cluster_process import BrokerProcess, Machine
from tests.faults.short_way_requests import REPEATED, TOPICS

BROKER_ID, FOLLOWER_ID = 1, 2
ADMIN = "User:admin"
PRINCIPALS = ("User:ANONYMOUS", "User:ann", "User:eve")
_MAX_FRAME_BYTES = 100_000
_TOPIC, _GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
_OPERATIONS = (
    (AclOperation.READ,),
    (AclOperation.WRITE,),
    (AclOperation.DESCRIBE,),
    (AclOperation.ALL,),
)


class Denying:
    """An Authorizer that refuses some topics and some groups."""

    def authorize(
        self, _connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        return crc32(f"{operation}{resource.name}".encode()) % 4 != 0

    async def authorize_by_resource_type(
        self, _connection: ConnectionInfo, _operation: AclOperation, _type: AclResourceType
    ) -> bool:
        return True


class Sparing(RecordingQuotas):
    """Quotas of bytes that pause some connections for a while."""

    def __init__(self) -> None:
        super().__init__(kinds=frozenset({ClientQuotaType.PRODUCE, ClientQuotaType.FETCH}))

    def use(self, *used: Any) -> int:
        return max(0, int(used[-1]) % 13 - 9)


class HuntedConnection:
    """One connection, and all bytes that went over it."""

    def __init__(self, broker: HuntedBroker, number: int) -> None:
        self.wire = MemoryWire(
            ConnectionInfo(
                connection_id=f"127.0.0.1:9092-127.0.0.1:{50_000 + number}-0",
                listener_name="PLAINTEXT",
                security_protocol="PLAINTEXT",
                local_host="127.0.0.1",
                local_port=9092,
                peer_host="127.0.0.1",
                peer_port=50_000 + number,
                number=number,
            )
        )
        self.channel = Channel(broker, self.wire)
        self.unsent = bytearray()
        self._seen = self._read = 0

    async def open(self) -> None:
        await self.wire.open(self.channel)

    async def deliver(self, pieces: list[bytes]) -> None:
        """Send these bytes as far as they are taken; the rest follows with the next ones."""
        for piece in pieces:
            self.unsent += piece
            self._pour()
            await asyncio.sleep(0)
        for _ in range(3):
            self._pour()
            await asyncio.sleep(0)

    def _pour(self) -> None:
        while self.unsent:
            taken = self.wire.receive(memoryview(bytes(self.unsent)))
            if not taken:
                return
            del self.unsent[:taken]

    def news(self) -> bytes:
        """Bytes that have come since the last call."""
        seen, self._seen = self._seen, len(self.wire.sent)
        return bytes(self.wire.sent[seen:])

    def answers(self) -> list[bytes]:
        """The whole answers that have come since the last call, without their sizes."""
        found, sent = [], self.wire.sent
        while self._read + 4 <= len(sent):
            (size,) = struct.unpack_from(">i", sent, self._read)
            start = self._read + 4
            if start + size > len(sent):
                break
            found.append(bytes(sent[start : start + size]))
            self._read = start + size
        return found


class LonelyDisk(RealFileSystem):
    """Files on a volume that nobody else fills: both brokers have the same room left."""

    def free_bytes(self, path: str) -> int:
        return 1 << 33

    def total_bytes(self, path: str) -> int:
        return 1 << 34


class HuntedBroker:
    """The broker, and a ChannelOwner for its connections."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        takes_short_way: bool,
        under_rules: bool = False,
        **settings: str,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = LoopClock(loop)
        self.takes_short_way = takes_short_way
        self.authorizer = RuledAuthorizer(super_users={ADMIN})
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP):
            self.authorizer.set(kind, "", AclOperation.ALL, pattern_type=PatternType.PREFIXED)
        self._open: Authorizer = self.authorizer if under_rules else ALLOW_ALL
        self.directories = [directory / name for name in "ab"]
        random = Random(seed)
        weather = TreeWeather(random, slow=0.0, watch_slow=0.0)
        machine = Machine(
            broker_id=BROKER_ID,
            disk=LonelyDisk(),  # type: ignore[arg-type]
            ensemble=Ensemble(EmbeddedTree(self.clock), loop, weather),
            clock=self.clock,
            random=random,
            settings={
                **settings,
                "log.dirs": ",".join(str(each) for each in self.directories),
                "log.cleaner.enable": "false",
                "log.index.size.max.bytes": "4096",
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.num.partitions": "1",
                "group.initial.rebalance.delay.ms": "0",
            },
        )
        self.process = BrokerProcess(machine, 1)
        self.processes = {BROKER_ID: self.process}
        quiet = NetworkWeather(random, slow=0.0, lost_requests=0.0, lost_answers=0.0)
        self._network = ClusterNetwork(loop, quiet, self.processes)
        self._connections = 0

    async def start(self) -> None:
        """Return when it serves."""
        for each in self.directories:
            each.mkdir(parents=True)
        channels = SimulatedChannels(self._network, self.process)
        await self.loop.start(self.process.start(channels), self.process.owner, "start")
        # It is the history that says who is in sync.
        self.process.replicas.leadership.isr_changes = None
        server = self.process.parts.socket_server
        processor = server.processor
        self.buffers, self.lines, self.room = processor.buffers, processor.lines, processor.room
        self.unserved = processor.unserved
        self.protocol_errors = processor.protocol_errors
        self.max_frame_bytes = _MAX_FRAME_BYTES
        self.tell_protocol_error = processor.tell_protocol_error
        self.serve_anew()

    def serve_anew(self, *, denies: bool = False, throttles: bool = False) -> None:
        """Answer as a broker that was started again, with or without authorizer and quotas."""
        services = self._services(denies=denies, throttles=throttles)
        apis = registry.registered()
        decoding: dict[int, Api] = {}
        if not self.takes_short_way:
            for key in REPEATED:
                decoding[key] = replace(apis[key], repeats=False, known=None)
        self.request_channel = RequestChannel(500)
        self.apis = KafkaApis(ChainMap(decoding, apis), services)  # type: ignore[arg-type]
        self.room = self.apis.room
        pool = KafkaRequestHandlerPool(self.apis.handle, self.request_channel)
        pool.start()
        if not self.takes_short_way:
            self.request_channel.settle = None

    def ask_others(self, *, denies: bool, throttles: bool) -> None:
        """Change authorizer and quotas while connections are open."""
        self.apis.use(self._services(denies=denies, throttles=throttles))

    def _services(self, *, denies: bool, throttles: bool) -> Services:
        services: Services = replace(
            self.process.parts.services,
            authorizer=Denying() if denies else self._open,
            quotas=Sparing() if throttles else None,
        )
        return services

    def change_rules(self, random: Random) -> None:
        """Allow or deny somebody something, or take a rule back."""
        kind, name = random.choice((*(((_TOPIC, topic)) for topic in TOPICS), (_GROUP, "g")))
        operations = random.choice(_OPERATIONS)
        what = random.choice((0, 1, 1, 2))
        self.authorizer.set(
            kind,
            name,
            *(operations if what == 0 else ()),
            denied=operations if what == 1 else (),
            who=random.choice(("User:*", *PRINCIPALS)),
            pattern_type=random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        )

    def revoke(self, topic: str) -> None:
        """Let nobody read a topic any more, also who waits for records of it."""
        self.authorizer.set(_TOPIC, topic, denied=(AclOperation.READ,))

    async def connect(self, principal: str = PRINCIPALS[0]) -> HuntedConnection:
        self._connections += 1
        connection = HuntedConnection(self, self._connections)
        connection.wire.connection.principal = principal
        await connection.open()
        return connection

    def channel_opened(self, channel: Channel) -> None:
        pass

    def channel_closed(self, channel: Channel) -> None:
        pass

    def counters(self) -> str:
        """All that was counted since it serves."""
        return (
            f"{self.request_channel.requests.value} requests came, {self.apis.stats.requests} were "
            f"answered, {self.apis.stats.trailing_bytes.value} had trailing bytes, "
            f"{self.apis.stats.bugs.value} bugs, {self.protocol_errors.value} connections failed"
        )

    # What happens to it.

    def partition(self, topic: str, index: int) -> Partition | None:
        return self.process.replicas.hosted.find(TopicPartition(topic, index))

    def lead(
        self,
        topic: str,
        index: int,
        *,
        leader: int = BROKER_ID,
        isr: tuple[int, ...] = (BROKER_ID,),
    ) -> None:
        """Give a partition to a leader, in the next epoch."""
        partition = self.partition(topic, index)
        if partition is None:
            return
        leadership = self.process.replicas.leadership
        epochs = {"leader": leader, "leader_epoch": partition.leader_epoch + 1, "isr": isr}
        replicas = (BROKER_ID, FOLLOWER_ID)
        epoch, topic_id = leadership.controller_epoch, self.topic_id(topic)
        state = partition_metadata(index, replicas=replicas, **epochs)
        metadata = update_metadata((topic, state), brokers=replicas, epoch=epoch, host="b")
        metadata.topic_states[0].topic_id = topic_id
        leadership.become_leader_or_follower(
            leader_and_isr(
                topic, index, replicas=replicas, epoch=epoch, topic_id=topic_id, **epochs
            )
        )  # fmt: skip
        leadership.update_metadata(metadata)

    def remove(self, topic: str, index: int, *, deletes: bool) -> None:
        """Take a partition away."""
        partition = self.partition(topic, index)
        leadership = self.process.replicas.leadership
        if partition is not None:
            leadership.stop_replicas(
                stop_replica(
                    topic, index,
                    leader_epoch=partition.leader_epoch + 1, delete=deletes,
                    epoch=leadership.controller_epoch,
                )
            )  # fmt: skip

    def follow(self, topic: str, index: int) -> None:
        """A follower fetches all that a partition has."""
        partition = self.partition(topic, index)
        if partition is None or FOLLOWER_ID not in partition.state.followers:
            return
        end_offset = partition.log.log_end_offset
        partition.follower_fetched(FOLLOWER_ID, end_offset, 0, self.clock.now_ms())
        self.process.replicas.waiting.wake(TopicPartition(topic, index))

    def lose_disk(self) -> None:
        """The second data directory fails."""
        path = str(self.directories[1])
        self.process.parts.storage.directories.fail(path, StorageError(path, "write", 5))

    def topic_id(self, topic: str) -> UUID:
        return self.process.metadata.topic_id(topic)

    def stop(self) -> dict[str, int]:
        """End everything at once; the files it leaves, with their checksums."""
        self.process.logs.shutdown()
        self.process.parts.storage.directories.release()
        found = {}
        for directory in self.directories:
            for path in sorted(directory.rglob("*")):
                if path.is_file():
                    found[str(path.relative_to(directory.parent))] = crc32(path.read_bytes())
        return found
