"""The stages of a broker: what each brings about, and that a start which fails in one leaves
nothing behind.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from unittest.mock import patch

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.kafka_controller import KafkaController
from kbroker.coordinator.group_coordinator import Caller
from kbroker.coordinator.runtime.coordinator_finder import CoordinatorType
from kbroker.coordinator.transaction.marker_sender import TransactionMarkerSender
from kbroker.coordinator.transaction.producer import NO_PRODUCER
from kbroker.coordinator.transaction.transaction import TransactionState
from kbroker.errors import ConfigError, ErrorCode, KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.model import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    EndPoint,
    TopicPartition,
)
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.server.broker.broker_parts import BrokerParts, make_parts
from kbroker.server.broker.broker_state import BrokerState
from kbroker.server.broker.broker_storage import BrokerStorage, open_storage
from kbroker.server.broker.kafka_server import KafkaServer
from kbroker.server.broker.surroundings import Surroundings
from kbroker.server.broker.tree_opening import RequestedStart
from kbroker.server.membership.cluster_membership import ClusterMembership
from kbroker.server.metadata_tree.cluster_tree import OwnTree, SharedTree
from kbroker.server.start_error import BrokerIdInUseError, StartError
from kbroker.zk import zk_paths
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.tree import Tree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.running.virtual_time import VirtualTime
from tests.fakes.running.waiting import until
from tests.fakes.trees.memory_tree_files import FixedClock

DATA = "/data"
BEAT = HeartbeatRequest(group_id="g", member_id="m")
AlterConfigsResource = IncrementalAlterConfigsRequest.AlterConfigsResource


def config_of(**values: str) -> KafkaConfig:
    """Settings by Kafka's names, with _ for each dot."""
    given = {name.replace("_", "."): value for name, value in values.items()}
    free = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": DATA, "broker.id": "0"}
    return KafkaConfig.for_profile("dev", {**free, **given})


class WatchedTree(OwnTree):
    """Says what is done to it."""

    def __init__(self, disk: MemoryFileSystem, said: list[str]) -> None:
        super().__init__(FixedClock(), disk, DATA)
        self._said = said

    async def open(self) -> Tree:
        self._said.append("tree opened")
        return await super().open()

    async def close(self) -> None:
        self._said.append("tree closed")
        await super().close()


class Failure:
    """One start that fails, and what it leaves."""

    def __init__(self) -> None:
        self.disk = MemoryFileSystem()
        self.said: list[str] = []

    async def start(self, expected: type[Exception], match: str, **values: str) -> KafkaServer:
        tree = WatchedTree(self.disk, self.said)
        server = KafkaServer(config_of(**values), file_system=self.disk, tree=tree)
        with pytest.raises(expected, match=match):
            await server.startup()
        self.check_left_behind(server)
        return server

    def check_left_behind(self, server: KafkaServer) -> None:
        assert server.lifecycle.state is BrokerState.NOT_RUNNING
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not any(node.is_locked for _, node in self.disk.files())
        assert server.end_points == ()

    async def start_and_stop(self, **values: str) -> None:
        """A sound start, and a clean stop."""
        server = KafkaServer(config_of(**values), file_system=self.disk)
        await server.startup()
        await server.shutdown()

    @property
    def was_clean(self) -> bool:
        """Whether the logs are marked as whole."""
        return self.disk.exists(f"{DATA}/.kafka_cleanshutdown")


async def test_a_start_that_is_refused_before_the_first_stage_touches_nothing() -> None:
    failure = Failure()
    await failure.start_and_stop()
    before = {path: bytes(node.data) for path, node in failure.disk.files()}
    failure.disk.make_directory("/data/broker-1")
    failure.disk.open("/data/broker-1/meta.properties", create=True).close()
    before["/data/broker-1/meta.properties"] = b""

    await failure.start(StartError, "belongs to several brokers")

    assert failure.said == []
    assert {path: bytes(node.data) for path, node in failure.disk.files()} == before


