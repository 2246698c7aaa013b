"""The pipeline's own look-ups at a cluster that wants TLS and SASL: Apache Kafka's."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.admin import (
    KafkaAdminClient,
    NewTopic,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from compat_tests import apache_kafka
from compat_tests.apache_kafka import free_port
from compat_tests.prerequisites import NotAvailableError

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
ANN = 'username="ann" password="se;cret"'


@dataclass(frozen=True)
class Secured:
    """Addresses by security protocol, and the certificate that was made for them."""

    ports: dict[str, int]
    certificate: Path

    def plan(self, directory: Path, protocol: str, **options: str) -> tuple[int, str, list[str]]:
        """Exit code, the last line of the error, and the end offsets of an archive's plan."""
        given = {"security.protocol": protocol} | {
            name.replace("_", "."): value for name, value in options.items()
        }
        words = [
            sys.executable, "-m", "kbroker.cli", "pipeline", "archive", "--dry-run",
            "--bootstrap", f"127.0.0.1:{self.ports[protocol]}", "--topics", "t",
            "--to", str(directory / "archive"), "--checkpoint", str(directory / "checkpoint"),
            "--output", "csv",
        ]  # fmt: skip
        for name, value in given.items():
            words += ["--kafka-option", f"kafka.{name}={value}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        ends = [row["end_offset"] for row in csv.DictReader(done.stdout.splitlines())]
        return done.returncode, done.stderr.strip().rpartition("\n")[2], ends

    def trusted(self) -> dict[str, str]:
        """Options that trust the certificate."""
        return {
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str(self.certificate),
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key, both = (folder / name for name in ("ca.pem", "key.pem", "both.pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_text(key.read_text() + certificate.read_text())
    ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SSL", "SASL_SSL")}
    settings = {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_ann="se;cret";',
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(both),
    }
    try:
        with apache_kafka.broker(settings=settings, listeners=ports) as (bootstrap, _):
            admin = KafkaAdminClient(bootstrap_servers=bootstrap)
            admin.create_topics([NewTopic("t", 1, 1)], wait_for_metadata=True)
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("ann", ScramMechanism.SCRAM_SHA_256, "se;cret")]
            )
            admin.close()
            yield Secured(ports, certificate)
    except NotAvailableError as error:
        pytest.skip(str(error))


def test_a_name_and_a_password_let_the_job_in(secured: Secured, tmp_path: Path) -> None:
    found = secured.plan(
        tmp_path, "SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=f"{PLAIN} {ANN};"
    )

    assert found == (0, "", ["0"])


def test_a_certificate_lets_the_job_in(secured: Secured, tmp_path: Path) -> None:
    assert secured.plan(tmp_path, "SSL", **secured.trusted()) == (0, "", ["0"])


def test_scram_over_tls_lets_the_job_in(secured: Secured, tmp_path: Path) -> None:
    found = secured.plan(
        tmp_path,
        "SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=f"{SCRAM} {ANN};",
        **secured.trusted(),
    )

    assert found == (0, "", ["0"])


def test_a_wrong_password_is_one_sentence(secured: Secured, tmp_path: Path) -> None:
    code, sentence, ends = secured.plan(
        tmp_path,
        "SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=f'{PLAIN} username="ann" password="guessed";',
    )

    assert (code, ends) == (3, [])
    assert "wants TLS, SASL or another password" in sentence
    assert "guessed" not in sentence
