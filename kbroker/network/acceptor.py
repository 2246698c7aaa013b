"""Listens on one address and turns accepted sockets into Channels.

While `max.connections` are open, and for a second after the system had no descriptor left, an
acceptor does not accept: new connections wait in the backlog. One that comes from an address beyond
its rate is accepted, and closed after a pause. In a crowd of strangers it rests after each turn, so
that those who are known find the loop and the machine free.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import socket
import sys
from typing import TYPE_CHECKING

from kbroker.config.socket_server_config import KAFKAS_SEND_BUFFER_BYTES
from kbroker.counters import Counter
from kbroker.errors import ConfigError, ProtocolError, Trouble
from kbroker.ip_addresses import unmapped
from kbroker.model import EndPoint
from kbroker.network.connection_quotas import ConnectionQuotas
from kbroker.network.creation_rate import CreationRate
from kbroker.network.listener_parts import ListenerParts
from kbroker.network.processor import Processor
from kbroker.protocol.request import ConnectionInfo
from kbroker.quotas.recent_mean import RecentMean

if TYPE_CHECKING:
    from kbroker.network.address_rates import AddressRates  # few brokers have such limits

_log = logging.getLogger(__name__)
_NUMBERS = itertools.count(1)  # of the connections of all listeners

_ACCEPTS_PER_TURN = 2  # a thousand who come at once share the loop with those who are known
CROWD = 64  # strangers; clients that log in do not stay long among them
CROWD_PAUSE_S = 0.002
# What the system charges for it is twice that; it may allow less (net.core.wmem_max).
_WIDE_SEND_BUFFER_BYTES = 512 * 1024
# One loop accepts between requests: a burst of clients needs more room than Kafka's 50.
_BACKLOG_MIN = 1_024
THROTTLED_MAX = 1_000  # wait to be closed; further ones are closed at once
_RETRY_S = 1.0  # after running out of descriptors
_FULL_RETRY_S = 0.1  # after reaching max.connections
_OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

_OTHER_ADDRESS = ": choose an address of this machine (:PORT for all it has)"
_LAST_PRIVILEGED_PORT = 1023
_HINTS = {
    errno.EADDRINUSE: ": stop what listens there, or choose another port (0 for a free one)",
    errno.EADDRNOTAVAIL: _OTHER_ADDRESS,
    socket.EAI_NONAME: _OTHER_ADDRESS,
}


def check_address(wanted: EndPoint, setting: str = "listeners") -> None:
    """Raises ConfigError if nothing can listen there now, as `Acceptor.bind` would."""
    try:
        sock, address = opened(wanted)
        with sock:
            sock.bind(address)
    except OSError as error:
        raise refusal(wanted, error, setting) from error


class Acceptor:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        end_point: EndPoint,
        processor: Processor,
        quotas: ConnectionQuotas,
        socket_buffers: tuple[int, int],
        backlog: int,
        parts: ListenerParts,
    ) -> None:
        """`socket_buffers` are SO_SNDBUF and SO_RCVBUF in bytes; -1 leaves them to the system, and
        Kafka's default send buffer may grow (see `Wire.widen`). Each connection gets `parts`.
        """
        self._end_point = end_point
        self._processor = processor
        self._quotas = quotas
        self._send_buffer_bytes, self._receive_buffer_bytes = socket_buffers
        grows = self._send_buffer_bytes == KAFKAS_SEND_BUFFER_BYTES
        self._wide_buffer_bytes = _WIDE_SEND_BUFFER_BYTES if grows else 0
        self._backlog = backlog
        self._parts = parts
        self._is_plain = end_point.security_protocol == "PLAINTEXT"
        self._socket: socket.socket | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._throttled: dict[socket.socket, asyncio.TimerHandle] = {}
        self.address_pauses: RecentMean | None = None  # of connections that were beyond a rate
        self._next_index = 0
        self.rates: tuple[CreationRate, ...] = ()
        self.accepted = Counter()
        self.blocked_ns = Counter()  # in which it did not accept

    @property
    def listener_name(self) -> str:
        return self._end_point.listener_name

    def bind(self) -> EndPoint:
        """Bind and listen; returns the end point with the port that was bound.

        Raises ConfigError when the address is taken, not ours or unknown.
        """
        wanted = self._end_point
        try:
            self._socket = self._listen(wanted)
        except OSError as error:
            raise refusal(wanted, error) from error
        self._socket.setblocking(False)
        return EndPoint(
            listener_name=wanted.listener_name,
            host=wanted.host,
            port=self._socket.getsockname()[1],
            security_protocol=wanted.security_protocol,
        )

    def start(self) -> None:
        """Accept connections from now on."""
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Stop listening. Open connections stay."""
        if self._retry is not None:
            self._retry.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for task in list(self._connecting):
            task.cancel()
        for sock, closing in self._throttled.items():
            closing.cancel()
            sock.close()
        self._throttled.clear()

    def _listen(self, wanted: EndPoint) -> socket.socket:
        sock, address = opened(wanted)
        try:
            if self._receive_buffer_bytes > 0:
                # Before listen: the window scale of accepted connections is fixed in the handshake.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            sock.bind(address)
            sock.listen(max(self._backlog, _BACKLOG_MIN))
        except OSError:
            sock.close()
            raise
        return sock

    def _accept(self) -> None:
        """Take connections from the backlog, up to a bound per turn of the loop."""
        assert self._socket is not None
        for _ in range(_ACCEPTS_PER_TURN):
            wait_s = _FULL_RETRY_S if self._quotas.is_full(self.listener_name) else self._wait_s()
            if wait_s > 0:
                self._pause(wait_s)
                return
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                _log.error("cannot accept connections: %s", error.strerror)
                self._pause(_RETRY_S)
                return
            self._open(sock, peer)
        if not self._is_plain and len(self._processor.strangers) >= CROWD:
            self._rest(CROWD_PAUSE_S)

    def _wait_s(self) -> float:
        """For how long no connection may come because others came just now."""
        if not self.rates:
            return 0.0
        now_s = asyncio.get_running_loop().time()
        return max(rate.wait_s(now_s) for rate in self.rates)

    def _pause(self, delay_s: float) -> None:
        self.blocked_ns.value += int(delay_s * 1e9)
        self._rest(delay_s)

    def _rest(self, delay_s: float) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        self._retry = loop.call_later(delay_s, self.start)

    def _open(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        peer_host = unmapped(peer[0])
        rates = self._quotas.addresses
        if rates and self._is_throttled(rates, sock, peer_host):
            return
        if not self._quotas.increment(peer_host, self.listener_name):
            _log.info(
                "closed connection from %s: it already has max.connections.per.ip connections",
                peer_host,
            )
            sock.close()
            return
        self.accepted.value += 1
        for rate in self.rates:
            rate.count(asyncio.get_running_loop().time())
        try:
            connection = self._configure(sock, peer_host, peer[1])
        except OSError as error:  # the peer is gone already
            _log.debug("connection from %s: %s", peer_host, error)
            self._quotas.decrement(peer_host, self.listener_name)
            sock.close()
            return
        task = asyncio.get_running_loop().create_task(
            self._connect(sock, connection), name=f"accept-{connection.connection_id}"
        )
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _is_throttled(self, rates: AddressRates, sock: socket.socket, peer_host: str) -> bool:
        """Whether a connection is beyond the rate of its address; it is then closed soon."""
        loop = asyncio.get_running_loop()
        pause_ms = rates.throttle_ms(peer_host, loop.time() * 1000)
        if not pause_ms:
            return False
        _log.debug("closing a connection from %s in %d ms: too many came", peer_host, pause_ms)
        if self.address_pauses is None:
            self.address_pauses = RecentMean()
        self.address_pauses.record(pause_ms, loop.time() * 1000)
        if len(self._throttled) < THROTTLED_MAX:
            self._throttled[sock] = loop.call_later(pause_ms / 1000, self._close_throttled, sock)
        else:
            sock.close()
        return True

    def _close_throttled(self, sock: socket.socket) -> None:
        del self._throttled[sock]
        sock.close()

    def _configure(self, sock: socket.socket, peer_host: str, peer_port: int) -> ConnectionInfo:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        local_host, local_port = sock.getsockname()[:2]
        local_host = unmapped(local_host)
        index = self._next_index
        self._next_index = (index + 1) & 0x7FFFFFFF
        return ConnectionInfo(
            connection_id=f"{local_host}:{local_port}-{peer_host}:{peer_port}-{index}",
            listener_name=self._end_point.listener_name,
            security_protocol=self._end_point.security_protocol,
            local_host=local_host,
            local_port=local_port,
            peer_host=peer_host,
            peer_port=peer_port,
            number=next(_NUMBERS),
        )

    async def _connect(self, sock: socket.socket, connection: ConnectionInfo) -> None:
        try:
            wire = self._parts.make_wire(sock, connection, self._wide_buffer_bytes)
            channel = self._parts.make_channel(self._processor, wire)
        except BaseException:
            self._quotas.decrement(connection.peer_host, self.listener_name)
            sock.close()
            raise
        if not self._is_plain:
            self._processor.strangers.came(channel)
        try:
            await wire.open(channel)
        except ProtocolError as error:
            self._processor.handshake_failed(connection, error)
        except OSError as error:
            _log.debug("connection %s: %s", connection.connection_id, error)
        finally:
            if not channel.was_opened:
                self._processor.strangers.left(channel)
                self._quotas.decrement(connection.peer_host, self.listener_name)
                channel.close()  # which knows its parts as they know it
                sock.close()


def opened(wanted: EndPoint) -> tuple[socket.socket, tuple[str, int]]:
    """Return a new socket, and the address to bind it to. Raises OSError."""
    if not wanted.host:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        address: tuple[str, int] = ("::" if dual else "0.0.0.0", wanted.port)  # noqa: S104  as configured
        if dual:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    else:
        host = _host_name(wanted.host)
        found = socket.getaddrinfo(host, wanted.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, resolved = min(found, key=lambda info: info[0] != socket.AF_INET)
        sock = socket.socket(family, kind, protocol)
        address = (str(resolved[0]), wanted.port)
    if sys.platform != "win32":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return sock, address


def refusal(wanted: EndPoint, error: OSError, setting: str = "listeners") -> ConfigError:
    """The sentence for a socket that cannot listen as a setting wants it."""
    reason = error.strerror or str(error)
    where = f"{wanted.host or '*'}:{wanted.port}"
    trouble = Trouble.PORT_IN_USE if error.errno == errno.EADDRINUSE else None
    hint = _HINTS.get(error.errno or 0, "")
    if error.errno == errno.EACCES and 0 < wanted.port <= _LAST_PRIVILEGED_PORT:
        hint = f": choose a port above {_LAST_PRIVILEGED_PORT}"
    return ConfigError(f"{setting}: cannot listen on {where}: {reason}{hint}", trouble)


def _host_name(host: str) -> str | bytes:
    """The host for the resolver; for a str Python loads half a megabyte of tables of names."""
    return host.encode() if host.isascii() else host
