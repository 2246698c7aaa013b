"""Why a name is shown by one side only: the written list of what differs."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from compat_tests.metrics.pages import Shown


class Reason(NamedTuple):
    """A reason, and the names it is for: with a star for any rest, and with the names of labels in
    braces if others of the name have no difference.
    """

    why: str
    names: str

    def explains(self, shown: Shown) -> bool:
        """Whether it is for this kind of series."""
        whole = f"{shown.name}{{{','.join(shown.labels)}}}"
        return any(
            fnmatchcase(whole if "{" in name else shown.name, name) for name in self.names.split()
        )


NOT_IN_KBROKER: tuple[Reason, ...] = (
    Reason("there is no JVM", "jvm_* jmx_* kafka_server_kafkaserver_yammer_metrics_count"),
    Reason(
        "the controller's events and its requests to brokers are not timed, only counted as they "
        "wait",
        "kafka_controller_controllerstats_*rateandtimems* "
        "kafka_controller_controllereventmanager_eventqueuetimems* "
        "kafka_controller_controllerchannelmanager_queuesize "
        "kafka_controller_controllerchannelmanager_requestrateandqueuetimems* "
        "kafka_controller_kafkacontroller_controllerstate",
    ),
    Reason("there is no migration to KRaft", "kafka_controller_kafkacontroller_zkmigrationstate"),
    Reason(
        "not measured",
        "kafka_log_logflushstats_logflushrateandtimems* "
        "kafka_log_logcleaner_max_buffer_utilization_percent "
        "kafka_log_logcleaner_max_compaction_delay_secs "
        "kafka_log_logcleanermanager_max_dirty_percent "
        "kafka_log_logcleanermanager_time_since_last_run_ms "
        "kafka_utils_throttler_cleaner_io_count_total "
        "kafka_network_requestmetrics_messageconversionstimems* "
        "kafka_network_requestmetrics_requestbytes* "
        "kafka_network_requestmetrics_temporarymemorybytes* "
        "kafka_network_requestmetrics_throttletimems* "
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_* "
        "kafka_server_addpartitionstotxnmanager_* "
        "kafka_server_delayed*metrics_expires_total "
        "kafka_server_replicaalterlogdirsmanager_* "
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
    ),
    Reason(
        "there are no such threads",
        "kafka_log_logcleaner_deadthreadcount kafka_server_replicafetchermanager_deadthreadcount "
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count_total "
        "kafka_network_socketserver_controlplane*",
    ),
    Reason(
        "sessions of logins that run out are in the log, not counted",
        "kafka_network_socketserver_expiredconnectionskilledcount",
    ),
    Reason(
        "refusals are counted by their error, in kafka_network_requestmetrics_errors_total",
        "kafka_server_brokertopicmetrics_invalid* "
        "kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total",
    ),
    Reason(
        "replicas that move are counted with all others",
        "kafka_server_brokertopicmetrics_reassignmentbytes*",
    ),
    Reason(
        "the example's rules put several properties into the name of a label",
        "kafka_server_fetcherstats_* "
        "kafka_network_requestmetrics_deprecatedrequests_total{clientSoftwareVersion,*}",
    ),
)

NOT_IN_APACHE: tuple[Reason, ...] = (
    Reason(
        "names of kafka_exporter, which runs beside Apache Kafka",
        "kafka_brokers kafka_broker_info kafka_topic_partitions kafka_topic_partition_* "
        "kafka_consumergroup_*",
    ),
    Reason(
        "names that the rules of Strimzi make, and the example does not",
        "kafka_server_socket_server_metrics_* kafka_network_processor_idle_percent "
        "kafka_network_socketserver_networkprocessoravgidle_percent",
    ),
    Reason(
        "Apache Kafka shows them once there is one to count",
        "kafka_server_brokertopicmetrics_bytesrejected_total{topic} "
        "kafka_server_brokertopicmetrics_failed*requests_total{topic}",
    ),
    Reason(
        "labels that can be asked for",
        "kafka_network_requestmetrics_deprecatedrequests_total{request,version}",
    ),
    Reason("names that came with consumer groups", "kafka_server_group_coordinator_metrics_*"),
    Reason("names of Confluent's server", "kafka_server_replicamanager_straypartitions*"),
    Reason("kbroker's own", "kbroker_* python_gc_collections_total"),
)
