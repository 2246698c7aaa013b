"""SecurityConfig: authorization, principals, delegation tokens and stored secrets.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import ConfigType


@config_group
class SecurityConfig(ConfigGroup):
    """Authorization, principals, delegation tokens and stored secrets."""

    authorizer_class_name: str = define(
        "", "Class that decides who may do what.", importance="low", support="not yet"
    )
    principal_builder_class: str = define(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Class that names the user of a connection.",
        type=ConfigType.CLASS,
        dynamic="per-broker",
        support="not yet",
    )
    security_inter_broker_protocol: str = define(
        "PLAINTEXT",
        "Security protocol between brokers when no listener is named for them.",
        one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    security_providers: str | None = define(
        None, "Java security providers.", importance="low", support="accepted"
    )
    connections_max_reauth_ms: int = define(
        0,
        "A login must be renewed within this time; 0 for never.",
        type=ConfigType.LONG,
        support="not yet",
    )
    delegation_token_master_key: str | None = define(
        None,
        "Former name of delegation.token.secret.key.",
        type=ConfigType.PASSWORD,
        support="not yet",
    )
    delegation_token_secret_key: str | None = define(
        None, "Secret that signs delegation tokens.", type=ConfigType.PASSWORD, support="not yet"
    )
    delegation_token_max_lifetime_ms: int = define(
        604_800_000,
        "Longest life of a delegation token.",
        type=ConfigType.LONG,
        at_least=1,
        support="not yet",
    )
    delegation_token_expiry_time_ms: int = define(
        86_400_000,
        "Life of a delegation token unless renewed.",
        type=ConfigType.LONG,
        at_least=1,
        support="not yet",
    )
    delegation_token_expiry_check_interval_ms: int = define(
        3_600_000,
        "How often expired tokens are removed.",
        type=ConfigType.LONG,
        at_least=1,
        importance="low",
        support="not yet",
    )
    password_encoder_secret: str | None = define(
        None,
        "Secret that encrypts passwords in dynamic settings.",
        type=ConfigType.PASSWORD,
        support="not yet",
    )
    password_encoder_old_secret: str | None = define(
        None, "The secret before it was changed.", type=ConfigType.PASSWORD, support="not yet"
    )
    password_encoder_keyfactory_algorithm: str | None = define(
        None, "Key derivation for these passwords.", importance="low", support="not yet"
    )
    password_encoder_cipher_algorithm: str = define(
        "AES/CBC/PKCS5Padding", "Cipher for these passwords.", importance="low", support="not yet"
    )
    password_encoder_key_length: int = define(
        128,
        "Key length for these passwords, in bits.",
        at_least=8,
        importance="low",
        support="not yet",
    )
    password_encoder_iterations: int = define(
        4096,
        "Iterations of the key derivation.",
        at_least=1024,
        importance="low",
        support="not yet",
    )