async def test_a_tree_that_cannot_be_opened_lets_the_directories_go() -> None:
    failure = Failure()
    with patch.object(OwnTree, "open", side_effect=StartError("no tree")):
        await failure.start(StartError, "no tree")

    assert failure.said == ["tree opened", "tree closed"]
    await failure.start_and_stop()


async def test_parts_that_do_not_fit_together_let_tree_and_directories_go() -> None:
    failure = Failure()
    await failure.start(
        ConfigError,
        "TLS needs a key and its certificate",
        listeners="SSL://127.0.0.1:0",
        inter_broker_listener_name="SSL",
    )

    assert failure.said == ["tree opened", "tree closed"]
    assert not failure.was_clean  # no log was looked at
    await failure.start_and_stop()


async def test_logs_that_cannot_be_opened_are_not_called_whole() -> None:
    failure = Failure()
    await failure.start_and_stop(broker_id="1")

    await failure.start(LogDirectoryError, "belongs to broker 1", broker_id="2")

    assert failure.said == ["tree opened", "tree closed"]
    await failure.start_and_stop(broker_id="1")


async def test_a_port_that_is_taken_leaves_logs_that_were_stopped_cleanly() -> None:
    failure = Failure()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        await failure.start(ConfigError, str(port), listeners=f"PLAINTEXT://127.0.0.1:{port}")

    assert failure.said == ["tree opened", "tree closed"]
    assert failure.was_clean


async def test_an_id_in_use_leaves_no_socket_and_no_registration() -> None:
    failure, store = Failure(), EmbeddedTree(FixedClock())
    first = KafkaServer(
        config_of(), file_system=MemoryFileSystem(), tree=SharedTree(store, "the tree")
    )
    await first.startup()
    tasks = asyncio.all_tasks()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    second = KafkaServer(
        config_of(listeners=f"PLAINTEXT://127.0.0.1:{port}"),
        file_system=failure.disk,
        tree=SharedTree(store, "the tree"),
    )

    with pytest.raises(BrokerIdInUseError):
        await second.startup()

    assert asyncio.all_tasks() == tasks
    assert not any(node.is_locked for _, node in failure.disk.files())
    assert failure.was_clean
    with socket.create_server(("127.0.0.1", port)):
        pass  # nobody listens there
    (registered,) = await ZkUtils(store.session(), FixedClock()).all_brokers()
    assert registered.epoch == first.broker_epoch
    await first.shutdown()


async def test_a_start_that_fails_after_groups_were_loaded_leaves_no_session_of_theirs() -> None:
    failure, time = Failure(), VirtualTime()
    first = KafkaServer(config_of(), file_system=failure.disk)
    await first.startup()
    services = first.parts.services
    await services.topics.auto_create(["__consumer_offsets"])
    await until(lambda: services.groups.heartbeat(BEAT) is ErrorCode.UNKNOWN_MEMBER_ID)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    caller = Caller(client_id="c", client_host="/127.0.0.1", api_version=3)
    member = services.groups.join_group(request, caller)
    assert isinstance(member, JoinGroupResponse)
    services.groups.sync_group(
        SyncGroupRequest(group_id="g", member_id=member.member_id, generation_id=1)
    )
    await first.shutdown()

    join = ClusterMembership.join

    async def joins_in_vain(membership: ClusterMembership) -> None:
        await join(membership)
        raise StartError("not today")

    server = KafkaServer(config_of(), file_system=failure.disk, around=Surroundings(clock=time))
    with patch.object(ClusterMembership, "join", joins_in_vain), pytest.raises(StartError):
        await server.startup()

    failure.check_left_behind(server)
    assert time.armed() == 0


async def test_a_start_that_is_cancelled_while_logs_are_opened_leaves_nothing() -> None:
    failure = Failure()

    @contextmanager
    def watch(_progress: LoadProgress) -> Iterator[Callable[[], object]]:
        starting.cancel()
        yield lambda: None

    server = KafkaServer(
        config_of(), file_system=failure.disk, around=Surroundings(watch_loading=watch)
    )
    starting = asyncio.create_task(server.startup())
    with pytest.raises(asyncio.CancelledError):
        await starting

    failure.check_left_behind(server)
    await failure.start_and_stop()


