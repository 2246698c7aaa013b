"""Brokers that ask who comes: the same listeners, certificates, users and settings for kbroker and for
Apache Kafka, beside a plain listener for what a load prepares.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import processes
from benchmarks.generator import ScramKeys
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient
from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import require_program
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

# By their names, with the security protocol of each. Certificates have keys of P-256, but for one.
LISTENERS = {
    "SSL": "SSL",
    "RSA": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "ann", "pencil"
_SALT, _ITERATIONS = b"0123456789abcdef", 4_096
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_KEYS = {
    "P-256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "RSA": ("rsa:2048",),
}


@contextmanager
def running(kind: str) -> Iterator[RunningBroker]:
    """A broker with all of them, whose first one is plain."""
    ports = {name: apache_kafka.free_port() for name in LISTENERS}
    settings = _settings()
    if kind == "apache":
        with processes.apache(settings, ports) as broker:
            yield _with_user(replace(broker, ports=ports))
        return
    plain = apache_kafka.free_port()
    listeners = {"PLAINTEXT": plain, **ports}
    settings["listeners"] = ",".join(f"{k}://127.0.0.1:{at}" for k, at in listeners.items())
    overrides = [word for pair in settings.items() for word in ("--override", "=".join(pair))]
    with processes.kbroker(*overrides, port=plain) as broker:
        yield _with_user(replace(broker, ports=ports))


def client_properties(listener: str) -> Path:
    """A file with which Java's clients come in at a listener."""
    path = certificates() / f"{listener}.properties"
    lines = [
        f"security.protocol={LISTENERS[listener]}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={_certificate('P-256')}",
        f"sasl.mechanism={MECHANISM}",
        f'sasl.jaas.config={_MODULE} username="{USER}" password="{PASSWORD}";',
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def scram_keys() -> ScramKeys:
    """Derive what proves the user's password to every broker here."""
    client_key = hmac.digest(_salted(), b"Client Key", "sha512")
    return ScramKeys(client_key, hashlib.sha512(client_key).digest(), f"n={USER},r=benchmark")


@functools.cache
def certificates() -> Path:
    """A folder with a certificate and its key for each kind of key, which is there until the end."""
    require_program("openssl", "install openssl")
    kept = tempfile.TemporaryDirectory(prefix="kbroker-bench-")  # goes with the process
    _kept.append(kept)
    folder = Path(kept.name)
    for name, kind in _KEYS.items():
        key, certificate = folder / "key", folder / "certificate"
        subprocess.run(
            [
                "openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-newkey", *kind,
                "-keyout", str(key), "-out", str(certificate),
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        (folder / f"{name}.pem").write_text(key.read_text() + certificate.read_text())
        certificate.rename(folder / f"{name}.crt")
        key.unlink()
    return folder


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _certificate(kind: str) -> Path:
    return certificates() / f"{kind}.crt"


def _settings() -> dict[str, str]:
    folder = certificates()
    settings = {
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}"
            for name, protocol in {
                "CONTROLLER": "PLAINTEXT",
                "PLAINTEXT": "PLAINTEXT",
                **LISTENERS,
            }.items()
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "P-256.pem"),
        "listener.name.rsa.ssl.keystore.type": "PEM",
        "listener.name.rsa.ssl.keystore.location": str(folder / "RSA.pem"),
        "sasl.enabled.mechanisms": MECHANISM,
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        settings[f"listener.name.{name}.{MECHANISM.lower()}.sasl.jaas.config"] = f"{_MODULE};"
    return settings


def _salted() -> bytes:
    return hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), _SALT, _ITERATIONS)


def _with_user(broker: RunningBroker) -> RunningBroker:
    kind = AlterUserScramCredentialsRequest
    given = kind.ScramCredentialUpsertion(
        name=USER, mechanism=2, iterations=_ITERATIONS, salt=_SALT, salted_password=_salted()
    )
    client = RawClient(broker.address)
    answer = client.call(kind(upsertions=[given]), 51, 0, AlterUserScramCredentialsResponse)
    client.close()
    if answer.results[0].error_code:
        raise RuntimeError(f"no user: {answer.results[0].error_message}")
    return broker
