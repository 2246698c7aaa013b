"""Requests in versions that Apache Kafka 4 takes no longer (KIP-896), so that clients which still
send them are found before they come to such a broker. Kafka's names; it tells them apart by the
client's software, too, which is not counted with each request here.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, RecentRate, Row, Table
from kbroker.protocol.api_keys import ApiKey

LAST_DEPRECATED: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 2,
    ApiKey.FETCH: 3,
    ApiKey.LIST_OFFSETS: 0,
    ApiKey.OFFSET_COMMIT: 1,
    ApiKey.OFFSET_FETCH: 0,
    ApiKey.CREATE_TOPICS: 1,
    ApiKey.DELETE_TOPICS: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 1,
    ApiKey.DESCRIBE_ACLS: 0,
    ApiKey.CREATE_ACLS: 0,
    ApiKey.DELETE_ACLS: 0,
    ApiKey.DESCRIBE_CONFIGS: 0,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 0,
    ApiKey.DESCRIBE_LOG_DIRS: 0,
}
"""The last version by API; the earlier ones are deprecated with it."""
_WINDOW_S = 300.0
_NAME = MetricName("kafka.network", "RequestMetrics", "DeprecatedRequestsPerSec")
_RATE = _NAME._replace(name=f"{_NAME.name}_FiveMinuteRate")

Requests = Callable[[], Mapping[tuple[int, int], int]]
"""Says how many requests came by API key and version."""


class DeprecatedRequests:
    """How many came since `began_s`, and how many in a second; `now_s` says what time it is."""

    def __init__(self, requests: Requests, began_s: float, now_s: Callable[[], float]) -> None:
        self._requests = requests
        self._began_s = began_s
        self._now_s = now_s
        self._rates: dict[tuple[int, int], RecentRate] = {}

    def register(self, counters: CounterRegistry) -> None:
        """Register both under their names."""
        metrics = Metric(_NAME, Kind.COUNTER), Metric(_RATE, Kind.GAUGE)
        counters.add_table(Table(metrics, ("request", "version"), self._rows))

    def _rows(self) -> Iterator[Row]:
        now_s = self._now_s()
        for (key, version), count in self._requests().items():
            if version <= LAST_DEPRECATED.get(key, -1):
                rate = self._rates.get((key, version))
                if rate is None:
                    rate = self._rates[key, version] = RecentRate(self._began_s, _WINDOW_S)
                yield (ApiKey(key).api_name, str(version)), (count, rate.at(now_s, count))
