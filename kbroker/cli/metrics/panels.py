"""The panels of the Grafana board: titles, queries, units.

Pure. A table. `BROKER` in a query stands for the labels of the brokers that are chosen, `TOPIC` and
`GROUP` for those of topics and groups, `RATE` for a window in which a rate can be taken.
"""

from __future__ import annotations

from typing import NamedTuple

_MOST = 20  # lines in a chart of topics or groups
_OF_TOPIC, _OF_GROUP = "{{topic}}", "{{consumergroup}} {{topic}}"
_OF_BROKER = "{{instance}}"
_NOTHING = " or on () vector(0)"  # a line at 0, so that nothing to show is seen to be nothing


class Query(NamedTuple):
    """A query, and how its lines are named."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """A chart, or a number with the value from which it is red."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    help: str = ""
    is_number: bool = False
    red_from: float | None = None


class Row(NamedTuple):
    """Panels under a title."""

    title: str
    panels: tuple[Panel, ...]


def _number(title: str, expr: str, red_from: float | None = None) -> Panel:
    return Panel(title, (Query(expr),), is_number=True, red_from=red_from)


def _by_topic(title: str, family: str, unit: str) -> Panel:
    rate = f"rate(kafka_server_brokertopicmetrics_{family}_total{{BROKER,TOPIC}}[RATE])"
    return Panel(title, (Query(f"topk({_MOST}, sum by (topic) ({rate}))", _OF_TOPIC),), unit)


def _by_broker(title: str, expr: str, unit: str = "short", text: str = "") -> Panel:
    return Panel(title, (Query(f"sum by (instance) ({expr})", _OF_BROKER),), unit, text)


