"""SslConfig: TLS of the listeners."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Facts, Password, config_group, define


@config_group
class SslConfig(ConfigGroup):
    """TLS of the listeners."""

    common = Facts(dynamic="per-broker")

    ssl_keystore_location: str | None = define(
        None, "PEM file with the broker's key and certificate, read again when it changes."
    )
    ssl_keystore_password: Password | None = define(
        None, "Password of a key store file that only Java reads."
    )
    ssl_keystore_type: str = define("JKS", "Format of the key store: only PEM is served.")
    ssl_keystore_key: Password | None = define(None, "Private key as PEM text.")
    ssl_keystore_certificate_chain: Password | None = define(None, "Certificate chain as PEM text.")
    ssl_key_password: Password | None = define(None, "Password of the private key.")
    ssl_truststore_location: str | None = define(None, "File with the trusted certificates.")
    ssl_truststore_password: Password | None = define(
        None, "Password of a trust store file that only Java reads."
    )
    ssl_truststore_type: str = define("JKS", "Format of the trust store: only PEM is served.")
    ssl_truststore_certificates: Password | None = define(None, "Trusted certificates as PEM text.")
    ssl_client_auth: str = define(
        "none",
        "Whether clients show a certificate: required, requested or none.",
        one_of=("required", "requested", "none"),
    )
    ssl_protocol: str = define(
        "TLSv1.3", "Java's choice of a TLS implementation.", support="accepted"
    )
    ssl_enabled_protocols: tuple[str, ...] = define(("TLSv1.2", "TLSv1.3"), "TLS versions allowed.")
    ssl_cipher_suites: tuple[str, ...] = define(
        (), "Cipher suites allowed; empty for the library's choice."
    )
    ssl_endpoint_identification_algorithm: str = define(
        "https",
        "Whether the other side's host name is checked.",
        importance="low",
    )
    ssl_principal_mapping_rules: str = define(
        "DEFAULT",
        "How a certificate's name becomes a principal.",
        importance="low",
        dynamic="read-only",
    )
    ssl_allow_dn_changes: bool = define(
        False,
        "Allow another distinguished name in a reloaded certificate.",
        importance="low",
        dynamic="read-only",
    )
    ssl_allow_san_changes: bool = define(
        False,
        "Allow other alternative names in a reloaded certificate.",
        importance="low",
        dynamic="read-only",
    )
