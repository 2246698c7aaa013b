"""Metrics of clients with limits: their use, and their delays, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, Row, Table
from kbroker.quotas.client_limits import Tags
from kbroker.quotas.client_quota_manager import ClientQuotaManager, MutationQuota
from kbroker.quotas.quota_keys import ClientQuotaType

_RESOURCES: Final = {
    ClientQuotaType.PRODUCE: ("Produce", "byte-rate"),
    ClientQuotaType.FETCH: ("Fetch", "byte-rate"),
    ClientQuotaType.REQUEST: ("Request", "request-time"),
    ClientQuotaType.CONTROLLER_MUTATION: ("ControllerMutation", "tokens"),
}
_MORE: Final = {"tokens": ("mutation-rate",)}  # made by MutationQuota alone
_MEASURES = sorted({measure for _, measure in _RESOURCES.values()})
_USER, _CLIENT_ID = "user", "clientId"


class QuotaMetrics:
    """A row for each user, client id or both that shares a limit and has used it of late."""

    def __init__(self, quotas: ClientQuotaManager, now_ms: Callable[[], float]) -> None:
        """`now_ms` is the clock that the quotas are used by."""
        self._quotas = quotas
        self._now_ms = now_ms

    def register(self, counters: CounterRegistry) -> None:
        """Register the measures of all kinds of limits."""
        for tags in ((_USER, _CLIENT_ID), (_USER,), (_CLIENT_ID,)):
            for measure in _MEASURES:
                names = (measure, "throttle-time", *_MORE.get(measure, ()))
                metrics = tuple(
                    Metric(MetricName("kafka.server", "quota", name), Kind.GAUGE) for name in names
                )
                rows = partial(self._rows, measure, tags)
                counters.add_table(Table(metrics, ("resource", *tags), rows))

    def _rows(self, wanted: str, tags: tuple[str, ...]) -> Iterator[Row | None]:
        now_ms = self._now_ms()
        for kind, quota in list(self._quotas.quotas()):
            resource, measure = _RESOURCES[kind]
            named = _named(quota.tags)
            if measure != wanted or tuple(named) != tags:
                yield None
                continue
            values = [quota.measured(now_ms), quota.throttle_ms(now_ms)]
            if isinstance(quota, MutationQuota):
                values.append(quota.made_per_s(now_ms))
            yield (resource, *named.values()), tuple(values)


def _named(tags: Tags) -> dict[str, str]:
    if tags.others:  # which labels would stand for them is known to the operator alone
        return {}
    return {
        name: value for name, value in ((_USER, tags.user), (_CLIENT_ID, tags.client_id)) if value
    }