ROWS = (
    Row(
        "The cluster",
        (
            _number("Brokers", "sum(kafka_brokers{BROKER})"),
            _number(
                "Controllers",
                "sum(kafka_controller_kafkacontroller_activecontrollercount{BROKER})",
                2,
            ),
            _number("Topics", "sum(kafka_controller_kafkacontroller_globaltopiccount{BROKER})"),
            _number(
                "Partitions", "sum(kafka_controller_kafkacontroller_globalpartitioncount{BROKER})"
            ),
            _number(
                "Without leader",
                "sum(kafka_controller_kafkacontroller_offlinepartitionscount{BROKER})",
                1,
            ),
            _number(
                "Under-replicated",
                "sum(kafka_server_replicamanager_underreplicatedpartitions{BROKER})",
                1,
            ),
            _number(
                "Under min. ISR",
                "sum(kafka_server_replicamanager_underminisrpartitioncount{BROKER})",
                1,
            ),
            _number(
                "Disks offline", "sum(kafka_log_logmanager_offlinelogdirectorycount{BROKER})", 1
            ),
        ),
    ),
    Row(
        "Topics",
        (
            _by_topic("Records written", "messagesin", "cps"),
            _by_topic("Bytes written", "bytesin", "Bps"),
            _by_topic("Bytes read by consumers", "bytesout", "Bps"),
            Panel(
                "Size on disk",
                (
                    Query(
                        f"topk({_MOST}, sum by (topic) (kafka_log_log_size{{BROKER,TOPIC}}))",
                        _OF_TOPIC,
                    ),
                ),
                "bytes",
                "All replicas.",
            ),
            Panel(
                "Records kept",
                (
                    Query(
                        f"topk({_MOST}, sum by (topic) ("
                        "kafka_topic_partition_current_offset{BROKER,TOPIC} - "
                        "kafka_topic_partition_oldest_offset{BROKER,TOPIC}))",
                        _OF_TOPIC,
                    ),
                ),
                help="Offsets between start and end: compaction and transactions leave some empty.",
            ),
            Panel(
                "Partitions that were refused",
                tuple(
                    Query(
                        f"sum(rate(kafka_server_brokertopicmetrics_failed{kind}requests_total"
                        '{BROKER,topic=""}[RATE]))',
                        kind,
                    )
                    for kind in ("produce", "fetch")
                ),
                "cps",
                "Of Produce and Fetch requests.",
            ),
        ),
    ),
    Row(
        "Requests",
        (
            Panel(
                "Requests",
                (
                    Query(
                        "sum by (request) (rate(kafka_network_requestmetrics_requests_total"
                        '{BROKER,request!~"Fetch(Consumer|Follower)"}[RATE]))',
                        "{{request}}",
                    ),
                ),
                "reqps",
            ),
            Panel(
                "Time until the answer, p99",
                (
                    Query(
                        "histogram_quantile(0.99, sum by (le, request) (rate("
                        "kbroker_kafka_network_requestmetrics_totaltime_seconds_bucket{BROKER}"
                        "[RATE])))",
                        "{{request}}",
                    ),
                ),
                "s",
                "With what a Fetch waits for records, a Produce with acks=all for followers, and a "
                "member that joins for the others.",
            ),
            Panel(
                "Errors by code",
                (
                    Query(
                        "sum by (request, error) (rate(kafka_network_requestmetrics_errors_total"
                        f"{{BROKER}}[RATE])){_NOTHING}",
                        "{{request}} {{error}}",
                    ),
                ),
                "cps",
            ),
            Panel(
                "Connections by software",
                (
                    Query(
                        "sum by (clientSoftwareName, clientSoftwareVersion) ("
                        f"kafka_server_socket_server_metrics_connections_software{{BROKER}}){_NOTHING}",
                        "{{clientSoftwareName}} {{clientSoftwareVersion}}",
                    ),
                ),
            ),
            Panel(
                "New connections",
                (
                    Query(
                        "sum by (listener) (rate("
                        "kafka_server_socket_server_metrics_connection_creation_total{BROKER}"
                        "[RATE]))",
                        "{{listener}}",
                    ),
                ),
                "cps",
            ),
            Panel(
                "Bytes on connections",
                tuple(
                    Query(
                        f"sum(rate(kafka_server_socket_server_metrics_{way}_byte_total{{BROKER}}"
                        "[RATE]))",
                        way,
                    )
                    for way in ("incoming", "outgoing")
                ),
                "Bps",
            ),
        ),
    ),
    Row(
        "Consumer groups",
        (
            Panel(
                "Lag",
                (
                    Query(
                        f"topk({_MOST}, sum by (consumergroup, topic) ("
                        "kafka_consumergroup_lag_sum{BROKER,TOPIC,GROUP}))",
                        _OF_GROUP,
                    ),
                ),
                help="Records behind the committed offsets.",
            ),
            Panel(
                "Records committed",
                (
                    Query(
                        f"topk({_MOST}, sum by (consumergroup, topic) (deriv("
                        "kafka_consumergroup_current_offset_sum{BROKER,TOPIC,GROUP}[RATE])))",
                        _OF_GROUP,
                    ),
                ),
                "cps",
            ),
            Panel(
                "Members",
                (
                    Query(
                        f"topk({_MOST}, sum by (consumergroup) ("
                        "kafka_consumergroup_members{BROKER,GROUP}))",
                        "{{consumergroup}}",
                    ),
                ),
            ),
            Panel(
                "Groups by state",
                tuple(
                    Query(
                        "sum(kafka_coordinator_group_groupmetadatamanager_numgroups"
                        f"{state.lower()}{{BROKER}})",
                        state,
                    )
                    for state in ("Stable", "PreparingRebalance", "CompletingRebalance", "Empty")
                ),
            ),
            Panel(
                "Transactional ids by state",
                (
                    Query(
                        "sum by (state) (kbroker_coordinator_transaction_transactionstatemanager_"
                        "numtransactionalids{BROKER})",
                        "{{state}}",
                    ),
                ),
            ),
        ),
    ),
    Row(
        "Replicas and logs",
        (
            Panel(
                "Changes of ISRs",
                tuple(
                    Query(
                        f"sum by (instance) (rate(kafka_server_replicamanager_isr{way}_total"
                        "{BROKER}[RATE]))",
                        f"{_OF_BROKER} {way}",
                    )
                    for way in ("shrinks", "expands")
                ),
                "cps",
            ),
            Panel(
                "Largest lag of a follower",
                (
                    Query(
                        "max by (instance) (kafka_server_replicafetchermanager_maxlag{BROKER})",
                        _OF_BROKER,
                    ),
                ),
                help="Records that it has not fetched yet.",
            ),
            Panel(
                "Bytes between brokers",
                tuple(
                    Query(
                        f"sum(rate(kafka_server_brokertopicmetrics_replicationbytes{way}_total"
                        "{BROKER}[RATE]))",
                        way,
                    )
                    for way in ("in", "out")
                ),
                "Bps",
            ),
            _by_broker("Leaders", "kafka_server_replicamanager_leadercount{BROKER}"),
            _by_broker("Replicas", "kafka_server_replicamanager_partitioncount{BROKER}"),
            _by_broker(
                "Bytes that compaction reads",
                "rate(kbroker_log_logcleaner_bytesread_total{BROKER}[RATE])",
                "Bps",
            ),
        ),
    ),
    Row(
        "Brokers",
        (
            _by_broker(
                "Idle share of the event loop",
                "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{BROKER}",
                "percentunit",
                "At 0 the broker is at its limit, however many processors the machine has.",
            ),
            _by_broker("Processors used", "rate(process_cpu_seconds_total{BROKER}[RATE])"),
            _by_broker("Memory", "process_resident_memory_bytes{BROKER}", "bytes"),
            _by_broker("Open files", "process_open_fds{BROKER}"),
            _by_broker(
                "Bytes to the disks",
                "rate(kafka_server_kafkaserver_linux_disk_write_bytes{BROKER}[RATE])",
                "Bps",
            ),
            _by_broker(
                "Requests that wait",
                "kbroker_network_socketserver_requestswaiting{BROKER}",
                text="For records, followers, other members of a group, or memory.",
            ),
        ),
    ),
)
