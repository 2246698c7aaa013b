"""One run of one broker of a simulated cluster: the parts KafkaServer puts together for controller,
sessions and metadata, started and stopped in its order, over a disk that outlives them.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from unittest.mock import patch

from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.channels.controller_channel_manager import BrokerChannel
from kbroker.controller.kafka_controller import ControllerSettings, KafkaController
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.file_system import Bytes, StorageError
from kbroker.log.log_manager import LogManager
from kbroker.log.recovery import log_opening
from kbroker.model import Broker, EndPoint, TopicPartition
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.orders.control_requests import ControlRequests
from kbroker.replication.orders.request_shapes import ControlRequest, ControlResponse
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.broker_settings import BrokerSettings
from kbroker.server.membership.cluster_membership import ClusterMembership, MembershipParts
from kbroker.server.membership.controlled_shutdown import ControlledShutdown
from kbroker.server.membership.kafka_healthcheck import KafkaHealthcheck
from kbroker.server.membership.log_dir_events import LogDirEvents
from kbroker.server.settings_updates import SettingsUpdates
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.memory_file_system import MemoryFileSystem, Node
from tests.fakes.simulated_tree import Ensemble, SimulatedTree
from tests.fakes.virtual_loop import LoopClock, Owner, OwnerState
from tests.faults.crash_storage import InlineExecutor

CLUSTER_ID = "simulated-cluster-id00"
LOG_DIRS = ("/a", "/b")
UPKEEP_S = 5.0


class SimulatedDisk(MemoryFileSystem):
    """Directories in `failed` refuse every change."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.failed: set[str] = set()
        super().__init__(now_ms=now_ms)

    def _change_write(self, node: Node, data: Bytes, position: int, path: str) -> None:
        self._check(path)
        super()._change_write(node, data, position, path)

    def _change_link(self, parent: Node, name: str, node: Node, path: str) -> None:
        self._check(path)
        super()._change_link(parent, name, node, path)

    def _change_rename(
        self, old_parent: Node, old_name: str, new_parent: Node, new_name: str, path: str
    ) -> None:
        self._check(path)
        super()._change_rename(old_parent, old_name, new_parent, new_name, path)

    def _change_sync(self, node: Node, path: str) -> None:
        self._check(path)

    def _check(self, path: str) -> None:
        if any(path.startswith(f"{directory}/") for directory in self.failed):
            raise StorageError(path, "write", errno.EIO)

    def let_go(self) -> None:
        """The process that held its locks is no more."""
        for _, node in self.files():
            node.is_locked = False


@dataclass(slots=True, kw_only=True)
class ProcessParts:
    """What a process is put together from."""

    broker_id: int
    disk: SimulatedDisk
    ensemble: Ensemble
    clock: LoopClock
    random: Random
    session_timeout_ms: float
    settings: dict[str, str]


Watcher = Callable[["BrokerProcess", ControlRequest, ControlResponse], None]
Ask = Callable[["BrokerProcess"], Awaitable[Sequence[TopicPartition]]]
RequestWatcher = Callable[["BrokerProcess", ControlRequest, int, ControlResponse], None]


