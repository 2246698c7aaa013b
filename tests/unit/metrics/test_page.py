from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

from kbroker.counters import (
    Counter,
    CounterRegistry,
    Histogram,
    Kind,
    Metric,
    MetricName,
    Table,
)
from kbroker.metrics.dialect import Dialect, Place
from kbroker.metrics.jmx_dialect import jmx_dialect
from kbroker.metrics.page import OPEN_METRICS, TEXT, Format, Page

READERS = {OPEN_METRICS: read_open, TEXT: read_text}
SIZE = Metric(MetricName("kafka.log", "Log", "Size"), Kind.GAUGE)
BYTES = Metric(MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec"), Kind.COUNTER)
TIMES = Metric(MetricName("kafka.network", "RequestMetrics", "TotalTimeMs"), Kind.HISTOGRAM)

formats = pytest.mark.parametrize("page_format", READERS, ids=["open", "text"])


def text_of(page_format: Format, registry: CounterRegistry, dialect: Dialect = jmx_dialect) -> str:
    page = Page(dialect, page_format)
    page.add(registry.samples())
    return "".join(page.parts())


def read(page_format: Format, text: str) -> dict[tuple[str, ...], float]:
    """The values of a page, by name and labels."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sample.labels.items())): sample.value
        for family in READERS[page_format](text)
        for sample in family.samples
    }


def registry_of(metric: Metric, tags: tuple[str, ...], rows: dict[Any, Any]) -> CounterRegistry:
    registry = CounterRegistry()
    registry.add_table(
        Table((metric,), tags, lambda: ((each, (value,)) for each, value in rows.items()))
    )
    return registry


@formats
def test_a_page_is_read_as_it_is_meant(page_format: Format) -> None:
    registry = registry_of(BYTES, ("topic",), {("a",): 1, ("b.c",): 2**53})
    registry.add(MetricName("kafka.server", "ReplicaManager", "LeaderCount"), lambda: 1.5)
    requests = Counter()
    requests.value = 7
    listener = (("listener", "PLAINTEXT"),)
    registry.add(MetricName("kbroker.network", "Acceptor", "Accepted", listener), requests)

    assert read(page_format, text_of(page_format, registry)) == {
        ("kafka_server_brokertopicmetrics_bytesin_total", "topic=a"): 1,
        ("kafka_server_brokertopicmetrics_bytesin_total", "topic=b.c"): 2**53,
        ("kafka_server_replicamanager_leadercount",): 1.5,
        ("kbroker_network_acceptor_accepted_total", "listener=PLAINTEXT"): 7,
    }


@formats
@given(tag=st.text())
def test_any_value_of_a_label_comes_through(page_format: Format, tag: str) -> None:
    registry = registry_of(SIZE, ("topic", "partition"), {(tag, '"\\\n'): 1})

    values = read(page_format, text_of(page_format, registry))

    assert values == {("kafka_log_log_size", f"topic={tag}", 'partition="\\\n'): 1}


@formats
def test_a_name_that_is_no_utf_8_does_not_spoil_the_page(page_format: Format) -> None:
    registry = registry_of(SIZE, ("topic",), {("a\udc80",): 1})

    assert text_of(page_format, registry).encode()


@formats
def test_a_family_stands_in_one_piece(page_format: Format) -> None:
    registry = registry_of(BYTES, (), {(): 3})
    registry.add(MetricName("kafka.server", "ReplicaManager", "LeaderCount"), lambda: 1)
    registry.add_table(Table((BYTES,), ("topic",), lambda: iter([(("a",), (3,))])))

    text = text_of(page_format, registry)

    lines = text.splitlines()
    bytes_in = [at for at, line in enumerate(lines) if "bytesin" in line]
    assert bytes_in == list(range(bytes_in[0], bytes_in[0] + 4))


@formats
def test_times_are_shown_as_a_histogram_and_as_quantiles(page_format: Format) -> None:
    counts = [0] * 64
    counts[20] = 3  # about 0.8 ms
    counts[24] = 1
    registry = registry_of(TIMES, ("request",), {("Produce",): Histogram(counts, 15_000_000)})

    values = read(page_format, text_of(page_format, registry))

    seconds = "kbroker_kafka_network_requestmetrics_totaltime_seconds"
    assert values[f"{seconds}_count", "request=Produce"] == 4
    assert values[f"{seconds}_sum", "request=Produce"] == 0.015
    assert values[f"{seconds}_bucket", "request=Produce", f"le={2**20 / 1e9}"] == 3
    assert values[f"{seconds}_bucket", "request=Produce", "le=+Inf"] == 4
    old = "kafka_network_requestmetrics_totaltimems"
    assert values[f"{old}_count_total", "request=Produce"] == 4
    assert 0.5 < values[old, "request=Produce", "quantile=0.50"] < 1.05
    assert 8 < values[old, "request=Produce", "quantile=0.99"] < 17


@formats
def test_a_histogram_without_times_has_no_quantiles(page_format: Format) -> None:
    registry = registry_of(TIMES, ("request",), {("Produce",): Histogram([0] * 64, 0)})

    assert "quantile" not in text_of(page_format, registry)


@formats
def test_a_dialect_leaves_labels_out_and_adds_others(page_format: Format) -> None:
    def other(_metric: Metric, _tags: tuple[str, ...]) -> list[Place]:
        return [Place("other", Kind.GAUGE, ("", "p"), fixed=(("where", 'here "100 %"'),))]

    registry = registry_of(SIZE, ("topic", "partition"), {("a", "0"): 1})

    assert read(page_format, text_of(page_format, registry, other)) == {
        ("other", "p=0", 'where=here "100 %"'): 1,
    }


@formats
def test_a_page_without_samples_is_a_page(page_format: Format) -> None:
    assert read(page_format, text_of(page_format, CounterRegistry())) == {}
