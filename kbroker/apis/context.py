"""What a handler sees: who asks, in which version, and the services it may call.

`Services` is put together once, in `server`; a `RequestContext` is made for every request and holds
nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.kafka_controller import KafkaController
from kbroker.coordinator.group_coordinator import GroupCoordinator
from kbroker.peers.forwarding_manager import ForwardingManager
from kbroker.peers.peers import Peers
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import ConnectionInfo, NoResponse, Request, Response
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.orders.control_requests import ControlRequests
from kbroker.replication.replica_manager import ReplicaManager

Result = Response | NoResponse
Answer = Callable[[Request], Result | Awaitable[Result]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The broker's parts that handlers call."""

    replicas: ReplicaManager
    groups: GroupCoordinator
    metadata: MetadataCache
    topics: TopicAdmin
    configs: ConfigAdmin
    producer_ids: ProducerIdManager
    controller: KafkaController
    control: ControlRequests
    peers: Peers
    forwarding: ForwardingManager
    config: KafkaConfig
    clock: Clock
    answer: Answer | None = None  # set by the KafkaApis whose handlers are given these


class RequestContext:
    """One request's surroundings."""

    __slots__ = ("_services", "connection", "header")

    def __init__(
        self, header: RequestHeader, connection: ConnectionInfo, services: Services
    ) -> None:
        self.header = header
        self.connection = connection
        self._services = services

    @property
    def api_version(self) -> int:
        """Version of the request, and so of its answer."""
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        return self.header.client_id

    @property
    def replicas(self) -> ReplicaManager:
        """Partitions of this broker: append, fetch, offsets."""
        return self._services.replicas

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""
        return self._services.groups

    @property
    def metadata(self) -> MetadataCache:
        """Topics, partitions and brokers as the controller announced them."""
        return self._services.metadata

    @property
    def topics(self) -> TopicAdmin:
        """Creates and deletes topics."""
        return self._services.topics

    @property
    def configs(self) -> ConfigAdmin:
        """Dynamic configuration of topics and brokers."""
        return self._services.configs

    @property
    def producer_ids(self) -> ProducerIdManager:
        """Hands out producer ids."""
        return self._services.producer_ids

    @property
    def controller(self) -> KafkaController:
        """The cluster's controller as seen from this broker."""
        return self._services.controller

    @property
    def control(self) -> ControlRequests:
        """What this broker does when its controller orders."""
        return self._services.control

    @property
    def peers(self) -> Peers:
        """Whether a request is from another broker, or from the controller."""
        return self._services.peers

    @property
    def forwarding(self) -> ForwardingManager:
        """The way of clients' requests to the controller."""
        return self._services.forwarding

    @property
    def answer(self) -> Answer:
        """Answers another request, one that came inside this one."""
        answer = self._services.answer
        assert answer is not None, "these services belong to no KafkaApis"
        return answer

    @property
    def config(self) -> KafkaConfig:
        """The broker's configuration."""
        return self._services.config

    @property
    def clock(self) -> Clock:
        """Time."""
        return self._services.clock
