"""The parts of a broker below those that answer its clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.finalized_feature_change_listener import FinalizedFeatureChangeListener
from kbroker.admin.group_config_manager import GroupConfigManager
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.kafka_controller import KafkaController
from kbroker.events.event_recorder import EventRecorder
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import Broker
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.peers.node_to_controller_channel import NodeToControllerChannel, PeerClient
from kbroker.replication.controller_requests.alter_partition_manager import AlterPartitionManager
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.replication.fetchers.replica_fetcher_manager import ReplicaFetcherManager
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.broker.broker_settings import BrokerSettings
from kbroker.server.broker.topic_size import TopicSize
from kbroker.server.membership.controller_questions import ControllerQuestions
from kbroker.server.membership.kafka_healthcheck import KafkaHealthcheck
from kbroker.server.membership.log_dir_events import LogDirEvents


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DataParts:
    """The parts that hold records, metadata, the settings in force and the last events."""

    dynamic_configs: DynamicConfigManager
    settings: BrokerSettings
    group_configs: GroupConfigManager
    logs: LogManager
    metadata: MetadataCache
    waiter: MetadataWaiter
    replicas: ReplicaManager
    events: EventRecorder
    offsets_topic: TopicSize
    transactions_topic: TopicSize

    def config(self) -> KafkaConfig:
        return self.settings.config


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ClusterParts:
    """The parts that tie a broker to its cluster."""

    healthcheck: KafkaHealthcheck
    log_dir_events: LogDirEvents
    control: ControlRequests
    controller: KafkaController
    to_controller: NodeToControllerChannel
    questions: ControllerQuestions
    features: FinalizedFeatureChangeListener
    fetchers: ReplicaFetcherManager
    isr_changes: AlterPartitionManager
    open_client: Callable[[Broker], PeerClient]
