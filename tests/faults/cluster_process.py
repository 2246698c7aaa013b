"""One run of one broker of a simulated cluster: put together by the code of KafkaServer, started
and stopped in its order, over a disk that outlives it. Sockets and threads alone are missing.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from random import Random
from typing import cast
from unittest.mock import patch

from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.apis import registry
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.kafka_controller import KafkaController
from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import Bytes, StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.recovery import log_opening
from kbroker.model import Broker, EndPoint, TopicPartition
from kbroker.protocol.request import ConnectionInfo
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.background.worker_threads import WorkerThreads
from kbroker.server.broker.broker_failure import BrokerFailure
from kbroker.server.broker.broker_parts import BrokerParts, make_parts
from kbroker.server.broker.broker_storage import open_storage
from kbroker.server.broker.running_broker import membership
from kbroker.server.broker.surroundings import Channels, Surroundings
from kbroker.server.broker.tree_opening import RequestedStart
from kbroker.server.membership.controlled_shutdown import ControlledShutdown
from kbroker.zk.tree import Tree, TreeUnavailableError
from tests.fakes.disks.memory_file_system import MemoryFileSystem, Node
from tests.fakes.disks.power_disk import PowerDisk
from tests.fakes.disks.simulated_flushes import SimulatedFlushes
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.request_frames import answer_to
from tests.fakes.running.virtual_loop import LoopClock, Owner, OwnerState
from tests.fakes.trees.simulated_tree import Ensemble, SimulatedTree
from tests.faults.crash_storage import InlineExecutor

CLUSTER_ID = "simulated-cluster-id00"
LOG_DIRS = ("/a", "/b")
UPKEEP_S = 5.0
CLIENTS = "CLIENTS"  # the listener of those who are no brokers
LAG_MAX_S = 10.0


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
class Machine:
    """What a process runs on."""

    broker_id: int
    disk: SimulatedDisk | PowerDisk
    ensemble: Ensemble
    clock: LoopClock
    random: Random
    settings: Mapping[str, str] = field(default_factory=dict)
    flushes: SimulatedFlushes | None = None  # None: a sync is done at once
    boot_id: str = "first boot"
    has_features: bool = False  # hears of the levels that the cluster settles on


class ProcessTree:
    """Fulfils ClusterTree: the session of a process, opened when the process began."""

    own_directory: str | None = None
    is_ensemble = False  # as far as files and ids go

    def __init__(self, tree: SimulatedTree) -> None:
        self._tree = tree

    def __str__(self) -> str:
        return "the simulated ensemble"

    async def open(self) -> Tree:
        return self._tree

    async def close(self) -> None:
        await self._tree.close()

    def refusal(self, error: TreeUnavailableError) -> Exception:
        return error


Watcher = Callable[["BrokerProcess", ControlRequest, ControlResponse], None]
RequestWatcher = Callable[["BrokerProcess", ControlRequest, int, ControlResponse], None]


class BrokerProcess:
    """From the start of a process to its end."""

    controller: KafkaController  # once it listens

    def __init__(self, machine: Machine, number: int) -> None:
        self.broker_id = machine.broker_id
        self.number = number  # of all processes there have been
        self.owner = Owner(f"broker {machine.broker_id}.{number}")
        self.disk = machine.disk
        self.tree = SimulatedTree(machine.ensemble, self.owner)
        self.is_listening = False
        self.is_serving = False
        self.has_ended = False
        self.on_order: Watcher = lambda _process, _request, _response: None
        self.on_request: RequestWatcher = lambda _process, _request, _epoch, _response: None
        self.latest_controller_epoch = 0
        self._clock = machine.clock
        self._random = machine.random
        self._failure = BrokerFailure()
        self._parts: BrokerParts | None = None
        self._apis: KafkaApis | None = None
        self._flushes = machine.flushes
        self._boot_id = machine.boot_id
        self._has_features = machine.has_features
        self._upkeep: list[asyncio.Task[None]] = []
        self._undo = AsyncExitStack()
        session_timeout_ms = int(machine.ensemble.weather.session_timeout_s * 1000)
        self._config = KafkaConfig.for_profile(
            "dev",
            {
                "broker.id": str(machine.broker_id),
                "log.dirs": ",".join(LOG_DIRS),
                "num.recovery.threads.per.data.dir": "1",
                "zookeeper.session.timeout.ms": str(session_timeout_ms),
                "replica.lag.time.max.ms": str(int(LAG_MAX_S * 1000)),
                **machine.settings,
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

    @property
    def failed(self) -> bool:
        """It cannot go on: no data directory is left, or another broker has its id."""
        return self._failure.event.is_set()

    @property
    def parts(self) -> BrokerParts:
        """There once it listens."""
        assert self._parts is not None
        return self._parts

    @property
    def metadata(self) -> MetadataCache:
        return self.parts.data.metadata

    @property
    def replicas(self) -> ReplicaManager:
        return self.parts.data.replicas

    @property
    def logs(self) -> LogManager:
        return self.parts.data.logs

    @property
    def topics(self) -> TopicAdmin:
        return self.parts.services.topics

    @property
    def configs(self) -> ConfigAdmin:
        return self.parts.services.configs

    @property
    def broker_epoch(self) -> int:
        return self.parts.cluster.healthcheck.broker_epoch

    async def start(self, channels: Channels) -> None:
        """Return when clients are served."""
        wish = RequestedStart(config=self._config, cluster_id=CLUSTER_ID, adopt=None)
        tree = ProcessTree(self.tree)
        storage = await open_storage(wish, tree, self.disk, self._clock, self._undo, self._boot_id)
        around = Surroundings(
            clock=self._clock,
            failure=self._failure,
            channels=lambda _config, _local: channels,
            is_alive=_nobody_answers,
            random=self._random,
        )
        if self._flushes is not None:
            around = replace(around, flush_threads=cast(WorkerThreads, self._flushes))
        self._parts = parts = make_parts(storage, around)
        self.controller = parts.cluster.controller
        _ = (
            parts.transactions.in_force
        )  # from the start, as in a broker that may outlive its release
        self._apis = KafkaApis(registry.registered(), parts.services)
        self._watch_orders()
        await parts.data.dynamic_configs.start()
        if parts.authorizer is not None:
            await parts.authorizer.start()
            self._undo.push_async_callback(parts.authorizer.stop)
        tokens = parts.services.tokens
        if tokens is not None:
            await tokens.start()
            self._undo.push_async_callback(tokens.stop)
        if self._has_features:
            await parts.cluster.features.start()
            self._undo.push_async_callback(parts.cluster.features.stop)
        await self._load_logs()
        parts.cluster.isr_changes.start()
        self.is_listening = True
        await membership(parts, around, self._registration()).join()
        parts.services.groups.start()
        parts.transactions.start()
        upkeep = asyncio.create_task(self._keep_up(), name="upkeep")
        self._upkeep.append(upkeep)
        self.is_serving = True

    async def stop(self) -> None:
        """A clean stop."""
        self.is_serving = False
        data, cluster = self.parts.data, self.parts.cluster
        await ControlledShutdown(
            self._config.server, cluster.questions.move_leaderships, self._clock
        ).run()
        for upkeep in self._upkeep:
            upkeep.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        if self._flushes is not None:
            self._flushes.stop()
        self.parts.services.transactions.shutdown()
        self.parts.transactions.in_force.sender.close()
        self.parts.services.groups.shutdown()
        await cluster.log_dir_events.stop()
        await cluster.controller.shutdown()
        await self.topics.close()
        self.is_listening = False
        self.parts.services.participation.close()
        await cluster.isr_changes.stop()
        await cluster.fetchers.shutdown()
        data.replicas.shutdown()
        data.logs.shutdown()
        await data.dynamic_configs.stop()
        cluster.to_controller.close()
        await self._undo.aclose()
        self.has_ended = True

    async def answer(self, frame: bytearray, connection: ConnectionInfo | None = None) -> bytes:
        """The answer to a request of another broker, or of a client."""
        assert self._apis is not None
        return await answer_to(self._apis, frame, connection or local_connection())

    async def carry_out(self, request: ControlRequest) -> ControlResponse:
        """A request of a controller; see ControlRequests."""
        epoch = self.broker_epoch
        response = await self.parts.cluster.control.send(request)
        self.on_request(self, request, epoch, response)
        return response

    def overrides(self, topic: str) -> dict[str, str]:
        """A topic's settings as this broker has them."""
        return dict(self.parts.data.dynamic_configs.topic_overrides(topic))

    # ---- inside

    def _registration(self) -> Broker:
        host = f"b{self.broker_id}"
        end_point = EndPoint(listener_name="PLAINTEXT", host=host, port=9092)
        clients = EndPoint(listener_name=CLIENTS, host=f"c{self.broker_id}", port=9093)
        return Broker(
            broker_id=self.broker_id,
            end_points=(end_point, clients),
            features=self.metadata.supported_features if self._has_features else (),
            has_lost_memory=self.parts.storage.has_lost_memory,
        )

    async def _load_logs(self) -> None:
        topics = frozenset(await self.parts.storage.zk.topics())
        with patch.object(log_opening, "ThreadPoolExecutor", InlineExecutor):
            self.logs.load(CLUSTER_ID, self.broker_id, None, topics.__contains__)

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(
                min(UPKEEP_S, self._config.replication.replica_lag_time_max_ms / 2000)
            )
            self.replicas.maybe_shrink_isr()
            self.logs.cleanup(self._clock.now_ms())
            self.replicas.logs.checkpoint_high_watermarks()

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


async def _nobody_answers(_end_point: EndPoint) -> bool:
    return False


async def append(
    process: BrokerProcess, topic_partition: TopicPartition, data: memoryview
) -> int | None:
    """Append as a producer with acks=all does; the offset, None where it was not acknowledged."""
    try:
        outcome = process.replicas.appends.append_records([(topic_partition, data)], -1, 5_000)
        (result,) = await outcome.settled if outcome.settled else outcome.results
    except KafkaError:
        return None
    return None if result.error_code else result.base_offset