class BrokerProcess:
    """From the start of a process to its end."""

    def __init__(self, parts: ProcessParts, number: int) -> None:
        self.broker_id = parts.broker_id
        self.number = number  # of all processes there have been
        self.owner = Owner(f"broker {parts.broker_id}.{number}")
        self.disk = parts.disk
        self.is_listening = False
        self.is_serving = False
        self.has_ended = False
        self.failed = False  # no data directory is left
        self.ask_controller: Ask = _nobody_to_ask
        self.on_order: Watcher = lambda _process, _request, _response: None
        self.on_request: RequestWatcher = lambda _process, _request, _epoch, _response: None
        self.latest_controller_epoch = 0
        self._parts = parts
        self._clock = parts.clock
        self.config = KafkaConfig.for_profile(
            "dev",
            {
                "broker.id": str(parts.broker_id),
                "log.dirs": ",".join(LOG_DIRS),
                "num.recovery.threads.per.data.dir": "1",
                **parts.settings,
            },
        )

    def __repr__(self) -> str:
        return self.owner.name

    @property
    def is_alive(self) -> bool:
        return self.owner.state is not OwnerState.DEAD and not self.has_ended

    @property
    def runs(self) -> bool:
        return self.is_serving and self.owner.state is OwnerState.RUNNING and not self.has_ended

    async def start(self, connect: Callable[[Broker], BrokerChannel]) -> None:
        """Return when clients are served."""
        self.tree = SimulatedTree(self._parts.ensemble, self.owner)
        self.zk = ZkUtils(self.tree, self._clock)
        self._open_storage()
        await self.zk.create_persistent_paths()
        self._assemble(connect)
        await self.dynamic_configs.start()
        await self._load_logs()
        self.is_listening = True
        await self.membership.join()
        self._upkeep = asyncio.create_task(self._keep_up(), name="upkeep")
        self.is_serving = True

    async def stop(self) -> None:
        """A clean stop."""
        self.is_serving = False
        ask = partial(self.ask_controller, self)
        await ControlledShutdown(self.config.server, ask, self._clock).run()
        self._upkeep.cancel()
        await asyncio.gather(self._upkeep, return_exceptions=True)
        await self.log_dir_events.stop()
        await self.controller.shutdown()
        await self.topics.close()
        self.is_listening = False
        self.replicas.shutdown()
        self.logs.shutdown()
        await self.dynamic_configs.stop()
        await self.tree.close()
        self.has_ended = True

    async def carry_out(self, request: ControlRequest) -> ControlResponse:
        """A request of a controller; see ControlRequests."""
        epoch = self.broker_epoch
        response = await self.control.send(request)
        self.on_request(self, request, epoch, response)
        return response

    def overrides(self, topic: str) -> dict[str, str]:
        """A topic's settings as this broker has them."""
        return dict(self.dynamic_configs.topic_overrides(topic))

    # ---- inside

    def _open_storage(self) -> None:
        self.logs = LogManager(
            LogDirectories.lock(self.disk, LOG_DIRS),
            self.config.log,
            lambda topic: self.settings.of_topic(topic),  # noqa: PLW0108 - made a few lines later
            self.disk,
            self._clock,
        )

    def _assemble(self, connect: Callable[[Broker], BrokerChannel]) -> None:
        zk, clock, parts = self.zk, self._clock, self._parts
        self.waiter = MetadataWaiter()
        self.dynamic_configs = DynamicConfigManager(zk, clock)
        self.settings = BrokerSettings(self.config, self.dynamic_configs.topic_overrides)
        self.updates = SettingsUpdates(self.dynamic_configs, self.settings, self.logs)
        self.metadata = MetadataCache(self.broker_id, CLUSTER_ID)
        self.replicas = ReplicaManager(
            self.logs, self.metadata, clock, clock, self.config.replication
        )
        self._watch_orders()
        self.log_dir_events = LogDirEvents(zk, self.broker_id, self.replicas.logs)
        self.replicas.logs.on_unmade = self.log_dir_events.log_unmade
        self.logs.on_directory_offline(self._on_directory_offline)
        self.replicas.leadership.add_deletion_listener(self.dynamic_configs.forget_topics)
        self.topics = TopicAdmin(
            zk, lambda: self.settings.config, self.metadata, self.waiter, parts.random
        )
        self.configs = ConfigAdmin(zk, lambda: self.settings.config, self.metadata)
        self.control = ControlRequests(
            self.replicas.leadership,
            self.replicas.logs,
            self.waiter,
            self.updates.load_topics,
            lambda: self.broker_epoch,
        )
        self.healthcheck = KafkaHealthcheck(
            zk, self._registration(), parts.session_timeout_ms, _nobody_answers
        )
        self.controller = KafkaController(
            ControllerSettings(broker_id=self.broker_id),
            zk,
            connect,
            register_broker=self.healthcheck.register,
        )
        self.membership = ClusterMembership(
            MembershipParts(
                broker_id=self.broker_id,
                zk=zk,
                controller=self.controller,
                metadata=self.metadata,
                waiter=self.waiter,
                register=self.healthcheck.register,
                holds=self._holds,
            )
        )

    def _holds(self, topic_partition: TopicPartition) -> bool:
        try:
            self.replicas.hosted.get(topic_partition)
        except KafkaError as error:
            return error.code is ErrorCode.KAFKA_STORAGE_ERROR
        return True

    @property
    def broker_epoch(self) -> int:
        return self.healthcheck.broker_epoch

    def _registration(self) -> Broker:
        host = f"b{self.broker_id}"
        end_point = EndPoint(listener_name="PLAINTEXT", host=host, port=9092)
        return Broker(broker_id=self.broker_id, end_points=(end_point,))

    async def _load_logs(self) -> None:
        topics = frozenset(await self.zk.topics())
        with patch.object(log_opening, "ThreadPoolExecutor", InlineExecutor):
            self.logs.load(CLUSTER_ID, self.broker_id, None, topics.__contains__)

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_S)
            self.logs.cleanup(self._clock.now_ms())
            self.replicas.logs.checkpoint_high_watermarks()

    def _on_directory_offline(
        self, _path: str, partitions: list[TopicPartition], _error: StorageError
    ) -> None:
        self.replicas.leadership.partitions_offline(partitions)
        if self.broker_epoch >= 0:
            self.log_dir_events.report()
        self.failed = not self.logs.online_directories

    def _watch_orders(self) -> None:
        """Let the model see what the broker does with each order, slice by slice."""
        leadership = self.replicas.leadership
        for name in ("become_leader_or_follower", "stop_replicas", "update_metadata"):
            original = getattr(leadership, name)

            def watched(
                request: ControlRequest,
                original: Callable[[ControlRequest], ControlResponse] = original,
            ) -> ControlResponse:
                response = original(request)
                self.on_order(self, request, response)
                return response

            setattr(leadership, name, watched)


async def _nobody_to_ask(_process: BrokerProcess) -> Sequence[TopicPartition]:
    raise ConnectionRefusedError


async def _nobody_answers(_end_point: EndPoint) -> bool:
    return False


def append(process: BrokerProcess, topic_partition: TopicPartition, data: memoryview) -> int | None:
    """Append as a producer with acks=1 would; the offset, None where it was refused."""
    try:
        results = process.replicas.appends.append_records([(topic_partition, data)], 1, 1000)
    except KafkaError:
        return None
    assert isinstance(results, list)
    (result,) = results
    return None if result.error_code else result.base_offset
