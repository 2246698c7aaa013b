"""Measures of connections, listeners and the answers on their way. They walk through connections
when somebody looks.

Kafka's names, of which one thread does the work here: what Kafka counts per network thread is shown
for one, and what Kafka measures of queues that are not there is 0.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, RecentRate, Row, Table
from kbroker.network.authentications import NAMES
from kbroker.network.socket_server import SocketServer

_BREATH = 256  # connections that are looked at in a step
_SOFTWARE = ("clientSoftwareName", "clientSoftwareVersion")
_SOFTWARES_MAX = 100
_NAME_CHARACTERS = 100
_OTHERS = "others"
_PROCESSOR = "0"  # the one there is, as Kafka numbers them
_WINDOW_S = 30.0  # of rates, as in Kafka
_BY_LISTENER = ("listener", "networkProcessor")
_SERVER = "socket-server-metrics"


class ConnectionMetrics:
    """The measures of one broker's connections, which began at `began_s`; `now_s` says what time
    it is.
    """

    def __init__(self, server: SocketServer, began_s: float, now_s: Callable[[], float]) -> None:
        self._server = server
        self._now_s = now_s
        self._rates = {
            acceptor.listener_name: (
                RecentRate(began_s, _WINDOW_S),
                RecentRate(began_s, _WINDOW_S),
            )
            for acceptor in server.acceptors
        }
        self._authentication_rates = {
            acceptor.listener_name: tuple(RecentRate(began_s, _WINDOW_S) for _ in NAMES)
            for acceptor in server.acceptors
        }

    def register(self, counters: CounterRegistry) -> None:
        """Register all of these under their names."""
        of_listener = (
            Metric(MetricName("kafka.server", _SERVER, "connection-count"), Kind.GAUGE),
            Metric(MetricName("kafka.server", _SERVER, "connection-creation-total"), Kind.COUNTER),
            Metric(MetricName("kafka.server", _SERVER, "connection-creation-rate"), Kind.GAUGE),
            Metric(MetricName("kafka.server", _SERVER, "connection-close-total"), Kind.COUNTER),
            Metric(MetricName("kafka.server", _SERVER, "connection-close-rate"), Kind.GAUGE),
        )
        counters.add_table(Table(of_listener, _BY_LISTENER, self._connections))
        authentications = tuple(
            Metric(MetricName("kafka.server", _SERVER, f"{name}-rate"), Kind.GAUGE)
            for name in NAMES
        )
        counters.add_table(Table(authentications, _BY_LISTENER, self._authentications))
        pauses = Metric(
            MetricName("kafka.server", _SERVER, "ip-connection-accept-throttle-time"), Kind.GAUGE
        )
        counters.add_table(Table((pauses,), ("listener",), self._pauses_of_addresses))
        software = Metric(MetricName("kafka.server", _SERVER, "connections"), Kind.GAUGE)
        counters.add_table(Table((software,), (*_SOFTWARE, *_BY_LISTENER), self._by_software))
        answers = Metric(
            MetricName("kafka.network", "RequestChannel", "ResponseQueueSize"), Kind.GAUGE
        )
        counters.add_table(Table((answers,), (), self._answers))
        counters.add_table(Table((answers,), ("processor",), self._answers_of_processor))

    def _connections(self) -> Iterator[Row | None]:
        now: dict[str, int] = {}
        for number, channel in enumerate(list(self._server.processor.channels), 1):
            name = channel.connection.listener_name
            now[name] = now.get(name, 0) + 1
            if number % _BREATH == 0:
                yield None
        now_s = self._now_s()
        for acceptor in self._server.acceptors:
            name, opened = acceptor.listener_name, acceptor.accepted.value
            count = now.get(name, 0)
            closed = max(0, opened - count)
            opening, closing = self._rates[name]
            yield (
                (name, _PROCESSOR),
                (count, opened, opening.at(now_s, opened), closed, closing.at(now_s, closed)),
            )

    def _authentications(self) -> Iterator[Row]:
        now_s = self._now_s()
        for acceptor in self._server.acceptors:
            name = acceptor.listener_name
            counts = self._server.processor.authentications_at(name).counts()
            rates = self._authentication_rates[name]
            per_s = (rate.at(now_s, count) for rate, count in zip(rates, counts, strict=True))
            yield (name, _PROCESSOR), tuple(per_s)

    def _pauses_of_addresses(self) -> Iterator[Row]:
        """Of listeners at which an address has opened more connections than it may."""
        for acceptor in self._server.acceptors:
            if acceptor.address_pauses is not None:
                mean_ms = acceptor.address_pauses.mean(self._now_s() * 1000)
                yield (acceptor.listener_name,), (mean_ms,)

    def _by_software(self) -> Iterator[Row | None]:
        """Clients name their software as they like: beyond so many names, the rest is one."""
        found: dict[tuple[str, str, str], int] = {}
        for number, channel in enumerate(list(self._server.processor.channels), 1):
            connection = channel.connection
            name, version = connection.client_software_name, connection.client_software_version
            key = name[:_NAME_CHARACTERS], version[:_NAME_CHARACTERS], connection.listener_name
            if key not in found and len(found) >= _SOFTWARES_MAX:
                key = _OTHERS, _OTHERS, connection.listener_name
            found[key] = found.get(key, 0) + 1
            if number % _BREATH == 0:
                yield None
        for key, count in found.items():
            yield (*key, _PROCESSOR), (count,)

    def _answers(self) -> Iterator[Row | None]:
        """Walk through the connections for those whose client has yet to take an answer."""
        blocked = 0
        for number, channel in enumerate(list(self._server.processor.channels), 1):
            blocked += channel.writer.is_blocked
            if number % _BREATH == 0:
                yield None
        yield (), (blocked,)

    def _answers_of_processor(self) -> Iterator[Row | None]:
        for row in self._answers():
            yield None if row is None else ((_PROCESSOR,), row[1])
