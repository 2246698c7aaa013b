"""The names that boards of Confluent and Redpanda ask for."""

from __future__ import annotations

import pytest

from kbroker.counters import Kind, Metric, MetricName
from kbroker.metrics.confluent_dialect import confluent_dialect
from kbroker.metrics.redpanda_dialect import redpanda_dialect

COUNTER, GAUGE, TIMES = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
BY_TOPIC = ("topic",)
BY_PARTITION = ("topic", "partition")


def metric(group: str, type_: str, name: str, kind: Kind) -> Metric:
    return Metric(MetricName(group, type_, name), kind)


@pytest.mark.parametrize(
    ("shown", "tags", "family", "labels"),
    [
        (metric("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", COUNTER), BY_TOPIC,
         "kafka_server_brokertopicmetrics_messagesinpersec", BY_TOPIC),
        (metric("kafka.network", "RequestMetrics", "ErrorsPerSec", COUNTER), ("request", "error"),
         "kafka_network_requestmetrics_errorspersec", ("request", "error")),
        (metric("kafka.network", "RequestMetrics", "TotalTimeMs", TIMES), ("request",),
         "kafka_network_requestmetrics_totaltimems", ("request",)),
        (metric("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent", GAUGE), (),
         "kafka_network_socketserver_networkprocessoravgidlepercent", ()),
        (metric("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", GAUGE),
         (), "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate",
         ()),
        (metric("kafka.server", "socket-server-metrics", "connection-count", GAUGE),
         ("listener", "networkProcessor"), "kafka_server_socketservermetrics_connection_count",
         ("listener", "network_processor")),
        (metric("kafka.server", "ReplicaFetcherManager", "MaxLag", GAUGE), ("clientId",),
         "kafka_server_replicafetchermanager_maxlag", ("clientid",)),
        (metric("kafka.network", "RequestMetrics", "DeprecatedRequestsPerSec_FiveMinuteRate", GAUGE),
         ("request", "version"),
         "kafka_network_requestmetrics_deprecatedrequestspersec_fiveminuterate",
         ("api_name", "api_version")),
        (metric("kafka.log", "Log", "LogEndOffset", GAUGE), BY_PARTITION,
         "kafka_log_log_logendoffset", BY_PARTITION),
        (metric("process", "", "cpu_seconds", COUNTER), (), "process_cpu_seconds", ()),
    ],
)  # fmt: skip
def test_confluents_boards_find_their_names(
    shown: Metric, tags: tuple[str, ...], family: str, labels: tuple[str, ...]
) -> None:
    place = next(iter(confluent_dialect(shown, tags)))

    assert (place.family, place.labels) == (family, labels)


@pytest.mark.parametrize(
    ("shown", "tags", "family", "labels"),
    [
        (metric("kafka", "", "topic_partition_current_offset", GAUGE), BY_PARTITION,
         "redpanda_kafka_max_offset",
         {"redpanda_topic", "redpanda_partition", "redpanda_namespace"}),
        (metric("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", COUNTER), BY_TOPIC,
         "redpanda_kafka_request_bytes",
         {"redpanda_topic", "redpanda_request", "redpanda_namespace"}),
        (metric("kafka.network", "RequestMetrics", "TotalTimeMs", TIMES), ("request",),
         "redpanda_kafka_request_latency_seconds", {"redpanda_request"}),
        (metric("kafka", "", "consumergroup_members", GAUGE), ("consumergroup",),
         "redpanda_kafka_consumer_group_consumers", {"redpanda_group"}),
        (metric("kafka", "", "brokers", GAUGE), (), "redpanda_cluster_brokers", set()),
    ],
)  # fmt: skip
def test_redpandas_boards_find_their_names(
    shown: Metric, tags: tuple[str, ...], family: str, labels: set[str]
) -> None:
    (place,) = redpanda_dialect(shown, tags)

    assert place.family == family
    assert {*place.labels, *(name for name, _ in place.fixed)} == labels


def test_redpanda_has_no_sums_over_topics_and_none_of_kafkas_own() -> None:
    bytes_in = metric("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", COUNTER)
    size = metric("kafka.log", "Log", "Size", GAUGE)

    assert [*redpanda_dialect(bytes_in, ()), *redpanda_dialect(size, BY_PARTITION)] == []