# ---- what the stages bring about


async def storage_of(
    disk: MemoryFileSystem, undo: AsyncExitStack, config: KafkaConfig | None = None
) -> BrokerStorage:
    wish = RequestedStart(config=config or config_of(), cluster_id="cluster-1", adopt=None)
    tree = OwnTree(FixedClock(), disk, DATA)
    return await open_storage(wish, tree, disk, FixedClock(), undo)


async def test_storage_is_locked_directories_an_open_tree_and_an_identity() -> None:
    disk = MemoryFileSystem()
    async with AsyncExitStack() as undo:
        storage = await storage_of(disk, undo)

        assert storage.identity.cluster_id == "cluster-1"
        assert storage.config.server.broker_id == storage.identity.broker_id == 0
        assert await storage.zk.tree.exists(zk_paths.CLUSTER_ID) is not None
        with pytest.raises(LogDirectoryError, match="in use by another broker"):
            LogDirectories.lock(disk, [DATA])
    LogDirectories.lock(disk, [DATA]).release()


async def test_parts_are_made_without_doing_anything() -> None:
    disk = MemoryFileSystem()
    async with AsyncExitStack() as undo:
        storage = await storage_of(disk, undo)
        before = {path: bytes(node.data) for path, node in disk.files()}

        make_parts(storage, Surroundings())

        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert {path: bytes(node.data) for path, node in disk.files()} == before


async def test_the_tree_of_a_directory_that_fails_takes_the_directory_down() -> None:
    disk = MemoryFileSystem()
    async with AsyncExitStack() as undo:
        storage = await storage_of(disk, undo)
        assert isinstance(storage.tree, OwnTree)

        storage.tree.on_failure(StorageError(DATA, "write", 5))

        assert storage.directories.online == []


# ---- who hears of what


@asynccontextmanager
async def running(
    *, around: Surroundings | None = None, **values: str
) -> AsyncIterator[KafkaServer]:
    """A broker that was started, and is stopped after."""
    server = KafkaServer(config_of(**values), file_system=MemoryFileSystem(), around=around)
    await server.startup()
    try:
        yield server
    finally:
        await server.shutdown()


@pytest.fixture
def values() -> dict[str, str]:
    """Settings of the broker, apart from those of every test."""
    return {}


@pytest.fixture
async def server(values: dict[str, str]) -> AsyncIterator[KafkaServer]:
    async with running(**values) as server:
        yield server


