"""ZkConfig: the ZooKeeper ensemble, when there is one."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Password, config_group, define


@config_group
class ZkConfig(ConfigGroup):
    """The ZooKeeper ensemble, when there is one."""

    zookeeper_connect: str | None = define(
        None,
        "Ensemble as host:port,host:port/chroot; "
        "without it the metadata tree is inside the broker.",
        importance="high",
    )
    zookeeper_session_timeout_ms: int = define(
        18_000, "Session time limit in ZooKeeper.", importance="high"
    )
    zookeeper_connection_timeout_ms: int | None = define(
        None, "Time limit to connect; falls back to the session's.", importance="high"
    )
    zookeeper_set_acl: bool = define(
        False,
        "Nodes of the tree are for those who log in as the brokers do, some even to read.",
        importance="high",
    )
    zookeeper_max_in_flight_requests: int = define(
        10, "Requests sent to ZooKeeper before an answer.", at_least=1, importance="high"
    )
    zookeeper_ssl_client_enable: bool = define(False, "Speak TLS to ZooKeeper.")
    zookeeper_ssl_keystore_location: str | None = define(
        None, "PEM file with the key and the certificate that ZooKeeper is shown."
    )
    zookeeper_ssl_keystore_password: Password | None = define(
        None, "Pass phrase of the key in that file."
    )
    zookeeper_ssl_keystore_type: str | None = define(
        None, "Format of that file: PEM; without it the name says so."
    )
    zookeeper_ssl_truststore_location: str | None = define(
        None,
        "PEM file with the authorities of ZooKeeper's certificate; without it those of the system.",
    )
    zookeeper_ssl_truststore_password: Password | None = define(
        None, "Password of that file; PEM has none."
    )
    zookeeper_ssl_truststore_type: str | None = define(
        None, "Format of that file: PEM; without it the name says so."
    )
    zookeeper_ssl_protocol: str = define(
        "TLSv1.2", "TLS version for ZooKeeper; where it is not set, TLSv1.3 too.", importance="low"
    )
    zookeeper_ssl_enabled_protocols: tuple[str, ...] | None = define(
        None, "TLS versions allowed for ZooKeeper.", importance="low"
    )
    zookeeper_ssl_cipher_suites: tuple[str, ...] | None = define(
        None, "Cipher suites allowed for ZooKeeper.", importance="low"
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = define(
        "HTTPS", "HTTPS: the certificate must be made for ZooKeeper's host name.", importance="low"
    )
    zookeeper_ssl_crl_enable: bool = define(
        False,
        "Check revocation lists of ZooKeeper's certificate; refused, as nothing here does.",
        importance="low",
    )
    zookeeper_ssl_ocsp_enable: bool = define(
        False,
        "Check ZooKeeper's certificate with OCSP; refused, as nothing here does.",
        importance="low",
    )
