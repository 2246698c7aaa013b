"""The public names of Redpanda, for those who come from there and bring their boards.

Pure. A table: what Redpanda shows and this broker knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbroker.counters import Kind, Metric
from kbroker.metrics.dialect import Part, Place

Labels = tuple[tuple[str, str], ...]

_NAMESPACE: Labels = (("redpanda_namespace", "kafka"),)
_LABELS = {
    "topic": "redpanda_topic",
    "partition": "redpanda_partition",
    "consumergroup": "redpanda_group",
    "request": "redpanda_request",
}
_OF_NAMESPACE = {"topic"}  # a metric with this tag has the namespace too

_COUNTERS: Mapping[tuple[str, str], tuple[str, Labels]] = {
    ("BrokerTopicMetrics", "BytesInPerSec"): (
        "redpanda_kafka_request_bytes", (("redpanda_request", "produce"),),
    ),
    ("BrokerTopicMetrics", "BytesOutPerSec"): (
        "redpanda_kafka_request_bytes", (("redpanda_request", "consume"),),
    ),
    ("BrokerTopicMetrics", "MessagesInPerSec"): ("redpanda_kafka_records_produced", ()),
}  # fmt: skip
_GAUGES: Mapping[tuple[str, str], str] = {
    ("", "topic_partition_current_offset"): "redpanda_kafka_max_offset",
    ("", "topic_partition_under_replicated_partition"): "redpanda_kafka_under_replicated_replicas",
    ("", "topic_partitions"): "redpanda_kafka_partitions",
    ("", "consumergroup_current_offset"): "redpanda_kafka_consumer_group_committed_offset",
    ("", "consumergroup_members"): "redpanda_kafka_consumer_group_consumers",
    ("", "brokers"): "redpanda_cluster_brokers",
    ("KafkaController", "GlobalTopicCount"): "redpanda_cluster_topics",
    ("KafkaController", "GlobalPartitionCount"): "redpanda_cluster_partitions",
    ("KafkaController", "OfflinePartitionsCount"): "redpanda_cluster_unavailable_partitions",
}
_TIMES, _WHOLE_TIMES = "redpanda_kafka_request_latency_seconds", "TotalTimeMs"
_BY_TOPIC = "BrokerTopicMetrics"  # Redpanda has no sums of these


def redpanda_dialect(metric: Metric, tags: tuple[str, ...]) -> Iterable[Place]:
    """The places of a metric; none if Redpanda has nothing like it."""
    name, kind = metric
    key = name.type, name.name
    labels = tuple(_LABELS.get(tag, tag) for tag in tags)
    fixed: Labels = _NAMESPACE if _OF_NAMESPACE.intersection(tags) else ()
    if name.group == "process":
        yield Place(f"process_{name.name}", kind, labels)
    elif kind is Kind.HISTOGRAM:
        if name.name == _WHOLE_TIMES:
            yield Place(_TIMES, kind, labels, Part.BUCKETS)
    elif key in _COUNTERS and (tags or name.type != _BY_TOPIC):
        family, more = _COUNTERS[key]
        yield Place(family, kind, labels, fixed=fixed + more)
    elif key in _GAUGES:
        yield Place(_GAUGES[key], kind, labels, fixed=fixed)
