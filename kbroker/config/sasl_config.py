"""SaslConfig: SASL logins of the listeners.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import ConfigType


@config_group
class SaslConfig(ConfigGroup):
    """SASL logins of the listeners."""

    sasl_enabled_mechanisms: tuple[str, ...] = define(
        ("GSSAPI",), "SASL mechanisms offered.", dynamic="per-broker", support="not yet"
    )
    sasl_jaas_config: str | None = define(
        None,
        "Login entry in JAAS form.",
        type=ConfigType.PASSWORD,
        dynamic="per-broker",
        support="not yet",
    )
    sasl_mechanism_inter_broker_protocol: str = define(
        "GSSAPI", "Mechanism brokers use among themselves.", dynamic="per-broker", support="not yet"
    )
    sasl_mechanism_controller_protocol: str = define(
        "GSSAPI", "Mechanism towards a KRaft controller.", importance="high", support="accepted"
    )
    sasl_server_callback_handler_class: str | None = define(
        None, "Class that checks logins.", type=ConfigType.CLASS, support="not yet"
    )
    sasl_server_max_receive_size: int = define(
        524_288, "Largest login message accepted.", support="not yet"
    )
    sasl_client_callback_handler_class: str | None = define(
        None,
        "Java class for the client side of a login.",
        type=ConfigType.CLASS,
        support="accepted",
    )
    sasl_login_callback_handler_class: str | None = define(
        None, "Java class that fetches own credentials.", type=ConfigType.CLASS, support="accepted"
    )
    sasl_login_class: str | None = define(
        None, "Java class of the login.", type=ConfigType.CLASS, support="accepted"
    )
    sasl_login_connect_timeout_ms: int | None = define(
        None, "Time limit to connect to a token server.", importance="low", support="not yet"
    )
    sasl_login_read_timeout_ms: int | None = define(
        None, "Time limit to read from a token server.", importance="low", support="not yet"
    )
    sasl_login_refresh_window_factor: float = define(
        0.8,
        "Share of a credential's life after which it is renewed.",
        dynamic="per-broker",
        support="not yet",
    )
    sasl_login_refresh_window_jitter: float = define(
        0.05, "Random part added to that share.", dynamic="per-broker", support="not yet"
    )
    sasl_login_refresh_min_period_seconds: int = define(
        60,
        "Shortest time between two renewals.",
        type=ConfigType.SHORT,
        dynamic="per-broker",
        support="not yet",
    )
    sasl_login_refresh_buffer_seconds: int = define(
        300,
        "Time before expiry kept free for a renewal.",
        type=ConfigType.SHORT,
        dynamic="per-broker",
        support="not yet",
    )
    sasl_login_retry_backoff_ms: int = define(
        100,
        "First wait between token requests.",
        type=ConfigType.LONG,
        importance="low",
        support="not yet",
    )
    sasl_login_retry_backoff_max_ms: int = define(
        10_000,
        "Longest wait between token requests.",
        type=ConfigType.LONG,
        importance="low",
        support="not yet",
    )
    sasl_kerberos_service_name: str | None = define(
        None, "Kerberos name the broker runs under.", dynamic="per-broker", support="not yet"
    )
    sasl_kerberos_kinit_cmd: str = define(
        "/usr/bin/kinit", "Path of kinit.", dynamic="per-broker", support="not yet"
    )
    sasl_kerberos_ticket_renew_window_factor: float = define(
        0.8,
        "Share of a ticket's life after which it is renewed.",
        dynamic="per-broker",
        support="not yet",
    )
    sasl_kerberos_ticket_renew_jitter: float = define(
        0.05, "Random part added to that share.", dynamic="per-broker", support="not yet"
    )
    sasl_kerberos_min_time_before_relogin: int = define(
        60_000,
        "Shortest time between two Kerberos logins.",
        type=ConfigType.LONG,
        dynamic="per-broker",
        support="not yet",
    )
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = define(
        ("DEFAULT",),
        "How Kerberos principals become short names.",
        dynamic="per-broker",
        support="not yet",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = define(
        None, "Where the token issuer's keys are read.", support="not yet"
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = define(
        3_600_000,
        "How often these keys are read again.",
        type=ConfigType.LONG,
        importance="low",
        support="not yet",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = define(
        100,
        "First wait between attempts to read them.",
        type=ConfigType.LONG,
        importance="low",
        support="not yet",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = define(
        10_000,
        "Longest wait between these attempts.",
        type=ConfigType.LONG,
        importance="low",
        support="not yet",
    )
    sasl_oauthbearer_token_endpoint_url: str | None = define(
        None, "Where tokens are fetched.", support="not yet"
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = define(
        None, "Audiences a token may name.", importance="low", support="not yet"
    )
    sasl_oauthbearer_expected_issuer: str | None = define(
        None, "Issuer a token must name.", importance="low", support="not yet"
    )
    sasl_oauthbearer_clock_skew_seconds: int = define(
        30, "Clock difference tolerated in tokens.", importance="low", support="not yet"
    )
    sasl_oauthbearer_scope_claim_name: str = define(
        "scope", "Claim that holds the scope.", importance="low", support="not yet"
    )
    sasl_oauthbearer_sub_claim_name: str = define(
        "sub", "Claim that holds the user.", importance="low", support="not yet"
    )