async def create_topic(parts: BrokerParts, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (result,) = await parts.services.topics.create_topics([topic], 10_000, False)
    assert result.error is ErrorCode.NONE


async def alter(parts: BrokerParts, kind: int, name: str, setting: str, value: str) -> None:
    """`kind` is 2 for a topic, 4 for a broker; an empty name is all brokers'."""
    change = IncrementalAlterConfigsRequest.AlterableConfig(
        name=setting, config_operation=0, value=value
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    (error,) = await parts.services.configs.incremental_alter([resource], False)
    assert error is None


async def test_the_seat_of_the_controller_shows_in_the_state_of_the_broker(
    server: KafkaServer,
) -> None:
    assert server.is_controller
    assert server.lifecycle.state is BrokerState.RUNNING_AS_CONTROLLER


async def test_a_topics_settings_reach_its_logs_and_go_with_it(server: KafkaServer) -> None:
    parts = server.parts
    await create_topic(parts, "t")
    log = parts.data.logs.get_log(TopicPartition("t", 0))
    assert log is not None

    await alter(parts, 2, "t", "retention.ms", "7")
    await until(lambda: log.config.retention_ms == 7)
    assert parts.data.dynamic_configs.topic_overrides("t") == {"retention.ms": "7"}

    await parts.services.topics.delete_topics(["t"], 10_000)
    await until(lambda: not parts.data.dynamic_configs.topic_overrides("t"))


async def test_a_dynamic_setting_of_brokers_is_in_force_everywhere(server: KafkaServer) -> None:
    parts = server.parts
    await create_topic(parts, "t")
    log = parts.data.logs.get_log(TopicPartition("t", 0))
    assert log is not None

    await alter(parts, 4, "", "log.retention.ms", "9")

    await until(lambda: log.config.retention_ms == 9)
    assert parts.data.config().log.log_retention_ms == 9


async def test_the_controller_hears_where_unclean_elections_become_allowed() -> None:
    setting = "unclean.leader.election.enable"

    with patch.object(KafkaController, "enable_unclean_elections") as enable:
        async with running() as server:
            await create_topic(server.parts, "t")
            await alter(server.parts, 2, "t", setting, "true")
            await until(lambda: enable.called)
            await alter(server.parts, 4, "", setting, "true")
            await until(lambda: enable.call_count == 2)

    assert [call.args for call in enable.call_args_list] == [("t",), (None,)]


async def test_a_broker_without_a_data_directory_cannot_go_on(server: KafkaServer) -> None:
    await create_topic(server.parts, "t")

    server.parts.data.logs.fail_directory(DATA, StorageError(DATA, "write", 5))

    await asyncio.wait_for(server.failed.wait(), 10)
    assert isinstance(server.failure, LogDirectoryError)
    assert "No data directory is left of /data" in str(server.failure)
    assert list(server.parts.data.replicas.hosted) == []


@pytest.mark.parametrize("values", [{"log_dirs": f"{DATA},/more"}, {"log_dirs": f"{DATA}/,/more"}])
async def test_a_failed_directory_with_the_tree_takes_no_more_changes(server: KafkaServer) -> None:
    server.parts.data.logs.fail_directory(DATA, StorageError(DATA, "write", 5))

    assert server.failure is None  # another directory is left
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    (result,) = await server.parts.services.topics.create_topics([topic], 1_000, False)
    assert result.error is not ErrorCode.NONE


async def test_a_data_directory_with_a_slash_at_its_end_is_that_without() -> None:
    disk = MemoryFileSystem()
    seen: list[tuple[object, ...]] = []
    for named in (DATA, f"{DATA}/", DATA):
        server = KafkaServer(config_of(log_dirs=named), file_system=disk)
        await server.startup()
        parts = server.parts
        if not seen:
            await create_topic(parts, "t")
        topics = await parts.storage.zk.topics()
        (log,) = parts.data.logs.all_logs()
        tree, identity = parts.storage.tree, parts.storage.identity
        seen.append((identity, tree.own_directory, log.directory, log.topic_id, topics))
        await server.shutdown()

    assert seen[1:] == seen[:1] * 2


async def test_the_group_coordinator_hears_what_it_leads_and_no_longer_leads(
    server: KafkaServer,
) -> None:
    parts, beat = server.parts, HeartbeatRequest(group_id="g", member_id="m")
    assert parts.services.groups.heartbeat(beat) is ErrorCode.NOT_COORDINATOR

    await parts.services.topics.auto_create(["__consumer_offsets"])
    await until(lambda: parts.services.groups.heartbeat(beat) is ErrorCode.UNKNOWN_MEMBER_ID)

    await parts.services.topics.delete_topics(["__consumer_offsets"], 10_000)
    await until(lambda: parts.services.groups.heartbeat(beat) is ErrorCode.NOT_COORDINATOR)


async def test_the_transaction_coordinator_hears_what_it_leads_and_no_longer_leads(
    server: KafkaServer,
) -> None:
    transactions = server.parts.services.transactions

    def is_kept_elsewhere() -> bool:
        try:
            transactions.describe("x")
        except KafkaError as error:
            return error.code is ErrorCode.NOT_COORDINATOR
        return False

    assert is_kept_elsewhere()
    assert await transactions.find_coordinator(CoordinatorType.TRANSACTION, "x") == 0
    producer = await transactions.init_producer_id("x", 1_000, NO_PRODUCER)
    assert transactions.describe("x").producer == producer

    await server.parts.services.topics.delete_topics([TRANSACTION_STATE_TOPIC], 10_000)
    await until(is_kept_elsewhere)


async def test_a_transaction_that_was_about_to_end_ends_after_a_restart() -> None:
    disk = MemoryFileSystem()
    first = KafkaServer(config_of(), file_system=disk)
    await first.startup()
    await create_topic(first.parts, "t")
    transactions = first.parts.services.transactions
    await transactions.find_coordinator(CoordinatorType.TRANSACTION, "x")
    producer = await transactions.init_producer_id("x", 1_000, NO_PRODUCER)
    await transactions.add_partitions("x", producer, [TopicPartition("t", 0)])
    with patch.object(TransactionMarkerSender, "__call__", new=_never):
        await transactions.end("x", producer, is_commit=True)
        await first.shutdown()

    second = KafkaServer(config_of(), file_system=disk)
    await second.startup()

    partition = second.parts.data.replicas.hosted.get(TopicPartition("t", 0))
    await until(lambda: partition.log.log_end_offset == 1)
    transactions = second.parts.services.transactions
    await until(lambda: transactions.describe("x").state is TransactionState.COMPLETE_COMMIT)
    await second.shutdown()


async def _never(_sender: object, _markers: object) -> None:
    await asyncio.Event().wait()


async def test_time_and_whoever_watches_come_from_outside() -> None:
    looks: list[str] = []

    @contextmanager
    def watch(_progress: LoadProgress) -> Iterator[Callable[[], object]]:
        looks.append("opened")
        yield lambda: None
        looks.append("closed")

    time = VirtualTime()
    async with running(around=Surroundings(clock=time, watch_loading=watch)) as server:
        parts = server.parts
        data, _ = await parts.storage.zk.tree.get(zk_paths.broker_path(0))
        assert json.loads(data or b"")["timestamp"] == str(time.now_ms())
        assert parts.services.clock is time
        assert looks == ["opened", "closed"]


@pytest.mark.parametrize("values", [{"broker_id": "7"}])
async def test_a_broker_is_known_by_its_id_and_end_points(server: KafkaServer) -> None:
    (end_point,) = server.end_points
    assert isinstance(end_point, EndPoint)
    assert end_point.port
    assert server.broker_id == 7
    assert server.broker_epoch == server.parts.cluster.healthcheck.broker_epoch > 0


@pytest.mark.parametrize("values", [{"offsets_topic_num_partitions": "3"}])
async def test_groups_stay_where_they_are_while_a_partition_of_their_offsets_is_spoilt(
    server: KafkaServer,
) -> None:
    parts = server.parts
    await parts.services.topics.auto_create([GROUP_METADATA_TOPIC])
    names = [f"group-{number}" for number in range(100)]
    before = list(map(parts.services.groups.partition_for, names))

    state = zk_paths.partition_state_path(GROUP_METADATA_TOPIC, 1)
    await parts.storage.zk.tree.set(state, b"{")
    parts.cluster.controller.read_anew()
    await until(lambda: parts.data.metadata.partition_count(GROUP_METADATA_TOPIC) == 2)

    assert list(map(parts.services.groups.partition_for, names)) == before


@pytest.mark.parametrize("values", [{"transaction_state_log_num_partitions": "3"}])
async def test_transactional_ids_stay_where_they_are_while_a_partition_of_theirs_is_spoilt(
    server: KafkaServer,
) -> None:
    parts = server.parts
    await parts.services.topics.auto_create([TRANSACTION_STATE_TOPIC])
    names = [f"id-{number}" for number in range(100)]
    before = list(map(parts.services.transactions.partition_for, names))

    state = zk_paths.partition_state_path(TRANSACTION_STATE_TOPIC, 1)
    await parts.storage.zk.tree.set(state, b"{")
    parts.cluster.controller.read_anew()
    await until(lambda: parts.data.metadata.partition_count(TRANSACTION_STATE_TOPIC) == 2)

    assert list(map(parts.services.transactions.partition_for, names)) == before
