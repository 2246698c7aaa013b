"""TLS and logins, said to both clients of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.client.connection_settings import (
    UNSECURED,
    ConnectionSettings,
    Tls,
    connection_settings,
)
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.sources.connector_security import (
    connector_security,
    settings_of_connector,
)
from kbroker.sasl.login import Login
from kbroker.sasl.oauthbearer import BearerLogin

MODULES = "org.apache.kafka.common.security"
PLAIN_LOGIN = f'{MODULES}.plain.PlainLoginModule required username="ann" password="a;b\\"c";'


def options(**given: str) -> dict[str, str]:
    return {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}


def test_without_such_options_there_is_nothing_to_say() -> None:
    assert settings_of_connector({"kafka.max.poll.records": "9", "minPartitions": "3"}) == UNSECURED
    assert connector_security(UNSECURED) == {}


def test_options_of_the_connector_go_for_the_jobs_own_look_ups() -> None:
    found = settings_of_connector(
        options(security_protocol="sasl_ssl", sasl_mechanism="PLAIN")
        | {"kafka.sasl.jaas.config": PLAIN_LOGIN, "KAFKA.ssl.endpoint.identification.algorithm": ""}
    )

    assert found == ConnectionSettings(
        tls=Tls(checks_host_name=False),
        login=Login(mechanism="PLAIN", username="ann", password='a;b"c'),
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            options(security_protocol="TLS"),
            "protocol=TLS: give one of PLAINTEXT, SSL, SASL_PLAINTEXT",
        ),
        (options(security_protocol="SASL_SSL"), "mechanism is missing: give PLAIN, SCRAM-SHA-256"),
        (
            options(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN"),
            "username is missing: give it, or username and password in sasl.jaas.config",
        ),
        (
            options(
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-256",
                sasl_jaas_config='com.sun.Krb5LoginModule required username="a" password="b";',
            ),
            "jaas.config cannot be read: write '.*scram.ScramLoginModule",
        ),
        (
            options(security_protocol="SSL", ssl_provider="x"),
            "kafka.ssl.provider: .* cannot use it",
        ),
        (
            options(security_protocol="SSL", ssl_truststore_location="/t.jks"),
            "/t.jks counts as a store of type JKS, which is not supported: export it with `keytool",
        ),
        (
            options(
                security_protocol="SSL",
                ssl_keystore_location="/k.p12",
                ssl_keystore_type="PKCS12",
            ),
            "/k.p12 counts as a store of type PKCS12, .* `openssl pkcs12 -in /k.p12 -nodes",
        ),
    ],
)
def test_what_the_second_client_cannot_do_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(PipelineError, match=f"--kafka-option .*{reason}") as refused:
        settings_of_connector(given)

    assert refused.value.code == ExitCode.USAGE
    assert "secret" not in refused.value.sentence


def both_ways(**given: str) -> None:
    """Check that properties of a client reach both clients alike."""
    settings = connection_settings({name.replace("_", "."): text for name, text in given.items()})

    assert settings_of_connector(connector_security(settings)) == settings


def test_properties_of_a_client_become_options_of_the_connector() -> None:
    both_ways(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username='ann "b',
        sasl_password='back\\slash;"quote"',
        ssl_ca_location="/ca.pem",
        ssl_endpoint_identification_algorithm="none",
    )
    both_ways(
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_certificates="CA",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/both.pem",
        ssl_key_password="p",
    )


def test_a_key_in_a_file_of_its_own_is_given_as_text_for_java_wants_one_file(
    tmp_path: Path,
) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_text("CERTIFICATE")
    key.write_text("KEY")

    found = connector_security(
        ConnectionSettings(tls=Tls(certificate_file=str(certificate), key_file=str(key)))
    )

    assert found["kafka.ssl.keystore.certificate.chain"] == "CERTIFICATE"
    assert found["kafka.ssl.keystore.key"] == "KEY"


def test_what_the_connector_cannot_do_is_refused() -> None:
    with pytest.raises(PipelineError, match="connector always checks certificates") as refused:
        connector_security(ConnectionSettings(tls=Tls(checks_certificate=False)))

    assert refused.value.code == ExitCode.USAGE
    tokens = ConnectionSettings(
        login=Login(mechanism="OAUTHBEARER", tokens=lambda: BearerLogin("a"))
    )
    with pytest.raises(PipelineError, match="jobs do not log in by tokens"):
        connector_security(tokens)
