"""KafkaServer: puts a broker together, starts it and stops it. The composition root; no logic of
its own.

Order of a start: data directories are locked; the tree is opened; logs are recovered; sockets are
bound; the broker is registered and the controller elected; when this broker knows the cluster,
requests are answered. Each step leaves behind how it is undone, and a stop, or a start that fails
half way, undoes them from the last to the first.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.apis import registry
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.active.leader_elections import LeaderBalanceSettings
from kbroker.controller.kafka_controller import ControllerSettings, KafkaController
from kbroker.coordinator.group_coordinator import CoordinatorServices, GroupCoordinator
from kbroker.coordinator.legacy_offsets import ZkLegacyOffsets
from kbroker.counters import CounterRegistry
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.log.log_manager import LogManager
from kbroker.log.open_files import open_files_of
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.model import UNKNOWN_BROKER_EPOCH, Broker, EndPoint, TopicPartition
from kbroker.network.socket_server import SocketServer
from kbroker.peers.broker_channels import BrokerChannels, answers
from kbroker.peers.cluster_action import PeerListeners
from kbroker.peers.forwarding_manager import ForwardingManager
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.peers.node_to_controller_channel import NodeToControllerChannel
from kbroker.peers.peers import Peers
from kbroker.replication.group_commit import FlushPolicy
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.orders.control_requests import ControlRequests
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.background.background_services import BackgroundParts, start_background_services
from kbroker.server.background.flush_threads import FlushThreads
from kbroker.server.broker_settings import BrokerSettings
from kbroker.server.broker_state import BrokerLifecycle, BrokerState
from kbroker.server.file_limit import raise_file_limit
from kbroker.server.log_loading import WatchLoading, load_on_thread, nobody_watches
from kbroker.server.membership.advertised_address import Reach, advertised_end_points
from kbroker.server.membership.cluster_membership import ClusterMembership, MembershipParts
from kbroker.server.membership.controlled_shutdown import ControlledShutdown
from kbroker.server.membership.kafka_healthcheck import KafkaHealthcheck
from kbroker.server.membership.leadership_handover import LeadershipHandover
from kbroker.server.membership.log_dir_events import LogDirEvents
from kbroker.server.settings_updates import SettingsUpdates
from kbroker.server.start_error import StartError
from kbroker.server.system_clock import SystemClock
from kbroker.server.tree.broker_identity import config_of_broker
from kbroker.server.tree.cluster_tree import ClusterTree, OwnTree, tree_of
from kbroker.server.tree.tree_opening import StartWish, TreeOpening
from kbroker.zk.nodes.cluster_members import ClusterMembers
from kbroker.zk.nodes.producer_id_blocks import ProducerIdBlocks
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.zk_paths import ZnodeFormatError

_log = logging.getLogger(__name__)


class KafkaServer:
    """One broker. `await startup()`, serve, `await shutdown()`."""

    def __init__(
        self,
        config: KafkaConfig,
        *,
        cluster_id: str | None = None,
        file_system: FileSystem | None = None,
        adopt: Callable[[str], None] | None = None,
        tree: ClusterTree | None = None,
        watch_loading: WatchLoading = nobody_watches,
    ) -> None:
        """`cluster_id` is the id a new cluster gets; None draws one. Files are the system's own.

        With `adopt`, directories that Apache Kafka wrote are taken over; it is called with the
        sentence that says so. Without `tree`, the settings say where it is. `watch_loading` sees
        how far the opening of the logs is.
        """
        self._config = config
        self._wish = StartWish(config=config, cluster_id=cluster_id, adopt=adopt)
        self._clock = SystemClock()
        self._file_system = file_system or RealFileSystem()
        self._tree = tree or tree_of(config, self._clock, self._file_system)
        self._undo = AsyncExitStack()
        self._watch_loading = watch_loading
        self._waiter = MetadataWaiter()
        self._flush_policy = FlushPolicy(config.kbroker.kbroker_flush)
        self._flush_threads = FlushThreads()
        self._healthcheck: KafkaHealthcheck | None = None
        self._is_killed = False
        self.failed = asyncio.Event()  # the broker cannot go on, `failure` says why
        self.failure: StartError | LogDirectoryError | None = None
        self.lifecycle = BrokerLifecycle()
        self.counters = CounterRegistry()
        self.end_points: tuple[EndPoint, ...] = ()

    @property
    def broker_id(self) -> int:
        """The id in force, -1 before it is settled and where none was set."""
        return self._config.server.broker_id

    @property
    def broker_epoch(self) -> int:
        """Of the present registration, unknown (-1) before the first."""
        health = self._healthcheck
        return UNKNOWN_BROKER_EPOCH if health is None else health.broker_epoch

    @property
    def is_controller(self) -> bool:
        """True while this broker is the cluster's controller."""
        return self.lifecycle.is_running and self._controller.is_active

    async def startup(self) -> None:
        """Return when produce, consume and groups work.

        Raises ConfigError, LogDirectoryError, StartError, CorruptTreeError or AdoptionNeededError:
        one sentence for the operator.
        """
        self.lifecycle.transition_to(BrokerState.STARTING)
        try:
            await self._start()
        except TreeUnavailableError as error:
            await self.shutdown()
            raise self._tree.refusal(error) from error
        except BaseException:
            await self.shutdown()
            raise

    async def shutdown(self) -> None:
        """Stop cleanly; what a start has done so far is undone."""
        if self.lifecycle.state in (BrokerState.NOT_RUNNING, BrokerState.BROKER_SHUTTING_DOWN):
            return
        if self.lifecycle.is_running:
            self.lifecycle.transition_to(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            shutdown = ControlledShutdown(self._config.server, self._handover.ask, self._clock)
            if not isinstance(self.failure, StartError):  # then it is registered, and leads
                await shutdown.run()
        self.lifecycle.transition_to(BrokerState.BROKER_SHUTTING_DOWN)
        await self._undo.aclose()
        self.lifecycle.transition_to(BrokerState.NOT_RUNNING)

    async def kill(self) -> None:
        """End as a process ends that is killed: nobody is told, and no file is finished."""
        self._is_killed = True
        self.lifecycle.transition_to(BrokerState.BROKER_SHUTTING_DOWN)
        await self._tree.close()
        await self._undo.aclose()
        self.lifecycle.transition_to(BrokerState.NOT_RUNNING)

    async def _start(self) -> None:
        limit = raise_file_limit()
        if limit is not None:
            open_files_of(self._file_system).limit = limit // 2  # the rest is for connections
        await self._open_storage()
        self._assemble()
        await self._dynamic_configs.start()
        self._undo.push_async_callback(self._dynamic_configs.stop)
        await self._load_logs()
        self._undo.callback(self._close_replicas)
        await self._bind()
        await self._join_cluster()
        self._groups.start()
        self._undo.callback(self._groups.shutdown)
        self._start_background_services()
        self._undo.push_async_callback(self._socket_server.shutdown)
        self._socket_server.enable_request_processing()
        self.lifecycle.transition_to(BrokerState.RUNNING_AS_BROKER)
        self.lifecycle.on_controller_activity(self._controller.is_active)

    # The steps of a start, in their order.

    async def _open_storage(self) -> None:
        """Lock the data directories, open the tree, learn who we are."""
        config, tree = self._config, self._tree
        opening = TreeOpening(self._wish, tree, self._file_system, self._clock)
        opening.check()
        self._logs = LogManager(
            config.log.data_directories(),
            config.log,
            lambda topic: self._settings.of_topic(topic),  # noqa: PLW0108 - made a few lines later
            self._file_system,
            self._clock,
            walks_records=config.kbroker.kbroker_record_validation == "full",
        )
        meta = self._logs.open_directories(tree.own_directory)
        self._undo.callback(self._logs.release)
        if isinstance(tree, OwnTree):
            tree.on_failure = partial(self._logs.fail_directory, tree.own_directory)
        self._undo.push_async_callback(tree.close)
        self._zk, self._identity = await opening.open(meta)
        self._config = config_of_broker(config, self._identity.broker_id)
        self.lifecycle.name = f"broker {self.broker_id}"

    def _assemble(self) -> None:
        """Make the parts and tell them of each other; none of them does anything yet."""
        config, zk, clock, identity = self._config, self._zk, self._clock, self._identity
        self._dynamic_configs = DynamicConfigManager(zk, clock)
        self._settings = BrokerSettings(config, self._dynamic_configs.topic_overrides)
        updates = SettingsUpdates(
            self._dynamic_configs,
            self._settings,
            self._logs,
            lambda topic: self._controller.enable_unclean_elections(topic),  # noqa: PLW0108 - later
        )
        self._metadata = MetadataCache(identity.broker_id, identity.cluster_id)
        self._replicas = ReplicaManager(
            self._logs, self._metadata, clock, clock, config.replication
        )
        self._logs.on_directory_offline(self._on_directory_offline)
        self._log_dir_events = LogDirEvents(zk, identity.broker_id, self._replicas.logs)
        self._replicas.logs.on_unmade = self._log_dir_events.log_unmade
        self._replicas.set_group_commit(self._flush_policy, self._flush_threads.run)
        self._topics = TopicAdmin(zk, self._current_config, self._metadata, self._waiter)
        self._groups = self._make_groups()
        self._control = ControlRequests(
            self._replicas.leadership,
            self._replicas.logs,
            self._waiter,
            updates.load_topics,
            lambda: self.broker_epoch,
        )
        channels = BrokerChannels(
            identity.broker_id,
            self._control,
            (config.inter_broker_listener_name(), config.control_plane_listener_name()),
            config.quorum.controller_socket_timeout_ms,
        )
        self._controller = KafkaController(
            ControllerSettings(
                broker_id=identity.broker_id,
                delete_topic_enable=config.server.delete_topic_enable,
                unclean_leader_election_enable=self._unclean_by_default,
                inter_broker_listener=config.inter_broker_listener_name(),
                leader_balance=LeaderBalanceSettings.of(config.replication),
            ),
            zk,
            channels.connect,
            self.lifecycle.on_controller_activity,
            self._register_again,
        )
        way = NodeToControllerChannel(
            identity.broker_id, self._controller, self._metadata.broker, channels.client
        )
        self._undo.callback(way.close)
        self._forwarding = ForwardingManager(way, self._waiter)
        self._handover = LeadershipHandover(
            identity.broker_id, lambda: self.broker_epoch, self._controller, way, zk.tree
        )
        apis = KafkaApis(registry.load(), self._services())
        self._socket_server = SocketServer(
            config.socket_server, config.end_points(), apis.handle, clock
        )
        self._register_counters(apis)

    def _register_counters(self, apis: KafkaApis) -> None:
        for part in (self._socket_server, apis, self._replicas.fetch_sessions):
            part.register(self.counters)

    def _make_groups(self) -> GroupCoordinator:
        groups = GroupCoordinator(
            self._config.group,
            CoordinatorServices(
                replicas=self._replicas.appends,
                metadata=self._metadata,
                topics=self._topics,
                legacy_offsets=ZkLegacyOffsets(self._zk.tree),
                clock=self._clock,
                timer=self._clock,
                new_uuid=uuid.uuid4,
            ),
        )
        leadership = self._replicas.leadership
        leadership.add_leadership_listener(groups.on_leadership_change)
        leadership.add_deletion_listener(groups.on_partitions_deleted)
        leadership.add_deletion_listener(self._dynamic_configs.forget_topics)
        return groups

    def _services(self) -> Services:
        return Services(
            replicas=self._replicas,
            groups=self._groups,
            metadata=self._metadata,
            topics=self._topics,
            configs=ConfigAdmin(self._zk, self._current_config, self._metadata),
            producer_ids=ProducerIdManager(self._zk, self._identity.broker_id),
            controller=self._controller,
            control=self._control,
            peers=self._peers(),
            config=self._config,
            clock=self._clock,
            forwarding=self._forwarding,
        )

    def _peers(self) -> Peers:
        config, listeners = self._config, PeerListeners()
        if self._tree.own_directory is None:
            listeners = PeerListeners.of(
                config.advertised_end_points(),
                config.inter_broker_listener_name(),
                config.control_plane_listener_name(),
            )
        return Peers(listeners, ClusterMembers(self._zk.tree), self._clock)

    async def _load_logs(self) -> None:
        if not self._logs.was_clean:
            self.lifecycle.transition_to(BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
        identity, topics = self._identity, frozenset(await self._zk.topics())

        def load(progress: LoadProgress) -> list[TopicPartition]:
            is_known = topics.__contains__
            return self._logs.load(identity.cluster_id, identity.broker_id, progress, is_known)

        recovered = await load_on_thread(load, self._watch_loading)
        self._undo.callback(self._close_logs)
        # The tree may know less than the logs: it was adopted, or its end was lost with the power.
        await self._skip_producer_ids()
        if recovered:
            _log.info("%d partitions were recovered after an unclean shutdown", len(recovered))

    async def _skip_producer_ids(self) -> None:
        highest_id = self._logs.highest_producer_id()
        try:
            await ProducerIdBlocks(self._zk).skip(self._identity.broker_id, highest_id)
        except ZnodeFormatError as error:  # no ids are given out until somebody repairs the node
            self._zk.report(error)

    def _start_background_services(self) -> None:
        self._undo.callback(self._flush_threads.stop)
        parts = BackgroundParts(
            config=self._current_config,
            logs=self._logs,
            replicas=self._replicas,
            file_system=self._file_system,
            clock=self._clock,
        )
        start_background_services(parts, self._undo)

    async def _bind(self) -> None:
        self.end_points = await self._socket_server.start()
        self._undo.push_async_callback(self._socket_server.shutdown)
        self._socket_server.enable_controller_requests()

    async def _join_cluster(self) -> None:
        """Register, see that there is a controller, and wait until it has told us of ourselves."""
        config, broker_id = self._config, self._identity.broker_id
        reach = Reach.CLIENTS
        if self._tree.own_directory is None:
            reach = Reach.MACHINES if self._tree.is_ensemble else Reach.PROCESS
        broker = Broker(
            broker_id=broker_id,
            end_points=advertised_end_points(config, self.end_points, reach),
            rack=config.server.broker_rack,
        )
        self._healthcheck = KafkaHealthcheck(
            self._zk, broker, config.zk.zookeeper_session_timeout_ms, answers
        )
        self._undo.push_async_callback(self._topics.close)
        self._undo.push_async_callback(self._controller.shutdown)
        self._undo.push_async_callback(self._log_dir_events.stop)
        parts = MembershipParts(
            broker_id=broker_id,
            zk=self._zk,
            controller=self._controller,
            metadata=self._metadata,
            waiter=self._waiter,
            register=self._healthcheck.register,
            failure=lambda: self.failure,
            holds=self._holds,
        )
        await ClusterMembership(parts).join()

    async def _register_again(self) -> int:
        """Register for a session that follows another; where another broker has the id, stop."""
        assert self._healthcheck is not None
        try:
            return await self._healthcheck.register()
        except StartError as error:
            self._fail(error)
        stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        return await stopped  # cancelled: whoever waits for the registration stops with the broker

    def _holds(self, topic_partition: TopicPartition) -> bool:
        try:
            self._replicas.hosted.get(topic_partition)
        except KafkaError as error:
            is_offline = error.code is ErrorCode.KAFKA_STORAGE_ERROR
            return is_offline or self._replicas.leadership.was_refused(topic_partition)
        return True

    # The steps of a stop that a killed broker leaves out.

    def _close_replicas(self) -> None:
        self._replicas.appends.shutdown()
        if not self._is_killed:
            self._replicas.shutdown()

    def _close_logs(self) -> None:
        if not self._is_killed:
            self._logs.shutdown()
            return
        for log in self._logs.all_logs():
            log.close_files()

    # News from one part for another.

    def _unclean_by_default(self) -> bool:
        return self._settings.config.replication.unclean_leader_election_enable

    def _current_config(self) -> KafkaConfig:
        return self._settings.config

    def _fail(self, error: StartError | LogDirectoryError) -> None:
        self.failure = self.failure or error
        self.failed.set()
        self._waiter.notify()

    def _on_directory_offline(
        self, path: str, partitions: list[TopicPartition], error: StorageError
    ) -> None:
        self._replicas.leadership.partitions_offline(partitions)
        # Who registers later is asked about all replicas anyway.
        if self.broker_epoch != UNKNOWN_BROKER_EPOCH:
            self._log_dir_events.report()
        if not self._logs.online_directories:
            _log.error("no data directory is left: the broker stops")
            paths = ", ".join(self._config.log.data_directories())
            self._fail(
                LogDirectoryError(
                    f"No data directory is left of {paths}: the broker stopped. Repair the disks "
                    "and start it again"
                )
            )
        elif isinstance(self._tree, OwnTree) and path == self._tree.own_directory:
            self._tree.refuse(error)
            _log.error(
                "%s holds the cluster's metadata too: topics and settings cannot be changed until "
                "the broker is started again on a sound disk; other directories are served",
                path,
            )
