"""What the connector is told of TLS and SASL, in the words of the other client."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.sources.client_security import client_options

MODULES = "org.apache.kafka.common.security"
PLAIN_LOGIN = f'{MODULES}.plain.PlainLoginModule required username="ann" password="a;b\\"c";'
SCRAM_LOGIN = f'{MODULES}.scram.ScramLoginModule  required\n password=secret username="ann" ;\n'


def options(**given: str) -> dict[str, str]:
    return {f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}


def test_without_such_options_there_is_nothing_to_say() -> None:
    assert client_options({"kafka.max.poll.records": "9", "minPartitions": "3"}) == {}


def test_a_password_may_hold_signs_of_the_syntax() -> None:
    found = client_options(
        options(security_protocol="sasl_plaintext", sasl_mechanism="PLAIN")
        | {"kafka.sasl.jaas.config": PLAIN_LOGIN}
    )

    assert found == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": 'a;b"c',
    }


def test_fields_of_a_login_come_in_any_order_and_need_no_quotes() -> None:
    found = client_options(
        options(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512")
        | {"kafka.sasl.jaas.config": SCRAM_LOGIN}
    )

    assert (found["sasl_mechanism"], found["sasl_plain_password"]) == ("SCRAM-SHA-512", "secret")


def test_javas_other_quotes_do_as_well() -> None:
    login = f"{MODULES}.plain.PlainLoginModule required username='ann b' password='a\"\\'c';"
    found = client_options(
        options(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=login)
    )

    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("ann b", "a\"'c")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (options(security_protocol="TLS"), "TLS is none of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        (options(security_protocol="SASL_SSL"), "mechanism=GSSAPI: the job's own look-ups know"),
        (
            options(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN"),
            r"jaas.config has to be '.*plain.PlainLoginModule required username=\"NAME\"",
        ),
        (
            options(
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="SCRAM-SHA-256",
                sasl_jaas_config='com.sun.Krb5LoginModule required username="a" password="b";',
            ),
            "jaas.config has to be '.*scram.ScramLoginModule",
        ),
        (options(security_protocol="SSL", ssl_provider="x"), "kafka.ssl.provider: .* cannot do as"),
        (
            options(security_protocol="SSL", ssl_truststore_location="/t.jks"),
            "/t.jks is a store of type JKS, which only Java reads: give trusted certificates as a "
            "PEM file, with kafka.ssl.truststore.type=PEM",
        ),
        (
            options(
                security_protocol="SSL",
                ssl_keystore_location="/k.p12",
                ssl_keystore_type="PKCS12",
            ),
            "/k.p12 is a store of type PKCS12, which only Java reads: give the key and its",
        ),
        (
            options(
                security_protocol="SSL",
                ssl_truststore_location="/missing.pem",
                ssl_truststore_type="PEM",
            ),
            "truststore.location cannot be used: .*No such file",
        ),
        (
            options(security_protocol="SSL", ssl_truststore_certificates="no certificate"),
            "truststore.certificates cannot be used",
        ),
    ],
)
def test_what_the_second_client_cannot_do_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(PipelineError, match=f"--kafka-option .*{reason}") as refused:
        client_options(given)

    assert refused.value.code == ExitCode.USAGE
    assert "secret" not in refused.value.sentence


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl makes the certificate")
def test_certificates_and_keys_are_taken_from_pem_files(tmp_path: Path) -> None:
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-subj", "/CN=ours", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())

    by_file = client_options(
        options(
            security_protocol="SSL",
            ssl_truststore_type="PEM",
            ssl_truststore_location=str(certificate),
            ssl_keystore_type="PEM",
            ssl_keystore_location=str(both),
        )
    )["ssl_context"]
    by_text = client_options(
        options(security_protocol="SSL", ssl_truststore_certificates=certificate.read_text())
        | {"kafka.ssl.endpoint.identification.algorithm": ""}
    )["ssl_context"]

    assert [context.cert_store_stats()["x509"] for context in (by_file, by_text)] == [1, 1]
    assert (by_file.check_hostname, by_text.check_hostname) == (True, False)
    assert by_text.verify_mode == ssl.CERT_REQUIRED
