"""Commands, and the pipeline's own look-ups, at a cluster that wants TLS and logins: Apache
Kafka's.
"""

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
PASSWORD = "se;cret"
ANN = f'username="ann" password="{PASSWORD}"'


@dataclass(frozen=True)
class Secured:
    """Addresses by security protocol, the certificate that was made for them, and one that was
    not.
    """

    ports: dict[str, int]
    certificate: Path
    other_certificate: Path
    java_file: Path
    librdkafka_file: Path

    def run(
        self,
        protocol: str,
        *words: str,
        given: str = "",
        host: str = "127.0.0.1",
        **properties: str,
    ) -> subprocess.CompletedProcess[str]:
        """A command at the port of a protocol, with properties of a client."""
        command = [sys.executable, "-m", "kbroker.cli", *words]
        command += ["--bootstrap", f"{host}:{self.ports[protocol]}"]
        for name, value in properties.items():
            command += ["-X", f"{name.replace('_', '.')}={value}"]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=60, check=False
        )

    def printed(self, file: Path, *words: str, given: str = "", **properties: str) -> str:
        """Return what a command prints at the port with TLS and a login."""
        config = ("--command-config", str(file))
        done = self.run("SASL_SSL", *words, *config, given=given, **properties)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, protocol: str, *words: str, **properties: str) -> str:
        """The sentence with which a command ends that cannot connect."""
        done = self.run(protocol, *(words or ("consume", "t")), **properties)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert PASSWORD not in done.stderr
        return error_of(done)

    def plan(self, directory: Path, protocol: str, **options: str) -> tuple[int, str, list[str]]:
        """Exit code, the sentence of the error, and the end offsets of an archive's plan."""
        words = [
            "pipeline", "archive", "--dry-run", "--topics", "t",
            "--to", str(directory / "archive"), "--checkpoint", str(directory / "checkpoint"),
            "--output", "csv",
        ]  # fmt: skip
        for name, value in {"security_protocol": protocol, **options}.items():
            words += ["--kafka-option", f"kafka.{name.replace('_', '.')}={value}"]
        done = self.run(protocol, *words)
        ends = [row["end_offset"] for row in csv.DictReader(done.stdout.splitlines())]
        return done.returncode, error_of(done), ends

    def trusted(self) -> dict[str, str]:
        """Java's properties that trust the certificate."""
        return {
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str(self.certificate),
        }


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """The sentence of a command that failed, else nothing."""
    return "".join(line for line in done.stderr.splitlines() if line.startswith("Error: "))


def _certificate(folder: Path, name: str, alternative: str) -> Path:
    """A certificate that is its own authority; its key is name.key, and both are in
    name-both.pem.
    """
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
         "-addext", f"subjectAltName={alternative}", "-keyout", str(key),
         "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / f"{name}-both.pem").write_text(key.read_text() + certificate.read_text())
    return certificate


def _settings(certificate: Path) -> dict[str, str]:
    """Passwords on two ports, and clients with a certificate on the third."""
    plain = f'{PLAIN} user_ann="{PASSWORD}";'
    ours = str(certificate.with_name("ours-both.pem"))
    return {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": ours,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
    }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    certificate = _certificate(folder, "ours", "IP:127.0.0.1")
    other = _certificate(folder, "other", "DNS:other")
    java, librdkafka = folder / "client.properties", folder / "client.conf"
    java.write_text(
        "# as Java's tools are given them\n"
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={SCRAM} {ANN};\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificate}\ngroup.id=readers\n"
    )
    librdkafka.write_text(
        f"security.protocol=sasl_ssl\nsasl.mechanisms=PLAIN\nsasl.username=ann\n"
        f"sasl.password={PASSWORD}\nssl.ca.location={certificate}\n"
    )
    ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SSL", "SASL_SSL")}
    try:
        with apache_kafka.broker(settings=_settings(certificate), listeners=ports) as (plain, _):
            admin = KafkaAdminClient(bootstrap_servers=plain)
            admin.create_topics([NewTopic("t", 1, 1)], wait_for_metadata=True)
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                admin.alter_user_scram_credentials(
                    [UserScramCredentialUpsertion("ann", mechanism, PASSWORD)]
                )
            admin.close()
            ports["PLAINTEXT"] = int(plain.rpartition(":")[2])
            yield Secured(ports, certificate, other, java, librdkafka)
    except NotAvailableError as error:
        pytest.skip(str(error))


