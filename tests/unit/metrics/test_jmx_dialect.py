"""The names of the dialect, beside what the rules of jmx_exporter make of Kafka's names in JMX."""

from __future__ import annotations

import re

import pytest

from kbroker.counters import Kind, Metric, MetricName
from kbroker.metrics.dialect import Part
from kbroker.metrics.jmx_dialect import jmx_dialect

ONE = r", (.+)=(.+)"
# Pattern, name and type of each general rule of examples/kafka-2_0_0.yml, those for percents first
# as in Strimzi's kafka-metrics.yaml, and its rule for what Kafka counts of its sockets.
RULES = [
    (r"kafka.server<type=(.+), clientSoftwareName=(.+), clientSoftwareVersion=(.+), listener=(.+), "
     r"networkProcessor=(.+)><>connections", "kafka_server_$1_connections_software", "GAUGE"),
    (r"kafka.server<type=(.+), listener=(.+), networkProcessor=(.+)><>(.+-total)",
     "kafka_server_$1_$4", "COUNTER"),
    (r"kafka.server<type=(.+), listener=(.+), networkProcessor=(.+)><>(.+)",
     "kafka_server_$1_$4", "GAUGE"),
    (r"kafka.(\w+)<type=(.+), name=(.+)Percent\w*><>(MeanRate|Value)", "kafka_$1_$2_$3_percent",
     "GAUGE"),
    (r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value", "kafka_coordinator_$1_$2_$3",
     "GAUGE"),
    (rf"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*{ONE}{ONE}><>Count", "kafka_$1_$2_$3_total",
     "COUNTER"),
    (rf"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*{ONE}><>Count", "kafka_$1_$2_$3_total",
     "COUNTER"),
    (r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*><>Count", "kafka_$1_$2_$3_total", "COUNTER"),
    (rf"kafka.(\w+)<type=(.+), name=(.+){ONE}{ONE}><>Value", "kafka_$1_$2_$3", "GAUGE"),
    (rf"kafka.(\w+)<type=(.+), name=(.+){ONE}><>Value", "kafka_$1_$2_$3", "GAUGE"),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>Value", "kafka_$1_$2_$3", "GAUGE"),
    (rf"kafka.(\w+)<type=(.+), name=(.+){ONE}><>Count", "kafka_$1_$2_$3_count", "COUNTER"),
    (rf"kafka.(\w+)<type=(.+), name=(.+){ONE}><>(\d+)thPercentile", "kafka_$1_$2_$3", "GAUGE"),
]  # fmt: skip


def by_the_rules(bean: str) -> tuple[str, str]:
    """The name and the type that jmx_exporter shows."""
    for pattern, name, kind in RULES:
        found = re.match(pattern, bean)
        if found:
            for number, group in enumerate(found.groups(), 1):
                name = name.replace(f"${number}", group)
            # Made safe and lower, as `lowercaseOutputName` wants it.
            return re.sub("[^a-zA-Z0-9_]", "_", name).lower(), kind
    raise AssertionError(f"no rule for {bean}")


COUNTER, GAUGE = Kind.COUNTER, Kind.GAUGE
BEANS = [
    ("kafka.server<type=BrokerTopicMetrics, name=MessagesInPerSec><>Count", COUNTER),
    ("kafka.server<type=BrokerTopicMetrics, name=BytesInPerSec, topic=a.b><>Count", COUNTER),
    ("kafka.network<type=RequestMetrics, name=RequestsPerSec, request=Fetch, version=12><>Count",
     COUNTER),
    ("kafka.network<type=RequestMetrics, name=ErrorsPerSec, request=Fetch, error=NONE><>Count",
     COUNTER),
    ("kafka.server<type=ReplicaManager, name=LeaderCount><>Value", GAUGE),
    ("kafka.log<type=Log, name=LogEndOffset, topic=t, partition=0><>Value", GAUGE),
    ("kafka.cluster<type=Partition, name=UnderMinIsr, topic=t, partition=0><>Value", GAUGE),
    ("kafka.controller<type=KafkaController, name=ActiveControllerCount><>Value", GAUGE),
    ("kafka.server<type=KafkaRequestHandlerPool, name=RequestHandlerAvgIdlePercent><>MeanRate",
     GAUGE),
    ("kafka.network<type=SocketServer, name=NetworkProcessorAvgIdlePercent><>Value", GAUGE),
    ("kafka.coordinator.group<type=GroupMetadataManager, name=NumGroupsStable><>Value", GAUGE),
    ("kafka.server<type=socket-server-metrics, listener=A, networkProcessor=0><>connection-count",
     GAUGE),
    ("kafka.server<type=socket-server-metrics, listener=A, networkProcessor=0>"
     "<>connection-creation-total", COUNTER),
    ("kafka.server<type=socket-server-metrics, listener=A, networkProcessor=0>"
     "<>failed-authentication-total", COUNTER),
    ("kafka.server<type=socket-server-metrics, listener=A, networkProcessor=0>"
     "<>successful-reauthentication-rate", GAUGE),
    ("kafka.server<type=socket-server-metrics, clientSoftwareName=a, clientSoftwareVersion=1, "
     "listener=A, networkProcessor=0><>connections", GAUGE),
    ("kafka.network<type=Acceptor, name=AcceptorBlockedPercent, listener=A><>Count", COUNTER),
    ("kafka.server<type=DelayedOperationPurgatory, name=PurgatorySize, delayedOperation=Fetch>"
     "<>Value", GAUGE),
]  # fmt: skip


@pytest.mark.parametrize(("bean", "kind"), BEANS)
def test_a_name_is_that_of_the_rules(bean: str, kind: Kind) -> None:
    group, _, rest = bean.partition("<")
    properties, _, attribute = rest.partition("><>")
    values = dict(each.split("=", 1) for each in properties.split(", "))
    name = MetricName(group, values.pop("type"), values.pop("name", attribute))

    place = next(iter(jmx_dialect(Metric(name, kind), tuple(values))))

    shown, expected = by_the_rules(bean)
    assert place.family == shown.removesuffix("_total")
    assert place.kind.name == expected
    assert place.labels == tuple(values)


def test_a_percent_that_the_rules_of_jmx_exporter_take_for_a_gauge_has_both_names() -> None:
    name = MetricName("kafka.network", "Processor", "IdlePercent")

    places = list(jmx_dialect(Metric(name, GAUGE), ("networkProcessor",)))

    assert [place.family for place in places] == [
        "kafka_network_processor_idle_percent",
        "kafka_network_processor_idlepercent",
    ]


def test_times_have_the_names_of_the_rules_and_a_histogram_of_our_own() -> None:
    name = MetricName("kafka.network", "RequestMetrics", "TotalTimeMs")
    bean = "kafka.network<type=RequestMetrics, name=TotalTimeMs, request=Fetch><>"

    places = list(jmx_dialect(Metric(name, Kind.HISTOGRAM), ("request",)))

    assert [(place.family, place.kind.name) for place in places if place.part is Part.COUNT] == [
        by_the_rules(f"{bean}Count")
    ]
    assert [
        (place.family, place.kind.name) for place in places if place.part is Part.QUANTILES
    ] == [by_the_rules(f"{bean}99thPercentile")]
    assert [place.family for place in places if place.part is Part.BUCKETS] == [
        "kbroker_kafka_network_requestmetrics_totaltime_seconds"
    ]


@pytest.mark.parametrize("part", ["RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs"])
def test_the_parts_of_a_time_have_no_histogram_of_our_own(part: str) -> None:
    name = MetricName("kafka.network", "RequestMetrics", part)

    places = jmx_dialect(Metric(name, Kind.HISTOGRAM), ("request",))

    assert {place.part for place in places} == {Part.COUNT, Part.QUANTILES}


def test_other_names_are_made_alike() -> None:
    ours = MetricName("kbroker.apis", "KafkaApis", "Bugs")
    process = MetricName("process", "", "cpu_seconds")

    assert [
        place.family for name in (ours, process) for place in jmx_dialect(Metric(name, COUNTER), ())
    ] == ["kbroker_apis_kafkaapis_bugs", "process_cpu_seconds"]
