"""QuorumConfig: controller requests, and the KRaft settings, which this broker only accepts.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import ConfigType


@config_group
class QuorumConfig(ConfigGroup):
    """Controller requests, and the KRaft settings, which this broker only accepts."""

    controller_socket_timeout_ms: int = define(
        30_000, "Time limit of the controller's requests to brokers."
    )
    process_roles: tuple[str, ...] = define(
        (),
        "KRaft roles; there is no quorum here: a broker is one of the cluster at "
        "zookeeper.connect, else alone.",
        list_of=("broker", "controller"),
        importance="high",
        support="accepted",
    )
    controller_listener_names: str | None = define(
        None, "KRaft: listeners of the controller.", importance="high", support="accepted"
    )
    controller_quorum_voters: tuple[str, ...] = define(
        (), "KRaft: controllers as id@host:port.", importance="high", support="accepted"
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = define(
        (), "KRaft: controllers as host:port.", importance="high", support="accepted"
    )
    controller_quorum_election_timeout_ms: int = define(
        1000, "KRaft: wait before an election.", importance="high", support="accepted"
    )
    controller_quorum_election_backoff_max_ms: int = define(
        1000, "KRaft: longest wait before another election.", importance="high", support="accepted"
    )
    controller_quorum_fetch_timeout_ms: int = define(
        2000,
        "KRaft: wait for the leader before an election.",
        importance="high",
        support="accepted",
    )
    controller_quorum_request_timeout_ms: int = define(
        2000, "KRaft: time limit of a request.", support="accepted"
    )
    controller_quorum_retry_backoff_ms: int = define(
        20, "KRaft: wait before a request is repeated.", importance="low", support="accepted"
    )
    controller_quorum_append_linger_ms: int = define(
        25, "KRaft: wait to gather writes.", support="accepted"
    )
    broker_heartbeat_interval_ms: int = define(
        2000, "KRaft: heartbeat of a broker.", support="accepted"
    )
    broker_session_timeout_ms: int = define(
        9000, "KRaft: a silent broker is fenced after this.", support="accepted"
    )
    initial_broker_registration_timeout_ms: int = define(
        60_000, "KRaft: time limit of the first registration.", support="accepted"
    )
    metadata_log_dir: str | None = define(
        None, "KRaft: directory of the metadata log.", importance="high", support="accepted"
    )
    metadata_log_max_record_bytes_between_snapshots: int = define(
        20_971_520,
        "KRaft: metadata bytes between snapshots.",
        type=ConfigType.LONG,
        at_least=1,
        importance="high",
        support="accepted",
    )
    metadata_log_max_snapshot_interval_ms: int = define(
        3_600_000,
        "KRaft: time between snapshots.",
        type=ConfigType.LONG,
        at_least=0,
        importance="high",
        support="accepted",
    )
    metadata_log_segment_bytes: int = define(
        1_073_741_824,
        "KRaft: segment size of the metadata log.",
        at_least=12,
        importance="high",
        support="accepted",
    )
    metadata_log_segment_min_bytes: int = define(
        8_388_608,
        "KRaft: lower bound of that size.",
        at_least=12,
        importance="high",
        support="accepted",
        internal=True,
    )
    metadata_log_segment_ms: int = define(
        604_800_000,
        "KRaft: age at which its segments roll.",
        type=ConfigType.LONG,
        importance="high",
        support="accepted",
    )
    metadata_max_idle_interval_ms: int = define(
        500, "KRaft: interval of no-op records.", at_least=0, importance="low", support="accepted"
    )
    metadata_max_retention_bytes: int = define(
        104_857_600,
        "KRaft: size of metadata kept.",
        type=ConfigType.LONG,
        importance="high",
        support="accepted",
    )
    metadata_max_retention_ms: int = define(
        604_800_000,
        "KRaft: age of metadata kept.",
        type=ConfigType.LONG,
        importance="high",
        support="accepted",
    )

    def warning(self, zookeeper_connect: str | None) -> str | None:
        """Say what becomes of a node where the quorum has others; None for one that is the whole
        quorum, for it is alone here too.
        """
        servers = self.controller_quorum_voters or self.controller_quorum_bootstrap_servers
        is_alone = "controller" in self.process_roles and len(servers) <= 1
        if not self.process_roles or (is_alone and not zookeeper_connect):
            return None
        place = (
            "is one of the cluster at zookeeper.connect"
            if zookeeper_connect
            else "starts as a cluster of its own; brokers that belong together need "
            "zookeeper.connect"
        )
        return "process.roles has no effect: kbroker has no KRaft quorum, so this broker " + place
