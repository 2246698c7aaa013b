"""The limits of open connections: in all, and per peer address.

Owned by the event loop. The limits are `max.connections`, `max.connections.per.ip` and
`max.connections.per.ip.overrides` (KIP-308 and KIP-402 describe Kafka's).
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.counters import Counter


class ConnectionQuotas:
    """Counts open connections and says when there are too many."""

    __slots__ = ("_by_ip", "_max_connections", "_max_per_ip", "_overrides", "rejected", "total")

    def __init__(
        self,
        max_connections: int,
        max_connections_per_ip: int,
        overrides: Mapping[str, int] | None = None,
    ) -> None:
        self._max_connections = max_connections
        self._max_per_ip = max_connections_per_ip
        self._overrides = dict(overrides or {})
        self._by_ip: dict[str, int] = {}
        self.total = 0
        self.rejected = Counter()  # closed at once because of the limit of their address

    @property
    def is_full(self) -> bool:
        """True when `max.connections` are open; the acceptors wait then, as Kafka's do."""
        return self.total >= self._max_connections

    def increment(self, ip: str) -> bool:
        """Count a new connection; False, and nothing counted, when its address has enough."""
        count = self._by_ip.get(ip, 0)
        if count >= self._overrides.get(ip, self._max_per_ip):
            self.rejected.value += 1
            return False
        self._by_ip[ip] = count + 1
        self.total += 1
        return True

    def decrement(self, ip: str) -> None:
        """Take back a connection counted by `increment`."""
        count = self._by_ip[ip] - 1
        assert count >= 0, "a connection was counted out twice"
        if count:
            self._by_ip[ip] = count
        else:
            del self._by_ip[ip]
        self.total -= 1

    def count(self, ip: str) -> int:
        return self._by_ip.get(ip, 0)
