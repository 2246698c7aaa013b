"""The third stage of a broker: it runs. A stop undoes the steps in the opposite order.

Order: dynamic settings are read, logs recovered, sockets bound, the broker registered and the
controller elected; once this broker knows the cluster, requests are answered.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from kbroker.admin.finalized_feature_change_listener import UnsupportedFeaturesError
from kbroker.admin.stored_passwords import StoredPasswords
from kbroker.apis.registry import registered
from kbroker.counters import CounterRegistry
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.recovery.load_progress import LoadProgress
from kbroker.model import Broker, EndPoint, TopicPartition
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.background.background_services import BackgroundParts, start_background_services
from kbroker.server.background.loop_idle import LoopIdle
from kbroker.server.broker.broker_parts import BrokerParts
from kbroker.server.broker.broker_state import BrokerLifecycle, BrokerState
from kbroker.server.broker.log_loading import load_on_thread
from kbroker.server.broker.surroundings import Surroundings
from kbroker.server.membership.advertised_address import Reach, advertised_end_points
from kbroker.server.membership.cluster_membership import ClusterMembership
from kbroker.server.start_error import StartError
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.nodes.producer_id_blocks import MAX_SKIPPED_ID, ProducerIdBlocks
from kbroker.zk.zk_paths import ZnodeFormatError

_log = logging.getLogger(__name__)

LATE_ROOMS = (  # what others than handlers import when it is first needed
    "kbroker.server.broker.quotas_in_force",
    "kbroker.server.broker.transactions_in_force",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunningBroker:
    """A broker that serves clients at its end points, which have their real ports."""

    parts: BrokerParts
    end_points: tuple[EndPoint, ...]


async def run_parts(
    parts: BrokerParts, around: Surroundings, undo: AsyncExitStack
) -> RunningBroker:
    """Start the parts, up to the moment before a client's first request is answered; `undo` gets
    the calls that stop them. Raises ConfigError, LogDirectoryError, StartError and TreeError.
    """
    data, cluster, services = parts.data, parts.cluster, parts.services
    parts.counters.when_asked(partial(_register_measures, parts, LoopIdle()))
    undo.callback(cluster.to_controller.close)
    await _follow_settings(parts, undo)
    await _follow_features(parts, undo)
    await _load_logs(parts, around)
    undo.callback(_close_logs, parts, around.lifecycle)
    # The tree may know less than the logs: it was adopted, or its end was lost with the power.
    await _skip_producer_ids(parts)
    undo.callback(_close_replicas, parts, around.lifecycle)
    undo.push_async_callback(cluster.fetchers.shutdown)
    undo.push_async_callback(data.replicas.log_dir_moves.shutdown)
    cluster.isr_changes.start()
    undo.push_async_callback(cluster.isr_changes.stop)
    end_points = await parts.socket_server.start()
    undo.push_async_callback(parts.socket_server.shutdown)
    parts.socket_server.enable_controller_requests()
    undo.push_async_callback(services.topics.close)
    undo.push_async_callback(cluster.controller.shutdown)
    undo.push_async_callback(cluster.log_dir_events.stop)
    # As soon as this broker leads, groups are loaded and their sessions begin, and decided
    # transactions are ended.
    undo.callback(services.groups.shutdown)
    undo.callback(parts.transactions.shutdown)
    undo.callback(around.flush_threads.stop)
    await membership(parts, around, registration(parts, end_points)).join()
    services.groups.start()
    parts.transactions.start()
    background = BackgroundParts(
        config=data.config,
        logs=data.logs,
        replicas=data.replicas,
        file_system=parts.storage.file_system,
        clock=around.clock,
        room=parts.services.room,
        counters=parts.counters,
    )
    start_background_services(background, undo)
    undo.push_async_callback(parts.socket_server.shutdown)
    if _may_outlive_its_release(parts):
        registered().load(LATE_ROOMS)
    else:
        registered().keep_descriptor(LATE_ROOMS)
    return RunningBroker(parts=parts, end_points=end_points)


def _register_measures(parts: BrokerParts, idle: LoopIdle, counters: CounterRegistry) -> None:
    from kbroker.server.broker.broker_metrics import register_measures  # with the first question

    register_measures(parts, idle, counters)


def _may_outlive_its_release(parts: BrokerParts) -> bool:
    """Whether the package may be upgraded under a running broker, as in a rolling restart."""
    return parts.storage.tree.is_ensemble or not parts.storage.config.is_for_development


def registration(parts: BrokerParts, bound: tuple[EndPoint, ...]) -> Broker:
    """Return the registration of this broker. Raises ConfigError."""
    config, tree = parts.storage.config, parts.storage.tree
    reach = Reach.CLIENTS
    if tree.own_directory is None:
        reach = Reach.MACHINES if tree.is_ensemble else Reach.PROCESS
    return Broker(
        broker_id=parts.storage.identity.broker_id,
        end_points=advertised_end_points(config, bound, reach),
        rack=config.server.broker_rack,
        features=parts.data.metadata.supported_features,
        has_lost_memory=parts.storage.has_lost_memory,
    )


def membership(parts: BrokerParts, around: Surroundings, broker: Broker) -> ClusterMembership:
    """The membership of a broker with these parts, registered as `broker`."""
    return ClusterMembership(
        broker_id=broker.broker_id,
        zk=parts.storage.zk,
        controller=parts.cluster.controller,
        metadata=parts.data.metadata,
        waiter=parts.data.waiter,
        register=partial(parts.cluster.healthcheck.register, broker),
        failure=lambda: around.failure.error,
        holds=partial(_holds, parts.data.replicas),
    )


def _holds(replicas: ReplicaManager, topic_partition: TopicPartition) -> bool:
    try:
        replicas.hosted.get(topic_partition)
    except KafkaError as error:
        is_offline = error.code is ErrorCode.KAFKA_STORAGE_ERROR
        return is_offline or replicas.leadership.was_refused(topic_partition)
    return True


async def _follow_settings(parts: BrokerParts, undo: AsyncExitStack) -> None:
    """Read the dynamic settings, with all that is needed for them and made of them."""
    if parts.authorizer is not None:  # before anybody is answered
        await parts.authorizer.start()
        undo.push_async_callback(parts.authorizer.stop)
    tokens = parts.services.tokens
    if tokens is not None:  # before anybody logs in
        await tokens.start()
        undo.push_async_callback(tokens.stop)
    if parts.logins is not None:  # which may add a user
        undo.callback(parts.logins.stop)
        await parts.logins.start(parts.storage.zk)
    passwords = StoredPasswords(parts.storage.config.security)
    configs = ZkEntityConfigs(parts.storage.zk)
    await passwords.encrypt_again(configs, parts.storage.identity.broker_id)
    await parts.quotas.start()
    undo.push_async_callback(parts.quotas.stop)
    await parts.data.dynamic_configs.start()
    undo.push_async_callback(parts.data.dynamic_configs.stop)
    if parts.tls is not None:
        parts.tls.start()
        undo.callback(parts.tls.stop)


async def _follow_features(parts: BrokerParts, undo: AsyncExitStack) -> None:
    features = parts.cluster.features
    try:
        await features.start()
    except UnsupportedFeaturesError as error:
        raise StartError(str(error)) from error
    undo.push_async_callback(features.stop)


async def _load_logs(parts: BrokerParts, around: Surroundings) -> None:
    logs, identity = parts.data.logs, parts.storage.identity
    if not logs.was_clean:
        around.lifecycle.transition_to(BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN)
    topics = frozenset(await parts.storage.zk.topics())

    def load(progress: LoadProgress) -> list[TopicPartition]:
        return logs.load(identity.cluster_id, identity.broker_id, progress, topics.__contains__)

    recovered = await load_on_thread(load, around.watch_loading)
    if recovered:
        _log.info("%d partitions were recovered after an unclean shutdown", len(recovered))


async def _skip_producer_ids(parts: BrokerParts) -> None:
    storage, highest_id = parts.storage, parts.data.logs.highest_producer_id(MAX_SKIPPED_ID)
    try:
        await ProducerIdBlocks(storage.zk).skip(storage.identity.broker_id, highest_id)
    except ZnodeFormatError as error:  # no ids are given out until somebody repairs the node
        storage.zk.report(error)


# Steps of a stop that a killed broker leaves out


def _close_replicas(parts: BrokerParts, lifecycle: BrokerLifecycle) -> None:
    parts.data.replicas.appends.shutdown()
    if not lifecycle.is_killed:
        parts.data.replicas.shutdown()


def _close_logs(parts: BrokerParts, lifecycle: BrokerLifecycle) -> None:
    if not lifecycle.is_killed:
        parts.data.logs.shutdown()
        return
    for log in (*parts.data.logs.all_logs(), *parts.data.logs.all_futures()):
        log.files.close_files()