def test_commands_get_in_with_a_file_of_librdkafka(secured: Secured) -> None:
    file = secured.librdkafka_file
    lines = "".join(f"line {number}\n" for number in range(20_000))

    secured.printed(file, "topic", "create", "copied")
    secured.printed(file, "produce", "copied", given=lines)

    assert secured.printed(file, "consume", "copied") == lines

    elsewhere = f"127.0.0.1:{secured.ports['PLAINTEXT']}"
    secured.printed(file, "topic", "copy", "copied", "again", "--to-bootstrap", elsewhere)
    assert secured.printed(file, "consume", "again") == lines


def test_commands_get_in_with_a_file_of_java(secured: Secured) -> None:
    file = secured.java_file
    listed = secured.printed(file, "topic", "list", "--output", "csv")
    secured.printed(file, "produce", "t", given="a\nb\n", sasl_mechanism="SCRAM-SHA-256")

    assert "\nt," in listed
    assert secured.printed(file, "consume", "t", "--group", "g", "--count", "1") == "a\n"
    assert "\ng," in secured.printed(file, "group", "list", "--output", "csv")


def test_a_certificate_lets_a_command_in(secured: Secured) -> None:
    certificate = secured.certificate
    done = secured.run(
        "SSL", "topic", "list", security_protocol="SSL", ssl_ca_location=str(certificate),
        ssl_certificate_location=str(certificate),
        ssl_key_location=str(certificate.with_suffix(".key")),
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


REFUSALS = {
    "no TLS": ("SASL_SSL", {}, "this port speaks TLS: give security.protocol=SSL"),
    "TLS": ("PLAINTEXT", {"security_protocol": "SSL"}, "this port does not speak TLS: give the"),
    "no login": ("SASL_PLAINTEXT", {}, "where a port needs a login, give security.protocol=SASL_P"),
    "a login": (
        "PLAINTEXT",
        {"security_protocol": "SASL_PLAINTEXT"},
        "this port takes no login: give the port that does",
    ),
    "another mechanism": (
        "SASL_PLAINTEXT",
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"},
        "does not offer the login SCRAM-SHA-512, but PLAIN: give sasl.mechanism=PLAIN",
    ),
    "another password": (
        "SASL_PLAINTEXT",
        {"security_protocol": "SASL_PLAINTEXT", "sasl_password": "guessed"},
        "refuses the login of ann with PLAIN (Authentication failed: Invalid username or password)",
    ),
    "another password by SCRAM": (
        "SASL_SSL",
        {"sasl_mechanism": "SCRAM-SHA-256", "sasl_password": "guessed"},
        "refuses the login of ann with SCRAM-SHA-256",
    ),
    "another authority": (
        "SASL_SSL",
        {"ssl_ca_location": "OTHER"},
        "certificate is signed by nobody trusted here",
    ),
    "another name": (
        "SASL_SSL",
        {"host": "localhost"},
        "certificate is not made for the name localhost",
    ),
    "no certificate": (
        "SSL",
        {"security_protocol": "SSL"},
        "the broker asks for a client certificate",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_keeps_a_command_out_is_one_sentence(secured: Secured, case: str) -> None:
    protocol, changes, reason = REFUSALS[case]
    file = (
        () if case in ("no TLS", "no login") else ("--command-config", str(secured.librdkafka_file))
    )
    if "ssl_ca_location" in changes:
        changes = {"ssl_ca_location": str(secured.other_certificate)}

    sentence = secured.refused(protocol, "consume", "t", *file, **changes)

    assert sentence.startswith("Error: cannot connect to ")
    assert reason in sentence


def test_a_name_and_a_password_let_the_job_in(secured: Secured, tmp_path: Path) -> None:
    found = secured.plan(
        tmp_path, "SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=f"{PLAIN} {ANN};"
    )

    assert found[:2] == (0, "")


def test_a_certificate_lets_the_job_in(secured: Secured, tmp_path: Path) -> None:
    own = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(secured.certificate.with_name("ours-both.pem")),
    }

    assert secured.plan(tmp_path, "SSL", **secured.trusted(), **own)[:2] == (0, "")


def test_scram_over_tls_lets_the_job_in(secured: Secured, tmp_path: Path) -> None:
    found = secured.plan(
        tmp_path,
        "SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=f"{SCRAM} {ANN};",
        **secured.trusted(),
    )

    assert found[:2] == (0, "")


def test_a_wrong_password_is_one_sentence(secured: Secured, tmp_path: Path) -> None:
    code, sentence, ends = secured.plan(
        tmp_path,
        "SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=f'{PLAIN} username="ann" password="guessed";',
    )

    assert (code, ends) == (3, [])
    assert "refuses the login of ann with PLAIN" in sentence
    assert "guessed" not in sentence
