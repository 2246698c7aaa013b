"""The names that the rules of Prometheus' jmx_exporter for Kafka make of JMX names; the boards of
Strimzi and of many others ask for them.

Pure. Rules that concern percents come first in Strimzi's file and last in that of jmx_exporter,
where the general rule for gauges takes some of them away: those have both names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kbroker.counters import Kind, Metric, MetricName
from kbroker.metrics.dialect import Part, Place

_KAFKA = "kafka."
_UNSAFE = re.compile("[^a-zA-Z0-9_]")
_PER_SECOND = "PerSec"
_PERCENT = "Percent"
_CONNECTIONS, _SOFTWARE = "connections", "clientSoftwareName"  # have a rule of Strimzi's
_SECONDS = "_seconds"
_TOTAL = "-total"  # ends the names of counters in Kafka's newer kind of metrics
_RATE = "MinuteRate"  # of counters, which Prometheus works out itself
_MEANS = ("RequestHandlerAvgIdlePercent",)  # percents that are no gauge in Kafka
_PARTS_OF_TOTAL = (  # Kafka's own quantiles will do for them
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
)


def jmx_dialect(metric: Metric, tags: tuple[str, ...]) -> Iterable[Place]:
    """The places of a metric.

    >>> name = MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec")
    >>> [place.family for place in jmx_dialect(Metric(name, Kind.COUNTER), ("topic",))]
    ['kafka_server_brokertopicmetrics_bytesin']
    """
    name, kind = metric
    if name.name == _CONNECTIONS and _SOFTWARE in tags:
        return (Place(f"{joined(name, _CONNECTIONS)}_software", kind, tags),)
    if kind is Kind.COUNTER:
        word = _before(_before(name.name, _PER_SECOND), _TOTAL)
        if word == name.name and name.group.startswith(_KAFKA):
            word += "_count"
        return (Place(joined(name, word), kind, tags),)
    if kind is Kind.GAUGE:
        word = name.name
        if _RATE in word:
            return ()
        plain = Place(joined(name, word), kind, tags)
        if _PERCENT not in word:
            return (plain,)
        percent = Place(joined(name, f"{_before(word, _PERCENT)}_percent"), kind, tags)
        return (percent,) if word in _MEANS else (percent, plain)
    family = joined(name, name.name)
    return (
        Place(f"{family}_count", Kind.COUNTER, tags, Part.COUNT),
        Place(family, Kind.GAUGE, tags, Part.QUANTILES),
        *own_times(name, tags),
    )


def _before(word: str, end: str) -> str:
    return word.partition(end)[0]


def own_times(name: MetricName, tags: tuple[str, ...]) -> Iterable[Place]:
    """The place of a histogram in seconds, which Kafka does not have: of whole times only."""
    if name.name not in _PARTS_OF_TOTAL:
        own = name._replace(group=f"kbroker.{name.group}")
        family = joined(own, _before(name.name, "Ms")) + _SECONDS
        yield Place(family, Kind.HISTOGRAM, tags, Part.BUCKETS)


def joined(name: MetricName, word: str) -> str:
    """A metric's group and type with a word, as a name that Prometheus takes."""
    parts = [part for part in (name.group, name.type, word) if part]
    return _UNSAFE.sub("_", "_".join(parts)).lower()
