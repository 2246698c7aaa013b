"""SslConfig: TLS of the listeners.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import ConfigType


@config_group
class SslConfig(ConfigGroup):
    """TLS of the listeners."""

    ssl_keystore_location: str | None = define(
        None, "File with the broker's key and certificate.", dynamic="per-broker", support="not yet"
    )
    ssl_keystore_password: str | None = define(
        None,
        "Password of the key store file.",
        type=ConfigType.PASSWORD,
        dynamic="per-broker",
        support="not yet",
    )
    ssl_keystore_type: str = define(
        "JKS",
        "Format of the key store: JKS, PKCS12 or PEM.",
        dynamic="per-broker",
        support="not yet",
    )
    ssl_keystore_key: str | None = define(
        None,
        "Private key as PEM text.",
        type=ConfigType.PASSWORD,
        dynamic="per-broker",
        support="not yet",
    )
    ssl_keystore_certificate_chain: str | None = define(
        None,
        "Certificate chain as PEM text.",
        type=ConfigType.PASSWORD,
        dynamic="per-broker",
        support="not yet",
    )
    ssl_key_password: str | None = define(
        None,
        "Password of the private key.",
        type=ConfigType.PASSWORD,
        dynamic="per-broker",
        support="not yet",
    )
    ssl_truststore_location: str | None = define(
        None, "File with the trusted certificates.", dynamic="per-broker", support="not yet"
    )
    ssl_truststore_password: str | None = define(
        None,
        "Password of the trust store file.",
        type=ConfigType.PASSWORD,
        dynamic="per-broker",
        support="not yet",
    )
    ssl_truststore_type: str = define(
        "JKS",
        "Format of the trust store: JKS, PKCS12 or PEM.",
        dynamic="per-broker",
        support="not yet",
    )
    ssl_truststore_certificates: str | None = define(
        None,
        "Trusted certificates as PEM text.",
        type=ConfigType.PASSWORD,
        dynamic="per-broker",
        support="not yet",
    )
    ssl_client_auth: str = define(
        "none",
        "Whether clients show a certificate: required, requested or none.",
        one_of=("required", "requested", "none"),
        dynamic="per-broker",
        support="not yet",
    )
    ssl_protocol: str = define(
        "TLSv1.3", "TLS version to start from.", dynamic="per-broker", support="not yet"
    )
    ssl_enabled_protocols: tuple[str, ...] = define(
        ("TLSv1.2", "TLSv1.3"), "TLS versions allowed.", dynamic="per-broker", support="not yet"
    )
    ssl_cipher_suites: tuple[str, ...] = define(
        (),
        "Cipher suites allowed; empty for the library's choice.",
        dynamic="per-broker",
        support="not yet",
    )
    ssl_endpoint_identification_algorithm: str = define(
        "https",
        "Whether the other side's host name is checked.",
        importance="low",
        dynamic="per-broker",
        support="not yet",
    )
    ssl_principal_mapping_rules: str = define(
        "DEFAULT",
        "How a certificate's name becomes a principal.",
        importance="low",
        support="not yet",
    )
    ssl_provider: str | None = define(
        None, "Java security provider.", dynamic="per-broker", support="accepted"
    )
    ssl_keymanager_algorithm: str = define(
        "SunX509", "Java key manager algorithm.", dynamic="per-broker", support="accepted"
    )
    ssl_trustmanager_algorithm: str = define(
        "PKIX", "Java trust manager algorithm.", dynamic="per-broker", support="accepted"
    )
    ssl_secure_random_implementation: str | None = define(
        None,
        "Java random number generator.",
        importance="low",
        dynamic="per-broker",
        support="accepted",
    )
    ssl_engine_factory_class: str | None = define(
        None,
        "Java class that makes TLS engines.",
        type=ConfigType.CLASS,
        importance="low",
        dynamic="per-broker",
        support="accepted",
    )
    ssl_allow_dn_changes: bool = define(
        False,
        "Allow another distinguished name in a reloaded certificate.",
        importance="low",
        support="not yet",
    )
    ssl_allow_san_changes: bool = define(
        False,
        "Allow other alternative names in a reloaded certificate.",
        importance="low",
        support="not yet",
    )
