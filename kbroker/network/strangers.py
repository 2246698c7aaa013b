"""Strangers: the connections whose client is not known yet, and the addresses whose logins failed.

Law: all of them together have a bound, and each of them a deadline. Who logs in with the right
password waits for nobody; the answer to a wrong one waits, and the longer the more of them came
from its address lately.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable

from kbroker.network.channel import Channel

DEADLINE_MS = 10_000.0
"""From the moment a connection is accepted: handshakes of TLS and the login together."""
STRANGERS_MAX = 1_024
FREE_FAILURES = 10  # of one address within a minute; each further one doubles the delay
DELAY_DOUBLES_MAX = 6
_MINUTE_MS = 60_000.0
_ADDRESSES_MAX = 2_000

NO_LOGIN = "no handshake and login in 10 s"

Close = Callable[[Channel, str], None]
"""Closes a connection for a reason."""


class Strangers:
    """The connections of one server that are not logged in, by address."""

    def __init__(self, close: Close) -> None:
        """`close` is called for a connection that has to go."""
        self.failed_delay_ms = 100  # connection.failed.authentication.delay.ms
        self._close = close
        self._deadlines: dict[Channel, asyncio.TimerHandle] = {}
        self._by_network: dict[str, dict[Channel, None]] = {}  # in the order in which they came
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._deadlines)

    def came(self, channel: Channel, age_ms: float = 0.0) -> None:
        """Note a connection that was accepted so long ago. If there are too many, the oldest goes
        of the address that has most.
        """
        if channel in self._deadlines:
            return  # since its handshake began
        left_s = max(0.0, DEADLINE_MS - age_ms) / 1000
        loop = asyncio.get_running_loop()
        self._deadlines[channel] = loop.call_later(left_s, self._end, channel, NO_LOGIN)
        network = network_of(channel.connection.peer_host)
        self._by_network.setdefault(network, {})[channel] = None
        if len(self._deadlines) > STRANGERS_MAX:
            most = max(self._by_network.values(), key=len)
            self._end(next(iter(most)), "too many connections without a login")

    def left(self, channel: Channel) -> bool:
        """Let a connection be that is logged in, or gone; whether it was a stranger until now."""
        deadline = self._deadlines.pop(channel, None)
        if deadline is None:
            return False
        deadline.cancel()
        network = network_of(channel.connection.peer_host)
        of_network = self._by_network[network]
        del of_network[channel]
        if not of_network:
            del self._by_network[network]
        return True

    def failed(self, host: str, now_ms: float) -> float:
        """Count a failed login. Returns for how many milliseconds its answer waits."""
        network = network_of(host)
        since_ms, count = self._failures.get(network, (now_ms, 0))
        if now_ms - since_ms >= _MINUTE_MS:
            since_ms, count = now_ms, 0
        self._failures[network] = since_ms, count + 1
        self._failures.move_to_end(network)
        if len(self._failures) > _ADDRESSES_MAX:
            self._failures.popitem(last=False)
        doubles = min(max(0, count + 1 - FREE_FAILURES), DELAY_DOUBLES_MAX)
        return float(self.failed_delay_ms << doubles)

    def _end(self, channel: Channel, reason: str) -> None:
        self.left(channel)
        self._close(channel, reason)


def network_of(host: str) -> str:
    """The address itself, or of IPv6 its first half: one machine may have all addresses of that."""
    if ":" not in host:
        return host
    return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8].hex()
