"""Metrics of clients that have limits."""

from __future__ import annotations

import pytest

from kbroker.apis.quota_metrics import QuotaMetrics
from kbroker.counters import CounterRegistry
from kbroker.metrics.jmx_dialect import jmx_dialect
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.client_quota_manager import ClientQuotaManager
from kbroker.quotas.quota_entity import DEFAULT, QuotaEntity
from kbroker.quotas.rate import Windows


def test_whoever_has_used_a_limit_has_a_row_under_the_names_of_jmx_exporter() -> None:
    limits, counters = ClientLimits(), CounterRegistry()
    quotas = ClientQuotaManager(limits, Windows())
    QuotaMetrics(quotas, lambda: 1_000).register(counters)
    assert list(counters.samples()) == []
    limits.put(QuotaEntity("ann"), {"producer_byte_rate": 5, "request_percentage": 50})
    limits.put(QuotaEntity(client_id=DEFAULT), {"consumer_byte_rate": 5})
    limits.put(QuotaEntity("bob", DEFAULT), {"controller_mutation_rate": 1})
    ann, eve = quotas.account("User:ann", "a", 0), quotas.account("User:eve", "e", 0)
    assert ann.produce is not None
    assert eve.fetch is not None
    ann.produce.use(100, 1_000)
    eve.fetch.use(20, 1_000)
    bob = quotas.account("User:bob", "b", 0)
    assert bob.mutations is not None
    bob.mutations.take(5, 1_000)

    shown = {}
    for table, tags, values in filter(None, counters.samples()):
        for metric, value in zip(table.metrics, values, strict=True):
            [place] = jmx_dialect(metric, table.tags)
            shown[place.family, " ".join(map("=".join, zip(table.tags, tags, strict=True)))] = value

    expected = {
        ("kafka_server_quota_byte_rate", "resource=Produce user=ann"): 10.0,
        ("kafka_server_quota_throttle_time", "resource=Produce user=ann"): 10_000,
        ("kafka_server_quota_byte_rate", "resource=Fetch clientId=a"): 0.0,
        ("kafka_server_quota_throttle_time", "resource=Fetch clientId=a"): 0.0,
        ("kafka_server_quota_byte_rate", "resource=Fetch clientId=e"): 2.0,
        ("kafka_server_quota_throttle_time", "resource=Fetch clientId=e"): 0.0,
        ("kafka_server_quota_request_time", "resource=Request user=ann"): 0.0,
        ("kafka_server_quota_throttle_time", "resource=Request user=ann"): 0.0,
        ("kafka_server_quota_tokens", "resource=ControllerMutation user=bob clientId=b"): 6.0,
        ("kafka_server_quota_throttle_time", "resource=ControllerMutation user=bob clientId=b"): 0,
        (
            "kafka_server_quota_mutation_rate",
            "resource=ControllerMutation user=bob clientId=b",
        ): 0.5,
        ("kafka_server_quota_byte_rate", "resource=Fetch clientId=b"): 0.0,
        ("kafka_server_quota_throttle_time", "resource=Fetch clientId=b"): 0.0,
    }
    assert shown == pytest.approx(expected, rel=0.2)  # rates are weighed
