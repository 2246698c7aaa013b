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
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial

from kbroker.apis import registry
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.config_admin import ConfigAdmin
from kbroker.controller.control_requests import ControlRequests
from kbroker.controller.dynamic_config_manager import DynamicConfigManager
from kbroker.controller.kafka_controller import ControllerSettings, KafkaController
from kbroker.controller.metadata_waiter import MetadataWaiter
from kbroker.controller.producer_id_manager import ProducerIdManager
from kbroker.controller.topic_admin import TopicAdmin
from kbroker.coordinator.group_coordinator import CoordinatorServices, GroupCoordinator
from kbroker.coordinator.legacy_offsets import ZkLegacyOffsets
from kbroker.errors import ConfigError
from kbroker.log.cleaner.log_cleaner import LogCleaner
from kbroker.log.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.log.log_manager import LogManager
from kbroker.log.open_files import open_files_of
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.model import Broker, EndPoint, TopicPartition
from kbroker.network.socket_server import SocketServer
from kbroker.replication.group_commit import FlushPolicy
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.adoption.gate import AdoptionGate, AdoptionWish
from kbroker.server.advertised_address import advertised_end_points
from kbroker.server.background_work import BackgroundWork
from kbroker.server.background_writer import BackgroundWriter
from kbroker.server.broker_duties import broker_duties
from kbroker.server.broker_identity import config_of_broker, settle_identity
from kbroker.server.broker_settings import BrokerSettings
from kbroker.server.broker_state import BrokerLifecycle, BrokerState
from kbroker.server.cleaner_threads import CleanerThreads, CleanerWorker
from kbroker.server.file_limit import raise_file_limit
from kbroker.server.flush_threads import FlushThreads
from kbroker.server.kafka_healthcheck import KafkaHealthcheck
from kbroker.server.recovery_display import load_with_progress
from kbroker.server.system_clock import SystemClock
from kbroker.server.tree_files import TreeDirectory
from kbroker.server.watchdog import Watchdog
from kbroker.zk import zk_paths
from kbroker.zk.embedded_tree import EmbeddedTree
from kbroker.zk.producer_id_blocks import ProducerIdBlocks
from kbroker.zk.tree import TreeUnavailableError
from kbroker.zk.zk_utils import ZkUtils

_log = logging.getLogger(__name__)

_READY_TIMEOUT_MS = 30_000.0


