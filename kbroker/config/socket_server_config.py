"""SocketServerConfig: listeners, connections and the request queue."""

from __future__ import annotations

from kbroker.config.config_checks import connections_per_ip
from kbroker.config.config_def import ConfigGroup, Long, config_group, define
from kbroker.config.config_values import MAX_INT

KAFKAS_SEND_BUFFER_BYTES = 102_400  # also written in the properties file that Kafka ships


@config_group
class SocketServerConfig(ConfigGroup):
    """Listeners, connections and the request queue."""

    listeners: str = define(
        "PLAINTEXT://:9092",
        "Addresses to listen on, NAME://host:port, comma separated.",
        importance="high",
        dynamic="per-broker",
    )
    advertised_listeners: str | None = define(
        None,
        "Addresses given to clients; without it, those of `listeners`.",
        importance="high",
        dynamic="per-broker",
    )
    listener_security_protocol_map: str = define(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name.",
        importance="low",
        dynamic="per-broker",
    )
    inter_broker_listener_name: str | None = define(
        None, "Listener that brokers use among themselves."
    )
    control_plane_listener_name: str | None = define(
        None, "Own listener for the controller's requests.", importance="high"
    )
    socket_send_buffer_bytes: int = define(
        KAFKAS_SEND_BUFFER_BYTES,
        "SO_SNDBUF of client connections; -1 leaves it to the system. The default grows for "
        "clients that fetch large answers, any other value is fixed.",
        importance="high",
    )
    socket_receive_buffer_bytes: int = define(
        102_400, "SO_RCVBUF of client connections; -1 leaves it to the system.", importance="high"
    )
    socket_request_max_bytes: int = define(
        104_857_600,
        "Largest request accepted; a larger size closes the connection.",
        at_least=1,
        importance="high",
    )
    socket_listen_backlog_size: int = define(
        50, "Connections the system may hold before they are accepted.", at_least=1
    )
    max_connections: int = define(
        MAX_INT, "Connections the broker holds at once.", at_least=0, dynamic="cluster-wide"
    )
    max_connections_per_ip: int = define(
        MAX_INT, "Connections one address may hold.", at_least=0, dynamic="cluster-wide"
    )
    max_connections_per_ip_overrides: str = define(
        "",
        "Other limits for some addresses, host:count, comma separated.",
        check=connections_per_ip,
        dynamic="cluster-wide",
    )
    max_connection_creation_rate: int = define(
        MAX_INT,
        "New connections accepted per second, or at one listener.",
        at_least=0,
        dynamic="cluster-wide",
    )
    connections_max_idle_ms: Long = define(
        600_000, "A connection without requests for this long is closed."
    )
    connection_failed_authentication_delay_ms: int = define(
        100,
        "Wait before a failed login is answered.",
        at_least=0,
        importance="low",
    )
    queued_max_requests: int = define(
        500,
        "Requests that may wait for a handler before reading stops.",
        at_least=1,
        importance="high",
    )
    queued_max_request_bytes: Long = define(
        -1, "Bytes of requests that are being received before larger ones wait; -1 for 64 MiB."
    )
    num_io_threads: int = define(
        8,
        "Requests handled at the same time.",
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
    )
    request_timeout_ms: int = define(
        30_000, "How long replicas may take to store the end of a transaction.", importance="high"
    )
    max_request_partition_size_limit: int = define(
        2000, "Partitions described in one DescribeTopicPartitions answer.", at_least=1
    )
