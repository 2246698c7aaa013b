"""Commands, and the pipeline's own look-ups, at a cluster that wants TLS and logins: Apache
Kafka's.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import (
    KafkaAdminClient,
    NewTopic,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from compat_tests.commands.command_line import completed
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.apache_kafka import free_port
from compat_tests.running.prerequisites import NotAvailableError
from compat_tests.running.tls_door import TlsDoor, file_of_client, made_certificate

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
        command = [*words, "--bootstrap", f"{host}:{self.ports[protocol]}"]
        for name, value in properties.items():
            command += ["-X", f"{name.replace('_', '.')}={value}"]
        return completed(command, given)

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
    certificate = made_certificate(folder, "ours", "IP:127.0.0.1")
    other = made_certificate(folder, "other", "DNS:other")
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
    "no login": ("SASL_PLAINTEXT", {}, "if the port needs a login, give security.protocol=SASL_P"),
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
        "the broker asks for the client's certificate",
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


def test_a_mirror_copies_from_one_secured_cluster_into_another(
    secured: Secured, tmp_path: Path
) -> None:
    scram, certificate = secured.java_file, secured.certificate
    source = f"127.0.0.1:{secured.ports['SASL_SSL']}"
    ours = file_of_client(tmp_path / "ours.conf", certificate)
    others = file_of_client(tmp_path / "others.conf", secured.other_certificate)
    guessed = tmp_path / "guessed.conf"
    guessed.write_text(scram.read_text().replace(PASSWORD, "guessed"))
    with TlsDoor(certificate) as door:
        advertise = f"kbroker.advertise={door.address}"
        broker = BrokerProcess(tmp_path / "kbroker" / "data", ("--override", advertise))
        broker.start()
        door.port_behind = broker.port
        target = Secured({"door": door.port}, certificate, secured.other_certificate, ours, ours)

        def mirror(source_file: Path, target_file: Path) -> subprocess.CompletedProcess[str]:
            words = (
                "pipeline", "mirror", "--from", source, "--from-command-config", str(source_file),
                "--topics", "mirrored", "--checkpoint", str(tmp_path / "checkpoint"), "--once",
                "--output", "csv", "--command-config", str(target_file),
            )  # fmt: skip
            return target.run("door", *words)

        def printed(*words: str) -> str:
            done = target.run("door", *words, "--command-config", str(ours))
            assert done.returncode == 0, done.stderr
            return done.stdout

        try:
            secured.printed(scram, "topic", "create", "mirrored")
            secured.printed(scram, "produce", "mirrored", given="a\nb\nc\n")
            secured.printed(scram, "consume", "mirrored", "--group", "readers", "--count", "2")
            plain = f"127.0.0.1:{secured.ports['PLAINTEXT']}"
            producer = KafkaProducer(bootstrap_servers=plain, transactional_id="open")
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("mirrored", b"d").get(timeout=30)

            first = mirror(scram, ours)
            assert first.returncode == 0, first.stderr
            assert first.stdout.splitlines()[1:] == ["mirrored,0,0,3,3,1"]  # asked with a login
            assert "1 group moved, lag 1, " in first.stderr
            described = printed("group", "describe", "readers", "--output", "csv")
            assert "\nreaders,mirrored,0,2," in described

            producer.commit_transaction()
            producer.close()
            assert "mirrored,0,3,5,1,0" in mirror(scram, ours).stdout
            assert printed("consume", "mirrored") == "a\nb\nc\nd\n"

            wrong_password, wrong_authority = mirror(guessed, ours), mirror(scram, others)
        finally:
            broker.stop()
    assert (wrong_password.returncode, wrong_password.stdout) == (3, "")
    assert f"{source}: the broker refuses the login of ann" in error_of(wrong_password)
    assert "guessed" not in wrong_password.stderr
    assert (wrong_authority.returncode, wrong_authority.stdout) == (3, "")
    assert f"{door.address}: the broker's certificate is signed by" in error_of(wrong_authority)


def test_rules_that_are_not_let_in_end_in_one_sentence(secured: Secured, tmp_path: Path) -> None:
    rules, own = tmp_path / "rules.toml", ("--command-config", str(secured.java_file))
    rules.write_text(
        'name = "all"\n[inputs.t]\ntopics = ["t"]\nschema = "a INT"\n'
        '[rules.all]\nfrom = "t"\nselect = { a = "a" }\nto = "all"\nkey = "a"\n'
    )
    words = ("pipeline", "rules", str(rules), "--checkpoint", str(tmp_path / "c"), "--once", *own)
    guessed = f'{SCRAM} username="ann" password="guessed";'

    plan = secured.run("SASL_SSL", *words, "--dry-run")
    password = secured.refused("SASL_SSL", *words, sasl_jaas_config=guessed)
    other = str(secured.other_certificate)
    authority = secured.refused("SASL_SSL", *words, ssl_truststore_location=other)

    assert plan.returncode == 0, plan.stderr
    assert "refuses the login of ann with SCRAM-SHA-512" in password
    assert "guessed" not in password
    assert "certificate is signed by nobody trusted here" in authority
