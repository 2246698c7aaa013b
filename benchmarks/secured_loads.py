"""Loads over TLS and with logins: Java's performance tools, requests, connections that come and go, and
idle ones. Both brokers have the same certificates and users.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks import raw_client
from benchmarks.client_loads import ClientLoad, consumer_performance
from benchmarks.generator import Visits, send, visit
from benchmarks.loads import Figures, producer_performance
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import frame_of
from benchmarks.request_kinds import Fetch, Produce
from benchmarks.request_loads import Effort, Measure, RequestLoad
from benchmarks.secured_brokers import MECHANISM, client_properties, scram_keys
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest

_VERSIONS = frame_of(ApiVersionsRequest(), 18, 0)
_ERROR_AT = 8  # in answers to what is sent here
_AT_ONCE = 8
_IDLE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsLoad:
    """The requests of a load over TLS. Each round sends them without it first: CPU is compared so."""

    load: RequestLoad

    @property
    def name(self) -> str:
        """The other load's, with the protocol in front."""
        return f"SSL: {self.load.name}"

    @property
    def disk_bytes(self) -> int:
        """As much as the other load fills."""
        return self.load.disk_bytes

    @contextmanager
    def prepared(self, broker: RunningBroker, effort: Effort) -> Iterator[Measure]:
        """Make what the load needs, and warm both listeners."""
        made = self.load.sends.made(broker, effort.most)  # type: ignore[union-attr]  # no delivery here
        plain = self.load.traffic_of(made, effort)
        ways = [(broker.address, plain), (broker.listener("SSL"), replace(plain, tls=True))]
        for address, traffic in ways:
            send(address, traffic, effort.warm_up_requests // 2, seconds=effort.warm_up_s // 2 or 1)
        requests, pids = effort.part_of(self.load.requests), [broker.process.pid]

        def measure() -> Figures:
            without, took = (send(address, traffic, requests, pids) for address, traffic in ways)
            figures = {"cpu_us_per_request": took.cpu_us, "requests_per_s": took.per_s}
            if without.cpu_us:  # as in `ruled_loads`
                figures["cpu_times_plaintext"] = took.cpu_us / without.cpu_us
            return figures

        yield measure
        raw_client.delete_topics(broker.address, made.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Connections one after the other, some at a time; each is answered and ends."""

    name: str
    listener: str
    visits: Visits
    connections: int = 4_000  # of a round
    disk_bytes: int = 0

    @contextmanager
    def prepared(self, broker: RunningBroker, effort: Effort) -> Iterator[Measure]:
        """Warm the broker by as many as come in the time for it."""
        address = broker.listener(self.listener)
        visit(address, self.visits, effort.warm_up_requests, seconds=effort.warm_up_s)

        def measure() -> Figures:
            count = max(_AT_ONCE, effort.part_of(self.connections))
            took = visit(address, self.visits, count, [broker.process.pid])
            return {"cpu_us_per_connection": took.cpu_us, "connections_per_s": took.per_s}

        yield measure


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTls:
    """Memory of connections that have asked for ApiVersions once. A JVM takes its memory ahead, so that
    its figure says little.
    """

    name: str
    count: int
    disk_bytes: int = 0

    @contextmanager
    def prepared(self, broker: RunningBroker, effort: Effort) -> Iterator[Measure]:
        """Have as many come once, so that what the broker keeps for others is there."""
        count = min(self.count, effort.most)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

        def measure() -> Figures:
            before = broker.rss_mib()
            open_ones = [_asked(broker, context) for _ in range(count)]
            time.sleep(_IDLE_S)
            more = broker.rss_mib() - before
            for each in open_ones:
                each.close()
            time.sleep(_IDLE_S)
            return {"kib_per_connection": more * 1024 / count}

        yield measure


def _asked(broker: RunningBroker, context: ssl.SSLContext) -> ssl.SSLSocket:
    connection = context.wrap_socket(socket.create_connection(broker.listener("SSL")))
    connection.sendall(_VERSIONS)
    connection.recv(65_536)
    return connection


def _java_producer(broker: RunningBroker, topic: str, records: int) -> float:
    host, port = broker.listener("SASL_SSL")
    file = str(client_properties("SASL_SSL"))
    more = ("--command-config", file)
    return producer_performance(f"{host}:{port}", topic, records, 1_000, *more)


def _java_consumer(broker: RunningBroker, topic: str, records: int) -> float:
    host, port = broker.listener("SSL")
    file = str(client_properties("SSL"))
    return consumer_performance(f"{host}:{port}", topic, records, "--command-config", file)


def _logins() -> Visits:
    keys = scram_keys()
    first = SaslAuthenticateRequest(auth_bytes=f"n,,{keys.first_bare}".encode())
    frames = [
        frame_of(SaslHandshakeRequest(mechanism=MECHANISM), 17, 1),
        frame_of(first, 36, 1),
    ]
    return Visits(frames=frames, error_at=_ERROR_AT, at_once=_AT_ONCE, keys=keys)


def _requests(name: str, sends: Produce | Fetch, in_flight: int, requests: int) -> TlsLoad:
    named = f"{name}, {in_flight} in flight"
    return TlsLoad(
        load=RequestLoad(name=named, sends=sends, in_flight=in_flight, requests=requests)
    )


_HANDSHAKES = Visits(frames=[_VERSIONS], error_at=_ERROR_AT, at_once=_AT_ONCE, tls=True)
_SIXTEEN_KB = Produce(batch_bytes=16_384, record_bytes=1_000)
_BATCHES = Fetch(batch_bytes=16_384, record_bytes=1_000, batches=2_000)

LOADS: list[ClientLoad | TlsLoad | Connections | IdleTls] = [
    ClientLoad(name="SASL_SSL: java producer, 1 KB, acks=all", run=_java_producer),
    ClientLoad(name="SSL: java consumer, 1 KB", run=_java_consumer, record_bytes=1_000),
    _requests("produce 16 KB", _SIXTEEN_KB, 5, 10_000),
    _requests("produce 16 KB", _SIXTEEN_KB, 1, 10_000),
    _requests("produce 1 KB", Produce(batch_bytes=1_024, record_bytes=1_000), 5, 20_000),
    _requests("fetch 16 KB", _BATCHES, 5, 10_000),
    _requests("fetch 1 MB", replace(_BATCHES, answered=64), 1, 1_000),
    Connections(name="SSL: full handshakes, P-256", listener="SSL", visits=_HANDSHAKES),
    Connections(name="SSL: full handshakes, RSA-2048", listener="RSA", visits=_HANDSHAKES),
    Connections(
        name="SASL_PLAINTEXT: logins, SCRAM-SHA-512", listener="SASL_PLAINTEXT", visits=_logins()
    ),
    IdleTls(name="SSL: 1,000 idle connections", count=1_000),
]
