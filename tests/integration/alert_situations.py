"""Series in which every alert is silent, and for each alert those that plant its situation: half an
hour of samples in promtool's notation, a minute apart.
"""

from __future__ import annotations

from typing import Any

_ONE = 'job="kbroker",instance="one"'
_PLACE = f'{_ONE},topic="t",partition="0"'
_OF_GROUP = f'{_ONE},consumergroup="g",topic="t"'
_TIMES = "kbroker_kafka_network_requestmetrics_totaltime_seconds_bucket"
_PRODUCE_TIMES = f'{_TIMES}{{{_ONE},request="Produce",le='

UP = f"up{{{_ONE}}}"
CONTROLLERS = f"kafka_controller_kafkacontroller_activecontrollercount{{{_ONE}}}"
OFFLINE = f"kafka_controller_kafkacontroller_offlinepartitionscount{{{_ONE}}}"
UNDER_MIN_ISR = f"kafka_server_replicamanager_underminisrpartitioncount{{{_ONE}}}"
UNDER_REPLICATED = f"kafka_server_replicamanager_underreplicatedpartitions{{{_ONE}}}"
DISKS = f"kafka_log_logmanager_offlinelogdirectorycount{{{_ONE}}}"
UNCLEAN = f"kafka_controller_controllerstats_uncleanleaderelections_total{{{_ONE}}}"
FAILED = f"kafka_server_replicafetchermanager_failedpartitionscount{{{_ONE}}}"
UNCLEANABLE = f"kafka_log_logcleanermanager_uncleanable_partitions_count{{{_ONE}}}"
REFUSED = f'kafka_server_brokertopicmetrics_failedproducerequests_total{{{_ONE},topic="t"}}'
QUICK, ALL_TIMES = f'{_PRODUCE_TIMES}"0.5"}}', f'{_PRODUCE_TIMES}"+Inf"}}'
SLOW = f'{_PRODUCE_TIMES}"2.0"}}'
IDLE = f"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{{_ONE}}}"
LAG = f"kafka_consumergroup_lag_sum{{{_OF_GROUP}}}"
COMMITTED = f"kafka_consumergroup_current_offset_sum{{{_OF_GROUP}}}"
UNCOMMITTED = f"kafka_cluster_partition_laststableoffsetlag{{{_PLACE}}}"
END = f"kafka_topic_partition_current_offset{{{_PLACE}}}"
OPEN, MOST_OPEN = f"process_open_fds{{{_ONE}}}", f"process_max_fds{{{_ONE}}}"
STATE = f"kafka_server_kafkaserver_brokerstate{{{_ONE}}}"
REJECTED = f"kbroker_network_socketserver_connectionsrejected_total{{{_ONE}}}"
BUGS = f"kbroker_apis_kafkaapis_bugs_total{{{_ONE}}}"
LEFT_OUT = f"kbroker_metrics_page_partitionsleftout{{{_ONE}}}"

_NONE, _SOME, _MORE = "0x30", "3x30", "0+1x30"
_LATE = "0x20 1x10"  # once, ten minutes ago

SOUND = {
    **dict.fromkeys(
        (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, DISKS, UNCLEAN, FAILED, UNCLEANABLE, REFUSED,
         REJECTED, BUGS, LEFT_OUT), _NONE,
    ),
    **dict.fromkeys((UP, CONTROLLERS), "1x30"),
    **dict.fromkeys((QUICK, SLOW, ALL_TIMES), _MORE),
    IDLE: "0.5x30",
    LAG: "5x30",  # as long as it commits, some lag is no trouble
    COMMITTED: _MORE,
    UNCOMMITTED: "5x30",  # one transaction after the other
    END: _MORE,
    OPEN: "100x30",
    MOST_OPEN: "1000x30",
    STATE: _SOME,
}  # fmt: skip

PLANTED = {
    "KafkaBrokerDown": {UP: _NONE},
    "KafkaControllerCount": {CONTROLLERS: _NONE},
    "KafkaPartitionsOffline": {OFFLINE: _SOME},
    "KafkaPartitionsUnderMinIsr": {UNDER_MIN_ISR: _SOME},
    "KafkaPartitionsUnderReplicated": {UNDER_REPLICATED: _SOME},
    "KafkaLogDirectoryOffline": {DISKS: "0x27 1x3"},
    "KafkaUncleanElection": {UNCLEAN: _LATE},
    "KafkaFollowerFailed": {FAILED: _SOME},
    "KafkaCleanerStuck": {UNCLEANABLE: _SOME},
    "KafkaProduceFails": {REFUSED: _MORE},
    "KafkaRequestsSlow": {QUICK: _NONE},
    "KafkaBrokerBusy": {IDLE: "0.05x30"},
    "KafkaGroupStuck": {COMMITTED: "7x30"},
    "KafkaGroupFallsBehind": {LAG: "2000+10x30"},
    "KafkaTransactionHangs": {UNCOMMITTED: "5+1x30", END: "100+1x30"},
    "KafkaDescriptorsLow": {OPEN: "900x30"},
    "KafkaConnectionsRejected": {REJECTED: _MORE},
    "KafkaBrokerBug": {BUGS: _LATE},
    "KafkaMetricsIncomplete": {LEFT_OUT: _SOME},
}


def situations(rules_file: str) -> dict[str, Any]:
    """The file for `promtool test rules`: each situation sets off its own alert and no other."""
    each: list[tuple[str, dict[str, str]]] = [("", {}), *PLANTED.items()]
    return {
        "rule_files": [rules_file],
        "evaluation_interval": "1m",
        "tests": [_test(name, {**SOUND, **planted}) for name, planted in each],
    }


def _test(alert: str, series: dict[str, str]) -> dict[str, Any]:
    firing = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    return {
        "name": alert or "sound",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "30m",
                "exp_samples": firing,
            }
        ],
    }
