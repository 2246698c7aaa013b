"""Files that `kbroker start --secure` and `kbroker cert make` write for Java's clients, as they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.clients.java_clients import kept_classes, run_java

VERSION = "3.9.2"
TLS = """\
listeners=SSL://127.0.0.1:0
security.inter.broker.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location=secrets/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=secrets/ca.pem
ssl.client.auth=required
""".splitlines()


@contextmanager
def kbroker(directory: Path, *options: str) -> Iterator[str]:
    """The address of a broker that runs in the directory."""
    command = [sys.executable, "-m", "kbroker.cli", "start", "--stop-at-eof", *options]
    with subprocess.Popen(
        [*command, "--override", "kbroker.http.listeners="],
        cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("listening on ").strip()
        finally:
            process.terminate()


def properties(file: Path, topic: str, address: str) -> Path:
    """A copy of the file with what the program needs besides."""
    copy = file.with_name(topic)
    copy.write_text(f"{file.read_text()}topic={topic}\nbootstrap.servers={address}\n")
    return copy


@pytest.mark.java
def test_java_takes_the_files_of_the_admin_and_of_a_client(target: str, tmp_path: Path) -> None:
    if target != "kbroker":
        pytest.skip("starts a kbroker with users of its own")
    secure = ("--secure", "secrets", "--listen", "127.0.0.1:0", "--data")
    with kbroker(tmp_path, *secure, "data") as address:
        admin = properties(tmp_path / "secrets" / "admin.properties", "admin", address)
        command(tmp_path, "cert", "make", "secrets", "--client", "ann")
        with kbroker(tmp_path, *(f"--override={line}" for line in TLS)) as other:
            ann = properties(tmp_path / "secrets" / "ann.properties", "ann", other)
            classes = kept_classes("Logins", VERSION)
            said = run_java(classes, VERSION, "Logins", str(admin), str(ann))
    assert said.decode().split() == ["admin", "ann"]

    with kbroker(tmp_path, *secure, "new-data", "--brokers", "2") as address:
        login = ("--command-config", "secrets/admin.properties")
        replicated = ("again", "--replication-factor", "2", "--bootstrap", address)
        command(tmp_path, "topic", "create", *replicated, *login)


def command(directory: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "kbroker.cli", *words], cwd=directory, check=True)
