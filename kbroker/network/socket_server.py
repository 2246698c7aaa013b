"""The network layer as a whole: listeners, connections, the request queue and the pool that serves
it.

Order of a start: `start()` binds every listener and accepts; requests that come wait in the
RequestChannel. `enable_controller_requests()`: the controller's are answered, and ApiVersions;
`enable_request_processing()`: all are. Order of a stop: `stop_accepting()`, then `shutdown()`.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kbroker.clock import Clock
from kbroker.config.config_checks import parse_per_ip_overrides
from kbroker.config.config_values import MAX_INT
from kbroker.config.socket_server_config import SocketServerConfig
from kbroker.counters import CounterRegistry, Kind, MetricName
from kbroker.errors import ConfigError
from kbroker.memory_room import FRAMES_BYTES
from kbroker.model import EndPoint
from kbroker.network.acceptor import Acceptor
from kbroker.network.authentications import NAMES as AUTHENTICATIONS
from kbroker.network.connection_quotas import ConnectionQuotas
from kbroker.network.creation_rate import CreationRate
from kbroker.network.listener_parts import MakeParts, plaintext_parts
from kbroker.network.processor import Processor
from kbroker.network.receive_buffers import ReceiveBuffers
from kbroker.network.request_channel import RequestChannel
from kbroker.network.request_handler_pool import Handle, KafkaRequestHandlerPool
from kbroker.network.unserved_clients import UnservedClients
from kbroker.protocol.header import API_VERSIONS_KEY

# LeaderAndIsr, StopReplica, UpdateMetadata, and what a connection begins with.
ANSWERED_WHILE_STARTING = frozenset({4, 5, 6, API_VERSIONS_KEY})
SHUTDOWN_DEADLINE_MS = 100.0  # then requests that wait for something are cut off


class SocketServer:
    """Serves `handle` on every one of `listeners`."""

    def __init__(
        self,
        config: SocketServerConfig,
        listeners: Sequence[EndPoint],
        handle: Handle,
        clock: Clock,
        *,
        unserved: UnservedClients,
        make_parts: MakeParts = plaintext_parts,
    ) -> None:
        """Nothing is bound yet.

        `unserved` names clients that ask for another protocol. Raises ConfigError for listeners
        that `make_parts` cannot serve.
        """
        if not listeners:
            raise ConfigError("listeners is empty: at least one address is needed")
        self.quotas = ConnectionQuotas(
            config.max_connections,
            config.max_connections_per_ip,
            parse_per_ip_overrides(config.max_connections_per_ip_overrides),
        )
        budget_bytes = config.queued_max_request_bytes
        self.request_channel = RequestChannel(config.queued_max_requests)
        self.pool = KafkaRequestHandlerPool(handle, self.request_channel)
        self.processor = Processor(
            self.request_channel,
            ReceiveBuffers(budget_bytes if budget_bytes > 0 else FRAMES_BYTES),
            self.quotas,
            clock,
            (config.socket_request_max_bytes, config.connections_max_idle_ms),
            unserved,
        )
        delay_ms = config.connection_failed_authentication_delay_ms
        self.processor.strangers.failed_delay_ms = delay_ms
        socket_buffers = (config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes)
        self.acceptors = tuple(
            Acceptor(
                end_point,
                self.processor,
                self.quotas,
                socket_buffers,
                config.socket_listen_backlog_size,
                make_parts(end_point),
            )
            for end_point in listeners
        )

    def register(self, counters: CounterRegistry) -> None:
        """Name the counters and measures of this server."""
        processor, requests, pool = self.processor, self.request_channel, self.pool
        kafkas = partial(MetricName, "kafka.server", "socket-server-metrics")
        counters.add(kafkas("incoming-byte-total"), lambda: processor.bytes_in, Kind.COUNTER)
        counters.add(kafkas("outgoing-byte-total"), lambda: processor.bytes_out, Kind.COUNTER)
        counters.add(kafkas("request-total"), requests.requests)
        queue_size = MetricName("kafka.network", "RequestChannel", "RequestQueueSize")
        counters.add(queue_size, requests.__len__)
        memory = MetricName("kafka.network", "SocketServer", "MemoryPoolUsed")
        counters.add(memory, lambda: processor.buffers.held_bytes)
        left = memory._replace(name="MemoryPoolAvailable")
        counters.add(left, lambda: processor.buffers.left_bytes)
        ours = partial(MetricName, "kbroker.network", "SocketServer")
        counters.add(ours("ConnectionsOpened"), processor.connections_opened)
        counters.add(ours("ConnectionsClosed"), processor.connections_closed)
        counters.add(ours("ProtocolErrors"), processor.protocol_errors)
        counters.add(ours("IdleConnectionsClosed"), processor.idle_closed)
        counters.add(ours("SlowConnectionsClosed"), processor.slow_closed)
        counters.add(ours("ConnectionsRejected"), self.quotas.rejected)
        counters.add(ours("Logins"), processor.logins)
        counters.add(ours("LoginsFailed"), processor.failed_logins)
        counters.add(ours("ConnectionsNotLoggedIn"), processor.strangers.__len__)
        counters.add(ours("RequestsThatWaited"), pool.waited)
        counters.add(ours("RequestsWaiting"), lambda: pool.waiting)
        for acceptor in self.acceptors:
            tags = (("listener", acceptor.listener_name),)
            counters.add(ours("ConnectionsAccepted", tags), acceptor.accepted)
            blocked = MetricName("kafka.network", "Acceptor", "AcceptorBlockedPercent", tags)
            counters.add(blocked, acceptor.blocked_ns)
            of_processor = (*tags, ("networkProcessor", "0"))
            logins = processor.authentications_at(acceptor.listener_name).counters()
            for name, counter in zip(AUTHENTICATIONS, logins, strict=True):
                counters.add(kafkas(f"{name}-total", of_processor), counter)

    def put_creation_rates(
        self, broker: int, by_listener: Mapping[str, int], spared: str | None = None
    ) -> None:
        """Bound new connections per second: at all listeners together, but for the one that is
        `spared`, and at each of them.
        """
        shared = CreationRate(broker)
        for acceptor in self.acceptors:
            name = acceptor.listener_name
            own = CreationRate(by_listener[name])
            rates = (own,) if name == spared else (own, shared)
            acceptor.rates = tuple(rate for rate in rates if rate.per_s < MAX_INT)

    async def start(self) -> tuple[EndPoint, ...]:
        """Bind and accept; returns the end points with the ports that were bound, in the order of
        `listeners`.

        Raises ConfigError when an address cannot be bound; nothing stays bound then.
        """
        try:
            bound = tuple(acceptor.bind() for acceptor in self.acceptors)
        except Exception:
            self.stop_accepting()
            raise
        self.processor.start()
        for acceptor in self.acceptors:
            acceptor.start()
        return bound

    def enable_controller_requests(self) -> None:
        """Answer the requests that a broker must hear before all others; the rest waits."""
        self.pool.start_for(ANSWERED_WHILE_STARTING)

    def enable_request_processing(self) -> None:
        """Begin to answer, with the requests that have been waiting."""
        self.pool.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay."""
        for acceptor in self.acceptors:
            acceptor.close()

    async def shutdown(self, deadline_ms: float = SHUTDOWN_DEADLINE_MS) -> None:
        """Close every connection: idle ones at once, the others after `deadline_ms`."""
        self.stop_accepting()
        await self.processor.shutdown(deadline_ms)
        await self.pool.shutdown()
