"""SecurityConfig: authorization, principals, delegation tokens and stored secrets."""

from __future__ import annotations

from kbroker.config.config_def import (
    ConfigGroup,
    JavaClass,
    Long,
    Password,
    config_group,
    define,
)


@config_group
class SecurityConfig(ConfigGroup):
    """Authorization, principals, delegation tokens and stored secrets."""

    authorizer_class_name: str = define(
        "",
        "Kafka's AclAuthorizer or StandardAuthorizer: access by rules in the tree, see Security; "
        "or one of your own, as module:name; empty: all may do all.",
        importance="low",
    )
    principal_builder_class: JavaClass = define(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Function of Python that names the user of a connection, as module:name.",
        dynamic="per-broker",
    )
    security_inter_broker_protocol: str = define(
        "PLAINTEXT",
        "Security protocol between brokers when no listener is named for them.",
        one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    connections_max_reauth_ms: Long = define(
        0, "A login must be renewed within this time; 0 for never."
    )
    delegation_token_master_key: Password | None = define(
        None, "Former name of delegation.token.secret.key."
    )
    delegation_token_secret_key: Password | None = define(
        None, "Secret that signs delegation tokens."
    )
    delegation_token_max_lifetime_ms: Long = define(
        604_800_000, "Longest life of a delegation token.", at_least=1
    )
    delegation_token_expiry_time_ms: Long = define(
        86_400_000, "Life of a delegation token unless renewed.", at_least=1
    )
    delegation_token_expiry_check_interval_ms: Long = define(
        3_600_000, "How often expired tokens are removed.", at_least=1, importance="low"
    )
    password_encoder_secret: Password | None = define(
        None, "Secret that encrypts passwords in dynamic settings."
    )
    password_encoder_old_secret: Password | None = define(None, "The secret before it was changed.")
    password_encoder_keyfactory_algorithm: str | None = define(
        None,
        "Key derivation for these passwords.",
        importance="low",
    )
    password_encoder_cipher_algorithm: str = define(
        "AES/CBC/PKCS5Padding",
        "Cipher for these passwords.",
        importance="low",
    )
    password_encoder_key_length: int = define(
        128,
        "Key length for these passwords, in bits.",
        at_least=8,
        importance="low",
    )
    password_encoder_iterations: int = define(
        4096,
        "Iterations of the key derivation.",
        at_least=1024,
        importance="low",
    )

    @property
    def secret_of_tokens(self) -> Password | None:
        """The secret of delegation tokens, by its present or former name; none if they are off."""
        secret = self.delegation_token_secret_key
        return self.delegation_token_master_key if secret is None else secret
