"""Surroundings: the world outside a broker, which its parts get as values, so that a simulation of
clusters builds its brokers by the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from kbroker.clock import ClockWithTimer
from kbroker.config.kafka_config import KafkaConfig
from kbroker.controller.channels.controller_channel_manager import BrokerChannel
from kbroker.model import Broker
from kbroker.peers.broker_channels import BrokerChannels, answers
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.replication.controller_requests.controller_requests import ControlRequests
from kbroker.replication.writes.shared_flush import MAX_THREADS
from kbroker.server.background.worker_threads import WorkerThreads
from kbroker.server.broker.broker_failure import BrokerFailure
from kbroker.server.broker.broker_peers import way_into
from kbroker.server.broker.broker_state import BrokerLifecycle
from kbroker.server.broker.log_loading import WatchLoading, nobody_watches
from kbroker.server.membership.kafka_healthcheck import Probe
from kbroker.server.system_clock import SystemClock


class Channels(Protocol):
    """The ways from one broker to the brokers of its cluster."""

    def connect(self, broker: Broker) -> BrokerChannel:
        """The channel for the controller's orders to a broker, this one included."""
        ...

    def client(self, broker: Broker) -> PeerClient:
        """A new connection to another broker."""
        ...


def network_channels(
    settings: Callable[[], KafkaConfig], local: ControlRequests
) -> BrokerChannels[ControlRequests]:
    """Connections over sockets, by the settings in force; requests to this broker itself go to
    `local`.
    """
    config = settings()
    return BrokerChannels(
        config.server.broker_id,
        local,
        (config.inter_broker_listener_name(), config.control_plane_listener_name()),
        config.quorum.controller_socket_timeout_ms,
        partial(way_into, settings),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Surroundings:
    """The surroundings of a broker's parts, which report to `lifecycle` and `failure`;
    `watch_loading` follows the opening of the logs.
    """

    clock: ClockWithTimer = field(default_factory=SystemClock)
    lifecycle: BrokerLifecycle = field(default_factory=BrokerLifecycle)
    failure: BrokerFailure = field(default_factory=BrokerFailure)
    flush_threads: WorkerThreads = field(
        default_factory=partial(WorkerThreads, MAX_THREADS, "flush")
    )
    watch_loading: WatchLoading = nobody_watches
    channels: Callable[[Callable[[], KafkaConfig], ControlRequests], Channels] = network_channels
    is_alive: Probe = answers
    random: Random = field(default_factory=Random)
