"""The names that Confluent's rules for jmx_exporter make of JMX names; its boards for clusters and
topics ask for them.

Pure. These rules give counters no type, so they are shown as gauges under names without _total:
boards take rates of them all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.counters import Kind, Metric
from kbroker.metrics.dialect import Part, Place
from kbroker.metrics.jmx_dialect import joined, own_times

_SOCKETS = "socket-server-metrics"
_HANDLERS_IDLE = "RequestHandlerAvgIdlePercent"
_DEPRECATED, _API = "DeprecatedRequestsPerSec", ("api_name", "api_version")
_LABELS = {
    "networkProcessor": "network_processor",
    "clientSoftwareName": "client_software_name",
    "clientSoftwareVersion": "client_software_version",
}


def confluent_dialect(metric: Metric, tags: tuple[str, ...]) -> Iterable[Place]:
    """The places of a metric, under its whole name in lower case.

    >>> from kbroker.counters import MetricName
    >>> name = MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec")
    >>> [place.family for place in confluent_dialect(Metric(name, Kind.COUNTER), ("topic",))]
    ['kafka_server_brokertopicmetrics_bytesinpersec']
    """
    name, kind = metric
    labels = tuple(_LABELS.get(tag, tag.lower()) for tag in tags)
    if name.name.startswith(_DEPRECATED):
        labels = _API
    if not name.group.startswith("kafka."):
        yield Place(joined(name, name.name), kind, labels)
    elif kind is Kind.HISTOGRAM:
        yield Place(joined(name, name.name), Kind.GAUGE, labels, Part.QUANTILES)
        yield from own_times(name, labels)
    elif name.type == _SOCKETS:
        family = joined(name._replace(type=_SOCKETS.replace("-", "")), name.name)
        yield Place(family, Kind.GAUGE, labels)
    elif name.name == _HANDLERS_IDLE:
        yield Place(f"{joined(name, name.name)}_oneminuterate", Kind.GAUGE, labels)
    else:
        yield Place(joined(name, name.name), Kind.GAUGE, labels)
