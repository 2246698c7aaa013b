"""Several brokers around one tree in one process: each has a session, a controller, and a metadata
cache it fills from the requests it gets. What the brokers are told is kept as text, one line per
partition.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.protocol_version import gives_topic_ids
from kbroker.controller.channels.controller_channel_manager import BrokerChannel
from kbroker.controller.event_handlers.leader_elections import NO_LEADER_BALANCE
from kbroker.controller.kafka_controller import ControllerSettings, KafkaController
from kbroker.errors import ErrorCode
from kbroker.features import SUPPORTED_FEATURES
from kbroker.model import Broker, EndPoint, TopicPartition
from kbroker.peers.broker_channels import inter_broker_end_point
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from kbroker.zk.zk_utils import ZkUtils
from tests.fakes.running.loop_turns import until_idle
from tests.fakes.trees.memory_tree_files import FixedClock

Cluster = TypeVar("Cluster", bound="ControllerCluster")


class FakeBroker:
    """One broker: no log, but the answers a real one gives.

    A test may make it unreachable, let replicas fail (`failed_replicas`), or tell it of another
    controller epoch.
    """

    def __init__(self, cluster: ControllerCluster, broker_id: int, rack: str | None) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.registration = Broker(
            broker_id=broker_id,
            end_points=(EndPoint(listener_name="PLAINTEXT", host=f"b{broker_id}", port=9092),),
            rack=rack,
            features=cluster.supported_features,
        )
        self.session = cluster.tree.session()
        self.zk = ZkUtils(self.session, cluster.clock)
        self.metadata = MetadataCache(broker_id)
        self.metadata.supported_features = cluster.supported_features
        self.waiter = MetadataWaiter()
        self.refuse_deletion = False
        self.is_reachable = True
        self.missed: list[ControlRequest] = []  # while it is not reachable, each time it is sent
        self.activity: list[bool] = []  # as controller: what it was told, in order
        self.failed_replicas: set[TopicPartition] = set()
        self.known_orders: set[TopicPartition] = set()  # carried out; the answer was lost
        self.controller_epoch = 0
        self.broker_epoch = -1
        self.controller = KafkaController(
            ControllerSettings(
                broker_id=broker_id,
                delete_topic_enable=cluster.config.server.delete_topic_enable,
                leader_balance=cluster.leader_balance,
                supported_features=cluster.supported_features,
                first_levels=cluster.first_levels,
                unclean_leader_election_enable=lambda: cluster.unclean_by_default,
                gives_topic_ids=gives_topic_ids(
                    cluster.config.server.inter_broker_protocol_version
                ),
            ),
            self.zk,
            cluster.channel,
            on_activity_change=self.activity.append,
            register_broker=lambda: self.register(),  # noqa: PLW0108  a test may put another there
        )
        self.topics = TopicAdmin(
            self.zk, lambda: cluster.config, self.metadata, self.waiter, random.Random(1)
        )
        self.configs = ConfigAdmin(self.zk, lambda: cluster.config, self.metadata)

    async def start(self) -> None:
        await self.zk.create_persistent_paths()
        await self.register()
        await self.controller.startup()

    async def register(self) -> int:
        self.broker_epoch = await self.zk.register_broker(self.registration)
        return self.broker_epoch

    async def stop(self) -> None:
        await self.topics.close()
        await self.controller.shutdown()
        await self.session.close()

    def kill(self) -> None:
        """The process dies: its session expires, and nothing it does counts any more."""
        self.cluster.brokers.pop(self.broker_id)
        self.cluster.dead.append(self)
        self.session.expire()

    def close(self) -> None:
        pass

    async def send(self, request: ControlRequest) -> ControlResponse:
        if not self.is_reachable:
            self.missed.append(request)
            raise ConnectionRefusedError(f"broker {self.broker_id}")
        self.cluster.requests.append((self.broker_id, request))
        refusal = self._refusal(request)
        if refusal is ErrorCode.NONE:
            self.controller_epoch = request.controller_epoch
            self.cluster.told.extend(describe(self.broker_id, request))
        if isinstance(request, UpdateMetadataRequest):
            if refusal is ErrorCode.NONE:
                self.metadata.update(request)
                self.waiter.notify()
            return UpdateMetadataResponse(error_code=refusal)
        if isinstance(request, LeaderAndIsrRequest):
            return self._answer_to_leader_and_isr(request, refusal)
        if self.refuse_deletion:
            refusal = ErrorCode.KAFKA_STORAGE_ERROR
        return StopReplicaResponse(error_code=refusal)

    def _refusal(self, request: ControlRequest) -> ErrorCode:
        if request.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    def _answer_to_leader_and_isr(
        self, request: LeaderAndIsrRequest, refusal: ErrorCode
    ) -> LeaderAndIsrResponse:
        response = LeaderAndIsrResponse(error_code=refusal)
        if refusal is not ErrorCode.NONE:
            return response
        for topic in request.topic_states:
            answer = LeaderAndIsrResponse.LeaderAndIsrTopicError(topic_id=topic.topic_id)
            response.topics.append(answer)
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                answer.partition_errors.append(
                    LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                        partition_index=state.partition_index, error_code=self._outcome(partition)
                    )
                )
        return response

    def _outcome(self, partition: TopicPartition) -> ErrorCode:
        if partition in self.failed_replicas:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition in self.known_orders:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE


class NobodyThere:
    """The channel to a broker that is registered, perhaps by hand, and does not exist."""

    async def send(self, request: ControlRequest) -> ControlResponse:
        raise ConnectionRefusedError

    def close(self) -> None:
        pass


class ControllerCluster:
    """The tree and its brokers."""

    def __init__(self, config: KafkaConfig | None = None) -> None:
        self.clock = FixedClock()
        self.tree = EmbeddedTree(self.clock)
        self.leader_balance = NO_LEADER_BALANCE
        self.supported_features = SUPPORTED_FEATURES
        self.first_levels: dict[str, int] = {}
        self.config = config or KafkaConfig.for_profile("dev")
        self.brokers: dict[int, FakeBroker] = {}
        self.dead: list[FakeBroker] = []
        self.unclean_by_default = False
        self.told: list[str] = []
        self.requests: list[tuple[int, ControlRequest]] = []

    async def start(self, broker_id: int, rack: str | None = None) -> FakeBroker:
        broker = self.brokers[broker_id] = self.make_broker(broker_id, rack)
        await broker.start()
        await self.settle()
        return broker

    def make_broker(self, broker_id: int, rack: str | None) -> FakeBroker:
        return FakeBroker(self, broker_id, rack)

    def channel(self, broker: Broker) -> BrokerChannel:
        inter_broker_end_point(broker.end_points, "PLAINTEXT")  # as a broker's own channels do
        return self.brokers.get(broker.broker_id) or NobodyThere()

    @property
    def controller(self) -> FakeBroker:
        return next(b for b in self.brokers.values() if b.controller.is_active)

    async def settle(self) -> None:
        """Run until nothing is left to do: everything here answers at once."""
        await until_idle(400)

    async def stop(self) -> None:
        for broker in [*self.brokers.values(), *self.dead]:
            await broker.stop()

    def state(self) -> list[str]:
        """The leaders as the tree holds them."""
        prefix, suffix = "/brokers/topics/", "/state"
        return [
            f"{path.removeprefix(prefix).replace('/partitions/', '-').removesuffix(suffix)}"
            f" {(data or b'').decode()}"
            for path, data, _ in self.tree.dump()
            if path.endswith(suffix)
        ]


def describe(broker_id: int, request: ControlRequest) -> list[str]:
    """A request as lines of text; metadata without partitions is left out."""
    lines = []
    for topic in request.topic_states:
        for state in topic.partition_states:
            name = f"{topic.topic_name}-{state.partition_index}"
            lines.append(f"broker {broker_id} <- {_describe_partition(request, name, state)}")
    return lines


def _describe_partition(request: ControlRequest, name: str, state: object) -> str:
    describer: Callable[[str, object], str] = {
        LeaderAndIsrRequest: _leader_and_isr,
        UpdateMetadataRequest: _update_metadata,
        StopReplicaRequest: _stop_replica,
    }[type(request)]
    return describer(name, state)


def _leader_and_isr(name: str, state: object) -> str:
    assert isinstance(state, LeaderAndIsrRequest.LeaderAndIsrPartitionState)
    new = " new" if state.is_new else ""
    return (
        f"LeaderAndIsr {name} leader={state.leader} epoch={state.leader_epoch} isr={state.isr}{new}"
    )


def _update_metadata(name: str, state: object) -> str:
    assert isinstance(state, UpdateMetadataRequest.UpdateMetadataPartitionState)
    offline = f" offline={state.offline_replicas}" if state.offline_replicas else ""
    leadership = f"leader={state.leader} epoch={state.leader_epoch} isr={state.isr}"
    return f"UpdateMetadata {name} {leadership}{offline}"


def _stop_replica(name: str, state: object) -> str:
    assert isinstance(state, StopReplicaRequest.StopReplicaPartitionState)
    delete = " delete" if state.delete_partition else ""
    return f"StopReplica {name} epoch={state.leader_epoch}{delete}"


@asynccontextmanager
async def running(cluster: Cluster, *, brokers: int) -> AsyncIterator[Cluster]:
    """The cluster with brokers 0, 1, ... started; 0 is controller. All brokers are stopped after."""
    try:
        for broker_id in range(brokers):
            await cluster.start(broker_id)
        yield cluster
    finally:
        await cluster.stop()