class KafkaServer:
    """One broker. `await startup()`, serve, `await shutdown()`."""

    def __init__(
        self,
        config: KafkaConfig,
        *,
        cluster_id: str | None = None,
        file_system: FileSystem | None = None,
        adopt: Callable[[str], None] | None = None,
    ) -> None:
        """`cluster_id` is the id a new cluster gets; None draws one. Files are the system's own.

        With `adopt`, directories that Apache Kafka wrote are taken over; it is called with the
        sentence that says so.
        """
        self._config = config
        self._adopt = adopt
        self._wanted_cluster_id = cluster_id
        self._clock = SystemClock()
        self._file_system = file_system or RealFileSystem()
        self._undo = AsyncExitStack()
        self._waiter = MetadataWaiter()
        self._flush_policy = FlushPolicy(config.kbroker.kbroker_flush)
        self._flush_threads = FlushThreads()
        self.failed = asyncio.Event()  # no data directory is left: nothing can be served any more
        self.lifecycle = BrokerLifecycle()
        self.end_points: tuple[EndPoint, ...] = ()

    async def startup(self) -> None:
        """Return when produce, consume and groups work.

        Raises ConfigError, LogDirectoryError, BrokerIdInUseError, CorruptTreeError or
        AdoptionNeededError: one sentence for the operator.
        """
        self.lifecycle.transition_to(BrokerState.STARTING)
        try:
            await self._start()
        except BaseException:
            await self.shutdown()
            raise

    async def shutdown(self) -> None:
        """Stop cleanly; what a start has done so far is undone."""
        if self.lifecycle.state in (BrokerState.NOT_RUNNING, BrokerState.BROKER_SHUTTING_DOWN):
            return
        if self.lifecycle.is_running:
            self.lifecycle.transition_to(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            await self._controller.controlled_shutdown(self._identity.broker_id)
        self.lifecycle.transition_to(BrokerState.BROKER_SHUTTING_DOWN)
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
        self._undo.callback(self._replicas.shutdown)
        await self._bind()
        await self._join_cluster()
        self._groups.start()
        self._undo.callback(self._groups.shutdown)
        self._start_background_work()
        self._undo.push_async_callback(self._socket_server.shutdown)
        self._socket_server.enable_request_processing()
        self.lifecycle.transition_to(BrokerState.RUNNING_AS_BROKER)
        self.lifecycle.on_controller_activity(self._controller.is_active)

    # The steps of a start, in their order.

    async def _open_storage(self) -> None:
        """Lock the data directories, open the tree in the first of them, learn who we are."""
        config = self._config
        wish = AdoptionWish(
            config=config,
            is_agreed=self._adopt is not None,
            cluster_id=self._wanted_cluster_id,
        )
        adoption = AdoptionGate(wish, self._file_system)
        adoption.check_agreed()
        self._logs = LogManager(
            config.log.data_directories(),
            config.log,
            lambda topic: self._settings.of_topic(topic),  # noqa: PLW0108 - made a few lines later
            self._file_system,
            self._clock,
            walks_records=config.kbroker.kbroker_record_validation == "full",
        )
        tree_directory = config.log.data_directories()[0]
        meta = self._logs.open_directories(tree_directory)
        self._undo.callback(self._logs.release)
        self._tree_files = TreeDirectory(self._file_system, tree_directory)
        self._tree_files.on_failure = partial(self._logs.fail_directory, tree_directory)
        tree = EmbeddedTree(self._clock, self._tree_files)
        self._undo.callback(_close_tree, tree)
        self._zk = ZkUtils(tree.session(), self._clock)
        await self._zk.create_persistent_paths()
        adopted = await adoption.carry_out(self._zk)
        if self._adopt is not None:
            self._adopt(adopted)
        self._identity = await settle_identity(config, self._zk, meta, self._wanted_cluster_id)
        self._config = config_of_broker(config, self._identity.broker_id)

    def _assemble(self) -> None:
        """Make the parts and tell them of each other; none of them does anything yet."""
        config, zk, clock, identity = self._config, self._zk, self._clock, self._identity
        self._dynamic_configs = DynamicConfigManager(zk, clock)
        self._settings = BrokerSettings(config, self._dynamic_configs.topic_overrides)
        self._dynamic_configs.add_handler(zk_paths.TOPIC_CONFIGS, self._on_topic_config)
        self._dynamic_configs.add_handler(zk_paths.BROKER_CONFIGS, self._on_broker_config)
        self._metadata = MetadataCache(identity.broker_id, identity.cluster_id)
        self._replicas = ReplicaManager(
            self._logs, self._metadata, clock, clock, config.replication
        )
        self._logs.on_directory_offline(self._on_directory_offline)
        self._replicas.set_group_commit(self._flush_policy, self._flush_threads.run)
        self._topics = TopicAdmin(zk, self._current_config, self._metadata, self._waiter)
        self._groups = self._make_groups()
        self._control = ControlRequests(
            self._replicas, self._waiter, self._load_topic_settings, self._broker_epoch
        )
        self._controller = KafkaController(
            ControllerSettings(
                broker_id=identity.broker_id,
                delete_topic_enable=config.server.delete_topic_enable,
                unclean_leader_election_enable=config.replication.unclean_leader_election_enable,
            ),
            zk,
            lambda _: self._control,
            self.lifecycle.on_controller_activity,
        )
        self._work = BackgroundWork(broker_duties(config, self._logs, self._replicas, clock))
        apis = KafkaApis(registry.load(), self._services())
        self._socket_server = SocketServer(
            config.socket_server, config.end_points(), apis.handle, clock
        )

    def _make_groups(self) -> GroupCoordinator:
        groups = GroupCoordinator(
            self._config.group,
            CoordinatorServices(
                replicas=self._replicas,
                metadata=self._metadata,
                topics=self._topics,
                legacy_offsets=ZkLegacyOffsets(self._zk.tree),
                clock=self._clock,
                timer=self._clock,
                new_uuid=uuid.uuid4,
            ),
        )
        self._replicas.add_leadership_listener(groups.on_leadership_change)
        self._replicas.add_deletion_listener(groups.on_partitions_deleted)
        self._replicas.add_deletion_listener(self._dynamic_configs.forget_topics)
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
            config=self._config,
            clock=self._clock,
        )

    async def _load_logs(self) -> None:
        if not self._logs.was_clean:
            self.lifecycle.transition_to(BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
        identity, topics = self._identity, frozenset(await self._zk.topics())

        def load(progress: LoadProgress) -> list[TopicPartition]:
            is_known = topics.__contains__
            return self._logs.load(identity.cluster_id, identity.broker_id, progress, is_known)

        recovered = await load_with_progress(load, sys.stderr)
        self._undo.callback(self._logs.shutdown)
        # The tree may know less than the logs: it was adopted, or its end was lost with the power.
        highest_id = self._logs.highest_producer_id()
        await ProducerIdBlocks(self._zk).skip(identity.broker_id, highest_id)
        if recovered:
            _log.info("%d partitions were recovered after an unclean shutdown", len(recovered))

    def _start_background_work(self) -> None:
        writer = BackgroundWriter()
        self._logs.write_with(writer.run)
        self._undo.push_async_callback(writer.stop)
        self._undo.callback(self._flush_threads.stop)
        self._start_cleaner(writer)
        self._work.start()
        self._undo.callback(self._work.stop)
        if _log.isEnabledFor(logging.DEBUG):
            watchdog = Watchdog()
            watchdog.start()
            self._undo.callback(watchdog.stop)

    def _start_cleaner(self, writer: BackgroundWriter) -> None:
        if not self._config.log.log_cleaner_enable:
            return
        in_process = self._config.kbroker.kbroker_cleaner == "process"
        threads = CleanerThreads(partial(_new_cleaner, self._file_system, in_process=in_process))
        self._undo.push_async_callback(threads.stop)
        cleaner = LogCleaner(
            self._logs,
            lambda: self._settings.config.log,
            self._file_system,
            (self._clock, self._clock),
            threads,
            writer.run,
        )
        cleaner.start()
        self._undo.callback(cleaner.stop)

    async def _bind(self) -> None:
        self.end_points = await self._socket_server.start()
        self._undo.callback(self._socket_server.stop_accepting)

    async def _join_cluster(self) -> None:
        """Register, see that there is a controller, and wait until it has told us of ourselves."""
        broker_id = self._identity.broker_id
        broker = Broker(
            broker_id=broker_id,
            end_points=advertised_end_points(self._config, self.end_points),
            rack=self._config.server.broker_rack,
        )
        self._healthcheck = KafkaHealthcheck(self._zk, broker)
        await self._healthcheck.startup()
        self._undo.push_async_callback(self._topics.close)
        self._undo.push_async_callback(self._controller.shutdown)
        await self._controller.startup()
        is_known = await self._waiter.wait_until(
            lambda: self._metadata.broker(broker_id) is not None, _READY_TIMEOUT_MS
        )
        if not is_known:
            raise ConfigError(
                f"the controller (broker {self._controller.controller_id}) did not accept broker "
                f"{broker_id} within {_READY_TIMEOUT_MS / 1000:g} s"
            )
        await self._learn_topics()

    async def _learn_topics(self) -> None:
        """Wait for the topics there are: no client must hear that one of them does not exist."""
        expected = set(await self._zk.topics()) - set(await self._zk.topic_deletions())
        await self._waiter.wait_until(
            lambda: all(map(self._metadata.contains_topic, expected)), _READY_TIMEOUT_MS
        )
        missing = [topic for topic in expected if not self._metadata.contains_topic(topic)]
        if missing:
            _log.warning("the controller has told nothing yet of the topics %s", sorted(missing))

    # News from one part for another.

    def _broker_epoch(self) -> int:
        return self._healthcheck.broker_epoch

    def _current_config(self) -> KafkaConfig:
        return self._settings.config

    async def _load_topic_settings(self, topics: Iterable[TopicPartition]) -> None:
        """Read the overrides of topics whose first log is about to be made."""
        new = {tp.topic for tp in topics if self._logs.get_log(tp) is None}
        await self._dynamic_configs.load_topics(new)
        for topic in new:
            self._settings.topic_changed(topic)

    def _on_topic_config(self, topic: str, _overrides: Mapping[str, str]) -> None:
        self._settings.topic_changed(topic)
        self._logs.update_topic_config(topic, self._settings.of_topic(topic))

    def _on_broker_config(self, entity: str, overrides: Mapping[str, str]) -> None:
        self._settings.broker_changed(entity, overrides)
        for topic in {log.topic_partition.topic for log in self._logs.all_logs()}:
            self._logs.update_topic_config(topic, self._settings.of_topic(topic))

    def _on_directory_offline(
        self, path: str, partitions: list[TopicPartition], error: StorageError
    ) -> None:
        self._replicas.partitions_offline(partitions)
        if not self._logs.online_directories:
            _log.error("no data directory is left: the broker stops")
            self.failed.set()
        elif path == self._config.log.data_directories()[0]:
            self._tree_files.refuse(error)
            _log.error(
                "%s holds the cluster's metadata too: topics and settings cannot be changed until "
                "the broker is started again on a sound disk; other directories are served",
                path,
            )


def _new_cleaner(file_system: FileSystem, *, in_process: bool) -> CleanerWorker:
    from kbroker.server import cleaner_workers  # with the first job: start-up cost

    # Another process knows nothing of files that are not the system's.
    if not isinstance(file_system, RealFileSystem):
        return cleaner_workers.ThreadWorker(file_system)
    if in_process:
        return cleaner_workers.ProcessWorker()
    # Its own count of open files: a thread must not close what the loop is about to send from.
    return cleaner_workers.ThreadWorker(type(file_system)())


def _close_tree(tree: EmbeddedTree) -> None:
    try:
        tree.close()
    except TreeUnavailableError as error:
        _log.warning(
            "The tree could not be closed, its journal is read at the next start: %s", error
        )
