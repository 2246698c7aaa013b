"""SaslConfig: SASL logins of the listeners. Those of Kerberos are declared and not served:
listeners that offer GSSAPI are refused.
"""

from __future__ import annotations

from kbroker.config.config_def import (
    ConfigGroup,
    JavaClass,
    Long,
    Password,
    Short,
    config_group,
    define,
)


@config_group
class SaslConfig(ConfigGroup):
    """SASL logins of the listeners."""

    sasl_enabled_mechanisms: tuple[str, ...] = define(
        ("GSSAPI",), "SASL mechanisms offered.", dynamic="per-broker"
    )
    sasl_jaas_config: Password | None = define(
        None, "Login entry in JAAS form.", dynamic="per-broker"
    )
    sasl_mechanism_inter_broker_protocol: str = define(
        "GSSAPI", "Mechanism brokers use among themselves.", dynamic="per-broker"
    )
    sasl_server_callback_handler_class: JavaClass | None = define(
        None, "Function of Python that checks logins by PLAIN, or tokens, as module:name."
    )
    sasl_server_max_receive_size: int = define(
        524_288, "Largest login message accepted; 64 KiB unless it is set."
    )
    sasl_login_callback_handler_class: JavaClass | None = define(
        None, "One of Kafka's classes that fetch tokens, which is built in."
    )
    sasl_login_connect_timeout_ms: int | None = define(
        None, "Time limit to connect to a token server.", importance="low"
    )
    sasl_login_read_timeout_ms: int | None = define(
        None, "Time limit to read from a token server.", importance="low"
    )
    sasl_login_refresh_window_factor: float = define(
        0.8, "Share of a credential's life after which it is renewed.", dynamic="per-broker"
    )
    sasl_login_refresh_window_jitter: float = define(
        0.05, "Random part added to that share.", dynamic="per-broker"
    )
    sasl_login_refresh_min_period_seconds: Short = define(
        60, "Shortest time between two renewals.", dynamic="per-broker"
    )
    sasl_login_refresh_buffer_seconds: Short = define(
        300, "Time before expiry kept free for a renewal.", dynamic="per-broker"
    )
    sasl_login_retry_backoff_ms: Long = define(
        100, "First wait between token requests.", importance="low"
    )
    sasl_login_retry_backoff_max_ms: Long = define(
        10_000, "Longest wait between token requests.", importance="low"
    )
    sasl_kerberos_service_name: str | None = define(
        None,
        "Kerberos name the broker runs under; listeners that offer GSSAPI are refused.",
        dynamic="per-broker",
        support="accepted",
    )
    sasl_kerberos_kinit_cmd: str = define(
        "/usr/bin/kinit", "Path of kinit.", dynamic="per-broker", support="accepted"
    )
    sasl_kerberos_ticket_renew_window_factor: float = define(
        0.8,
        "Share of a ticket's life after which it is renewed.",
        dynamic="per-broker",
        support="accepted",
    )
    sasl_kerberos_ticket_renew_jitter: float = define(
        0.05, "Random part added to that share.", dynamic="per-broker", support="accepted"
    )
    sasl_kerberos_min_time_before_relogin: Long = define(
        60_000,
        "Shortest time between two Kerberos logins.",
        dynamic="per-broker",
        support="accepted",
    )
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = define(
        ("DEFAULT",),
        "How Kerberos principals become short names.",
        dynamic="per-broker",
        support="accepted",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = define(
        None, "Where the token issuer's keys are read: https: or file:."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Long = define(
        3_600_000, "How often these keys are read again.", importance="low"
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Long = define(
        100, "First wait between attempts to read them.", importance="low"
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Long = define(
        10_000, "Longest wait between these attempts.", importance="low"
    )
    sasl_oauthbearer_token_endpoint_url: str | None = define(
        None, "Where this broker fetches tokens for logins at others."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = define(
        None, "Audiences a token may name.", importance="low"
    )
    sasl_oauthbearer_expected_issuer: str | None = define(
        None, "Issuer a token must name.", importance="low"
    )
    sasl_oauthbearer_clock_skew_seconds: int = define(
        30, "Clock difference tolerated in tokens.", importance="low"
    )
    sasl_oauthbearer_scope_claim_name: str = define(
        "scope", "Claim that holds the scope.", importance="low"
    )
    sasl_oauthbearer_sub_claim_name: str = define(
        "sub", "Claim that holds the user.", importance="low"
    )
