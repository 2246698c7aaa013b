"""The second stage of a broker: all its parts, made and connected, but not running yet.

Law: a part gets what it needs in its constructor, or is called as a listener.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kbroker.admin.config_admin import ConfigAdmin
from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.finalized_feature_change_listener import (
    FinalizedFeatureChangeListener,
    UnsupportedFeaturesError,
)
from kbroker.admin.group_config_manager import GroupConfigManager
from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.admin.topic_admin import TopicAdmin
from kbroker.apis import registry
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.refused_requests import RefusedRequests
from kbroker.apis.request_counters import RequestStats
from kbroker.clock import ClockWithTimer
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.protocol_version import fetches_by_topic_id, gives_topic_ids
from kbroker.controller.event_handlers.leader_elections import LeaderBalanceSettings
from kbroker.controller.kafka_controller import ControllerSettings, KafkaController
from kbroker.controller.state_machines.feature_needs import first_levels
from kbroker.coordinator.group.consumer_group_services import ConsumerGroupServices
from kbroker.coordinator.group_coordinator import CoordinatorServices, GroupCoordinator
from kbroker.coordinator.offsets.legacy_offsets import ZkLegacyOffsets
from kbroker.counters import CounterRegistry
from kbroker.events.event_recorder import EventRecorder
from kbroker.features import SUPPORTED_FEATURES
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import (
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from kbroker.network.socket_server import SocketServer
from kbroker.network.unserved_clients import UnservedClients
from kbroker.peers.cluster_action import PeerListeners
from kbroker.peers.forwarding_manager import ForwardingManager
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.peers.node_to_controller_channel import NodeToControllerChannel
from kbroker.peers.peers import Peers
from kbroker.replication.controller_requests.alter_partition_manager import (
    AlterPartitionManager,
    AskController,
)
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.replication.fetchers.fetcher_parts import FetcherParts, Follower, FollowerThrottle
from kbroker.replication.fetchers.replica_fetcher_manager import ReplicaFetcherManager
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.replication.writes.shared_flush import FlushPolicy
from kbroker.server.broker.broker_authorizer import authorized
from kbroker.server.broker.broker_failure import BrokerFailure, LogDirFailure
from kbroker.server.broker.broker_listeners import (
    checks_of,
    logins_of,
    parts_of_listeners,
    tls_of,
)
from kbroker.server.broker.broker_quotas import BrokerQuotas, quotas_of
from kbroker.server.broker.broker_settings import BrokerSettings, SettingsUpdates
from kbroker.server.broker.broker_storage import BrokerStorage
from kbroker.server.broker.broker_tokens import with_tokens
from kbroker.server.broker.broker_transactions import BrokerTransactions
from kbroker.server.broker.connection_limits import follow_limits
from kbroker.server.broker.followed_requests import FollowedRequests, watch_for_slow
from kbroker.server.broker.inner_parts import ClusterParts, DataParts
from kbroker.server.broker.surroundings import Channels, Surroundings
from kbroker.server.broker.topic_size import TopicSize
from kbroker.server.membership.controller_questions import ControllerQuestions
from kbroker.server.membership.kafka_healthcheck import KafkaHealthcheck
from kbroker.server.membership.log_dir_events import LogDirEvents
from kbroker.server.membership.log_end_questions import LogEndQuestions
from kbroker.server.membership.zk_isr_manager import ZkIsrManager, asks_controller
from kbroker.server.start_error import StartError
from kbroker.zk.nodes.cluster_members import ClusterMembers

if TYPE_CHECKING:  # a broker without logins does without it
    from kbroker.admin.acl_authorizer import AclAuthorizer
    from kbroker.admin.own_authorizer import OwnAuthorizer
    from kbroker.server.broker.broker_logins import BrokerLogins
    from kbroker.server.broker.broker_tls import BrokerTls
    from kbroker.server.broker.transactions_in_force import TransactionsInForce


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BrokerParts:
    """A whole broker that is not running yet."""

    storage: BrokerStorage
    data: DataParts
    cluster: ClusterParts
    services: Services  # what clients ask
    transactions: BrokerTransactions
    requests: RequestStats
    socket_server: SocketServer
    followed: FollowedRequests
    counters: CounterRegistry
    quotas: BrokerQuotas
    logins: BrokerLogins | None  # given if a listener asks for them
    tls: BrokerTls | None  # given if a listener has it
    authorizer: AclAuthorizer | OwnAuthorizer | None  # given if there is to be one


def make_parts(storage: BrokerStorage, around: Surroundings) -> BrokerParts:
    """Make the parts of a broker. Raises ConfigError for listeners that cannot be served."""
    data = _data_parts(storage, around)
    cluster = _cluster_parts(storage, data, around)
    unserved = UnservedClients()
    tls = tls_of(storage.config, data.config, data.dynamic_configs, around.clock)
    transactions, services = _services(storage, data, cluster, around, tls)
    refusals = RefusedRequests(around.clock, data.config, data.settings.of_topic, data.events.keep)
    services = replace(services, name_unserved=unserved.name, refusals=refusals)
    authorizer, services = authorized(storage, services, around.clock)
    services = with_tokens(storage, services, around.clock)
    apis = KafkaApis(registry.registered(), services)
    config = storage.config
    logins = logins_of(config, data.config, data.dynamic_configs, services, around.clock)
    socket_server = SocketServer(
        config.socket_server,
        config.end_points(),
        apis.handle,
        around.clock,
        unserved=unserved,
        make_parts=parts_of_listeners(config, tls, logins),
    )
    socket_server.processor.room = apis.room
    follow_limits(socket_server, data.config, data.dynamic_configs)
    quotas = quotas_of(socket_server, apis, config, around.clock, data.metadata)
    quotas.follow(data.dynamic_configs)
    watch_for_slow(apis.stats, config, around.clock, data.metadata.topic_name)
    counters = CounterRegistry()
    of_cluster = cluster.controller, cluster.isr_changes
    for part in (socket_server, apis.stats, data.replicas, *of_cluster, around.lifecycle):
        part.register(counters)
    if services.audit is not None:
        services.audit.register(counters)
    return BrokerParts(
        storage=storage,
        data=data,
        cluster=cluster,
        services=services,
        transactions=transactions,
        requests=apis.stats,
        socket_server=socket_server,
        followed=FollowedRequests(apis, socket_server.pool, around.clock, data.metadata.topic_name),
        counters=counters,
        logins=logins,
        quotas=quotas,
        tls=tls,
        authorizer=authorizer,
    )


def _data_parts(storage: BrokerStorage, around: Surroundings) -> DataParts:
    config, clock = storage.config, around.clock
    dynamic_configs = DynamicConfigManager(storage.zk, clock)
    settings = BrokerSettings(config, dynamic_configs.topic_overrides)
    group_configs = GroupConfigManager(lambda: settings.config.consumer_group)
    group_configs.follow(dynamic_configs)
    logs = LogManager(
        storage.directories,
        lambda: settings.config.log,
        settings.of_topic,
        storage.file_system,
        clock,
        walks_records=config.kbroker.kbroker_record_validation == "full",
    )
    metadata = MetadataCache(storage.identity.broker_id, storage.identity.cluster_id)
    replicas = ReplicaManager(logs, metadata, clock, clock, config.replication)
    replicas.quotas.set_windows(config.quota)
    replicas.set_group_commit(FlushPolicy(config.kbroker.kbroker_flush), around.flush_threads.run)
    replicas.leadership.add_deletion_listener(dynamic_configs.forget_topics)
    waiter = MetadataWaiter()
    around.failure.add_listener(waiter.notify)
    return DataParts(
        dynamic_configs=dynamic_configs,
        settings=settings,
        group_configs=group_configs,
        logs=logs,
        metadata=metadata,
        waiter=waiter,
        replicas=replicas,
        events=EventRecorder(clock),
        offsets_topic=TopicSize(GROUP_METADATA_TOPIC, storage.zk, metadata),
        transactions_topic=TopicSize(TRANSACTION_STATE_TOPIC, storage.zk, metadata),
    )


def _cluster_parts(storage: BrokerStorage, data: DataParts, around: Surroundings) -> ClusterParts:
    config, zk, broker_id = storage.config, storage.zk, storage.identity.broker_id
    healthcheck = KafkaHealthcheck(zk, config.zk.zookeeper_session_timeout_ms, around.is_alive)
    log_dir_events = LogDirEvents(zk, broker_id, data.replicas.logs.retry_unmade)
    data.replicas.logs.on_unmade = log_dir_events.log_unmade
    log_dir_failure = LogDirFailure(
        logs=data.logs,
        leadership=data.replicas.leadership,
        healthcheck=healthcheck,
        log_dir_events=log_dir_events,
        tree=storage.tree,
        failure=around.failure,
    )
    data.logs.on_directory_offline(log_dir_failure.on_offline)
    updates = SettingsUpdates(data.dynamic_configs, data.settings, data.logs, data.replicas.quotas)

    def broker_epoch() -> int:
        return healthcheck.broker_epoch

    async def load_topics(partitions: Sequence[TopicPartition]) -> None:
        await updates.load_topics(partitions)
        await data.offsets_topic.look(partitions)
        await data.transactions_topic.look(partitions)

    replicas = data.replicas
    control = ControlRequests(
        replicas.leadership, replicas.logs, data.waiter, load_topics, broker_epoch, zk.topic_id
    )
    channels = around.channels(data.config, control)
    controller = KafkaController(
        _controller_settings(config, data),
        zk,
        channels.connect,
        around.lifecycle.on_controller_activity,
        partial(healthcheck.register_again, around.failure.report),
        LogEndQuestions(broker_id, replicas.offsets, channels.client).ask,
    )
    updates.on_unclean_elections(controller.enable_unclean_elections)
    fetchers = _fetchers(config, data, around.clock, channels, broker_epoch)
    updates.on_fetcher_count(fetchers.resize)
    way = NodeToControllerChannel(broker_id, controller, data.metadata.broker, channels.client)
    questions = ControllerQuestions(broker_id, broker_epoch, controller, way, zk)
    ask, version = questions.alter_isrs, config.server.inter_broker_protocol_version
    return ClusterParts(
        healthcheck=healthcheck,
        log_dir_events=log_dir_events,
        control=control,
        controller=controller,
        to_controller=way,
        questions=questions,
        features=FinalizedFeatureChangeListener(
            zk, data.metadata, data.waiter, partial(_lacks_features, around.failure)
        ),
        fetchers=fetchers,
        isr_changes=_isr_changes(data, ask if asks_controller(version) else ZkIsrManager(zk).ask),
        open_client=channels.client,
    )


def _isr_changes(data: DataParts, ask: AskController) -> AlterPartitionManager:
    def is_alive(broker_id: int) -> bool:
        return data.metadata.broker(broker_id) is not None

    replicas, last_replica = data.replicas, data.replicas.last_replica
    before_shrink = last_replica.is_flushed if last_replica is not None else None
    manager = AlterPartitionManager(
        ask, replicas.isr_settled, is_alive, before_shrink, data.events.note
    )
    replicas.leadership.isr_changes = manager
    return manager


def _fetchers(
    config: KafkaConfig,
    data: DataParts,
    clock: ClockWithTimer,
    channels: Channels,
    broker_epoch: Callable[[], int],
) -> ReplicaFetcherManager:
    replicas, replication = data.replicas, config.replication

    def backoff_ms() -> int:
        return data.config().replication.replica_fetch_backoff_ms

    fetchers = ReplicaFetcherManager(
        FetcherParts(
            hosted=replicas.hosted,
            wake=replicas.waiting.wake,
            clock=clock,
            throttle=FollowerThrottle(replicas.quotas, replicas.hosted, clock, backoff_ms),
            backoff_ms=backoff_ms,
        ),
        Follower(
            broker_id=data.metadata.broker_id,
            broker_epoch=broker_epoch,
            config=replication,
            uses_topic_ids=fetches_by_topic_id(config.server.inter_broker_protocol_version),
        ),
        replicas.leadership.live_broker,
        channels.client,
        lambda: data.config().replication.num_replica_fetchers,
    )
    replicas.leadership.add_leadership_listener(fetchers.on_leadership_change)
    return fetchers


def _lacks_features(failure: BrokerFailure, error: UnsupportedFeaturesError) -> None:
    failure.report(StartError(str(error)))


def _controller_settings(config: KafkaConfig, data: DataParts) -> ControllerSettings:
    return ControllerSettings(
        broker_id=config.server.broker_id,
        delete_topic_enable=config.server.delete_topic_enable,
        unclean_leader_election_enable=(
            lambda: data.config().replication.unclean_leader_election_enable
        ),
        inter_broker_listener=config.inter_broker_listener_name(),
        leader_balance=LeaderBalanceSettings.of(config.replication),
        gives_topic_ids=gives_topic_ids(config.server.inter_broker_protocol_version),
        first_levels=first_levels(
            SUPPORTED_FEATURES,
            is_alone=not config.zk.zookeeper_connect,
            group_protocols=config.group.group_coordinator_rebalance_protocols,
        ),
        note=data.events.note,
    )


def _services(
    storage: BrokerStorage,
    data: DataParts,
    cluster: ClusterParts,
    around: Surroundings,
    tls: BrokerTls | None,
) -> tuple[BrokerTransactions, Services]:
    zk, replicas = storage.zk, data.replicas
    topics = TopicAdmin(zk, data.config, data.metadata, data.waiter, around.random)
    groups = _groups(storage, data, topics, around.clock)
    producer_ids = ProducerIdManager(zk, storage.identity.broker_id)

    def made() -> TransactionsInForce:
        from kbroker.server.broker.transactions_in_force import transactions_in_force

        return transactions_in_force(services, data, cluster, around.clock)

    transactions = BrokerTransactions(partial(registry.registered().imported, made))
    replicas.leadership.add_leadership_listener(transactions.on_leadership_change)
    services = Services(
        replicas=replicas,
        groups=groups,
        transactional=transactions,
        metadata=data.metadata,
        topics=topics,
        configs=ConfigAdmin(zk, data.config, data.metadata, checks_of(storage.config, tls)),
        producer_ids=producer_ids,
        controller=cluster.controller,
        control=cluster.control,
        peers=_peers(storage, around.clock),
        config=storage.config,
        clock=around.clock,
        forwarding=ForwardingManager(cluster.to_controller, data.waiter),
    )
    return transactions, services


def _groups(
    storage: BrokerStorage, data: DataParts, topics: TopicAdmin, clock: ClockWithTimer
) -> GroupCoordinator:
    groups = GroupCoordinator(
        storage.config.group,
        CoordinatorServices(
            replicas=data.replicas.appends,
            metadata=data.metadata,
            topics=topics,
            legacy_offsets=ZkLegacyOffsets(storage.zk.tree),
            clock=clock,
            timer=clock,
            new_uuid=uuid.uuid4,
            offsets_partitions=data.offsets_topic.partitions,
            note=data.events.note,
            consumer_groups=_consumer_groups(storage.config, data),
        ),
    )
    if not storage.config.consumer_group.has_usual_assignors:
        groups.check_assignors()
    data.replicas.leadership.add_leadership_listener(groups.on_leadership_change)
    data.replicas.leadership.add_deletion_listener(groups.on_partitions_deleted)
    return groups


def _consumer_groups(config: KafkaConfig, data: DataParts) -> ConsumerGroupServices:
    groups = config.consumer_group
    return ConsumerGroupServices(
        settings_of=data.group_configs.of_group,
        max_size=groups.group_consumer_max_size,
        assignors=groups.group_consumer_assignors,
        migration_policy=groups.group_consumer_migration_policy,
        pattern_refresh_ms=groups.group_consumer_regex_refresh_interval_ms,
    )


def _peers(storage: BrokerStorage, clock: ClockWithTimer) -> Peers:
    config, listeners = storage.config, PeerListeners()
    if storage.tree.own_directory is None:
        listeners = PeerListeners.of(
            config.advertised_end_points(),
            config.inter_broker_listener_name(),
            config.other_listeners_of_brokers(),
        )
    return Peers(listeners, ClusterMembers(storage.zk.tree), clock)
