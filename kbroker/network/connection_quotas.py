"""The limits of connections: of open ones in all, per listener and per peer address, and of new
ones from an address.

Owned by the event loop. The limits of open ones are `max.connections`, `max.connections.per.ip` and
`max.connections.per.ip.overrides` (KIP-308 and KIP-402 describe Kafka's).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kbroker.counters import Counter

if TYPE_CHECKING:
    from kbroker.network.address_rates import AddressRates  # few brokers have such limits


class ConnectionQuotas:
    """Counts open connections and says when there are too many."""

    __slots__ = (
        "_by_ip",
        "_by_listener",
        "_max_connections",
        "_max_per_ip",
        "_of_listeners",
        "_overrides",
        "_spared",
        "addresses",
        "rejected",
        "total",
    )

    def __init__(
        self,
        max_connections: int,
        max_connections_per_ip: int,
        overrides: Mapping[str, int] | None = None,
    ) -> None:
        self._max_connections = max_connections
        self._max_per_ip = max_connections_per_ip
        self._overrides = dict(overrides or {})
        self._of_listeners: Mapping[str, int] = {}
        self._spared: str | None = None
        self._by_ip: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self.total = 0
        self.addresses: AddressRates | None = None  # given if addresses may have limits
        self.rejected = Counter()  # closed at once because of the limit of their address

    def put_limits(self, total: int, of_listeners: Mapping[str, int], spared: str | None) -> None:
        """Put limits in force: of all connections, and of those of single listeners. The listener
        `spared` does not wait for those of others, as brokers have it for themselves.
        """
        self._max_connections, self._of_listeners, self._spared = total, of_listeners, spared

    def is_full(self, listener: str) -> bool:
        """True when a listener has to wait, as Kafka's do at `max.connections`."""
        if self.total >= self._max_connections and listener != self._spared:
            return True
        limit = self._of_listeners.get(listener)
        return limit is not None and self._by_listener.get(listener, 0) >= limit

    def increment(self, ip: str, listener: str) -> bool:
        """Count a new connection; False, and nothing counted, when its address has enough."""
        count = self._by_ip.get(ip, 0)
        if count >= self._overrides.get(ip, self._max_per_ip):
            self.rejected.value += 1
            return False
        self._by_ip[ip] = count + 1
        self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
        self.total += 1
        return True

    def decrement(self, ip: str, listener: str) -> None:
        """Take back a connection counted by `increment`."""
        count = self._by_ip[ip] - 1
        assert count >= 0, "a connection was counted out twice"
        if count:
            self._by_ip[ip] = count
        else:
            del self._by_ip[ip]
        self._by_listener[listener] -= 1
        self.total -= 1

    def count(self, ip: str) -> int:
        return self._by_ip.get(ip, 0)
