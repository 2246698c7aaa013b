"""Alerting rules for Prometheus, on the names that `/metrics` has by default.

Pure. A table; `text_of` writes it as Prometheus reads it. Windows are at least four times the
scrape interval of `scrape_config`. JOB stands for the name of the job that scrapes the brokers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

_CRITICAL, _WARNING, _INFO = "critical", "warning", "info"
_PARTITION = "on (job, instance, topic, partition)"
_LSO_LAG = "kafka_cluster_partition_laststableoffsetlag"
_GROUP_LAG = "sum by (job, consumergroup, topic) (kafka_consumergroup_lag_sum)"


class Alert(NamedTuple):
    """One rule: what it asks, how long that must hold, and what a person reads."""

    name: str
    expr: str
    lasts: str  # a duration as Prometheus writes it
    severity: str
    summary: str
    advice: str


ALERTS = (
    Alert(
        "KafkaBrokerDown",
        'up{job="JOB"} == 0',
        "1m",
        _CRITICAL,
        "{{ $labels.instance }} does not answer.",
        "The broker has stopped, hangs, or its HTTP address cannot be reached from Prometheus.",
    ),
    Alert(
        "KafkaControllerCount",
        "sum by (job) (kafka_controller_kafkacontroller_activecontrollercount) != 1",
        "1m",
        _CRITICAL,
        "{{ $value }} brokers are controller, and it has to be one.",
        "Without a controller no leader is elected and no topic made. Look at the brokers' logs, "
        "and at ZooKeeper.",
    ),
    Alert(
        "KafkaPartitionsOffline",
        "sum by (job) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "1m",
        _CRITICAL,
        "{{ $value }} partitions have no leader.",
        "Nobody can write to them or read them. Start the brokers that have their replicas; "
        "`kbroker cluster status --partitions` names them.",
    ),
    Alert(
        "KafkaPartitionsUnderMinIsr",
        "kafka_server_replicamanager_underminisrpartitioncount > 0",
        "1m",
        _CRITICAL,
        "{{ $value }} partitions of {{ $labels.instance }} have fewer replicas in sync than "
        "min.insync.replicas.",
        "Producers with acks=all are refused there. Look for brokers that are down or slow.",
    ),
    Alert(
        "KafkaPartitionsUnderReplicated",
        "kafka_server_replicamanager_underreplicatedpartitions > 0",
        "5m",
        _WARNING,
        "{{ $value }} partitions of {{ $labels.instance }} lack replicas that are in sync.",
        "One more failure may make them unavailable. Look for brokers that are down or slow; "
        "/api/events says why an ISR has shrunk.",
    ),
    Alert(
        "KafkaLogDirectoryOffline",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "0m",
        _CRITICAL,
        "{{ $value }} data directories of {{ $labels.instance }} are offline.",
        "The disk has failed; the broker's log says how. It takes the directory again at its next "
        "start.",
    ),
    Alert(
        "KafkaUncleanElection",
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total[15m]) > 0",
        "0m",
        _CRITICAL,
        "A replica leads that was not in sync.",
        "Records that it lacked are lost, although their producers had an acknowledgement.",
    ),
    Alert(
        "KafkaFollowerFailed",
        "kafka_server_replicafetchermanager_failedpartitionscount > 0",
        "5m",
        _WARNING,
        "{{ $labels.instance }} cannot follow the leaders of {{ $value }} partitions.",
        "Its log says why.",
    ),
    Alert(
        "KafkaCleanerStuck",
        "kafka_log_logcleanermanager_uncleanable_partitions_count > 0",
        "15m",
        _WARNING,
        "{{ $value }} logs of {{ $labels.instance }} cannot be compacted.",
        "They grow without end. The broker's log says why; `kbroker log verify` looks at the "
        "files.",
    ),
    Alert(
        "KafkaProduceFails",
        'sum by (job, topic) (rate(kafka_server_brokertopicmetrics_failedproducerequests_total{'
        'topic!=""}[5m])) > 0',
        "5m",
        _WARNING,
        "Producers of {{ $labels.topic }} are refused.",
        "`kbroker trace --topic` with `--code '*'` shows who is, and with which error.",
    ),
    Alert(
        "KafkaRequestsSlow",
        "histogram_quantile(0.99, sum by (job, instance, le) (rate("
        'kbroker_kafka_network_requestmetrics_totaltime_seconds_bucket{request="Produce"}[5m]'
        "))) > 1",
        "10m",
        _WARNING,
        "A hundredth of the Produce requests to {{ $labels.instance }} take longer than "
        "{{ $value | humanizeDuration }}.",
        "With acks=all they wait for followers. `kbroker trace --slower-than 1000` shows them.",
    ),
    Alert(
        "KafkaBrokerBusy",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent < 0.1",
        "10m",
        _WARNING,
        "The event loop of {{ $labels.instance }} is idle for {{ $value | humanizePercentage }} "
        "of the time.",
        "It is at its limit: requests wait for each other. Move leaders to other brokers, or add "
        "one.",
    ),
    Alert(
        "KafkaGroupStuck",
        f"{_GROUP_LAG} > 0 and "
        "sum by (job, consumergroup, topic) "
        "(changes(kafka_consumergroup_current_offset_sum[15m])) == 0",
        "5m",
        _WARNING,
        "Group {{ $labels.consumergroup }} has {{ $value }} records of {{ $labels.topic }} before "
        "it and commits nothing.",
        "Its consumers are gone, or hang at a record. `kbroker group describe --members` shows "
        "them; delete a group that is no longer used.",
    ),
    Alert(
        "KafkaGroupFallsBehind",
        "sum by (job, consumergroup, topic) (min_over_time(kafka_consumergroup_lag_sum[15m])) "
        "> 1000 and "
        "sum by (job, consumergroup, topic) (deriv(kafka_consumergroup_lag_sum[15m])) > 0",
        "15m",
        _WARNING,
        "Group {{ $labels.consumergroup }} falls behind the producers of {{ $labels.topic }}.",
        "It needs more or quicker consumers, up to one for each partition.",
    ),
    Alert(
        "KafkaTransactionHangs",
        f"{_LSO_LAG} > 0 and {_PARTITION} "
        f"delta((kafka_topic_partition_current_offset - {_PARTITION} {_LSO_LAG})[15m:1m]) == 0",
        "5m",
        _WARNING,
        "A transaction has been open in {{ $labels.topic }}-{{ $labels.partition }} for a quarter "
        "of an hour.",
        "Consumers of committed records get none behind it. `kbroker txn find-hanging` finds it.",
    ),
    Alert(
        "KafkaDescriptorsLow",
        "process_open_fds / process_max_fds > 0.85 and on (job, instance) "
        "kafka_server_kafkaserver_brokerstate",
        "5m",
        _WARNING,
        "{{ $labels.instance }} uses {{ $value | humanizePercentage }} of its file descriptors.",
        "Raise the limit (ulimit -n), or have fewer partitions and connections on this broker.",
    ),
    Alert(
        "KafkaConnectionsRejected",
        "increase(kbroker_network_socketserver_connectionsrejected_total[5m]) > 0",
        "0m",
        _WARNING,
        "{{ $labels.instance }} turns connections away.",
        "max.connections or max.connections.per.ip is reached: a client opens more and more.",
    ),
    Alert(
        "KafkaBrokerBug",
        "increase(kbroker_apis_kafkaapis_bugs_total[15m]) > 0",
        "0m",
        _WARNING,
        "{{ $labels.instance }} has answered UNKNOWN_SERVER_ERROR because of a bug.",
        "Its log has the traceback.",
    ),
    Alert(
        "KafkaMetricsIncomplete",
        "kbroker_metrics_page_partitionsleftout > 0",
        "15m",
        _INFO,
        "{{ $value }} partitions of {{ $labels.instance }} are missing in its metrics.",
        "Raise kbroker.metrics.partitions, or scrape the topics that matter with ?topic=.",
    ),
)  # fmt: skip


def text_of(alerts: Iterable[Alert], job: str) -> str:
    """The file of rules, in YAML; `job` is the name of the job that scrapes the brokers."""
    lines = ["groups:", "  - name: kbroker", "    rules:"]
    for alert in alerts:
        lines += [
            f"      - alert: {alert.name}",
            "        expr: |-",
            f"          {alert.expr.replace('JOB', _escaped(job))}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.advice)}",
        ]
    return "\n".join(lines) + "\n"


def _escaped(job: str) -> str:
    return json.dumps(job, ensure_ascii=False)[1:-1]
