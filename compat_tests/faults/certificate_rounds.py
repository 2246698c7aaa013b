"""New certificates for a broker under load: `python -m compat_tests.faults.certificate_rounds --rounds 100`
replaces the file again and again, by turns with SIGHUP, with AlterConfigs of the same path, and with
nothing, so that the broker has to see it. No record may be late or lost, no connection may close, and
new connections have to get the new certificate.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.clients.secured_clients import secured
from compat_tests.commands.command_line import run as run_kbroker

CERTIFICATES = 3  # by turns
SETTING = "listener.name.ssl.ssl.keystore.location"
_SEEN_S = 20.0


class Load:
    """A producer over TLS, which never stops."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.errors: list[str] = []
        self._settings = {**settings, "error_cb": lambda error: self.errors.append(str(error))}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
        self._producer = Producer({**self._settings, "linger.ms": 0, "acks": "all"})
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = self.acknowledged = 0
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(0.002):
            self._producer.produce("t", bytes(1_000), on_delivery=self._delivered)
            self.sent += 1
            self._producer.poll(0)
        self._producer.flush(30)

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(str(error))

    def stop(self) -> None:
        """Send no more, and wait for what is open."""
        self._stopped.set()
        self._thread.join()


def shown(port: int, context: ssl.SSLContext) -> bytes:
    """The certificate that new connections get."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        return tls.getpeercert(binary_form=True) or b""


def renewed(folder: Path, number: int) -> Path:
    """Another certificate of the same authority, for the same names."""
    other = folder / f"renewed-{number}"
    other.mkdir()
    for name in ("ca.pem", "ca.key"):
        shutil.copy(folder / "certificates" / name, other / name)
    made = run_kbroker("cert", "make", str(other))
    assert made.code == 0, made
    return other / "broker.pem"


def rounds(count: int) -> list[str]:
    """Replace the certificate so often; returns a line for each thing that went wrong."""
    with tempfile.TemporaryDirectory(prefix="certificates-") as name:
        folder = Path(name)
        with secured(folder) as broker:
            certificates = folder / "certificates"
            ours, ann = certificates / "broker.pem", str(certificates / "ann.pem")
            settings: dict[str, object] = {
                "bootstrap.servers": f"127.0.0.1:{broker.ports['SSL']}",
                "security.protocol": "SSL",
                "ssl.ca.location": str(certificates / "ca.pem"),
                "ssl.certificate.location": ann,
                "ssl.key.location": ann,
            }
            context = ssl.create_default_context(cafile=certificates / "ca.pem")
            context.load_cert_chain(ann)
            load, admin = Load(settings), AdminClient(settings)
            own_id = str(next(iter(admin.list_topics(timeout=20).brokers)))
            ways: list[Callable[[], object]] = [
                lambda: os.kill(broker.pid, signal.SIGHUP),
                lambda: _same_path(admin, own_id, str(ours)),
                lambda: None,
            ]
            new = cycle([renewed(folder, number) for number in range(CERTIFICATES)])
            wrong, ways_in_turn = [], cycle(ways)
            for number in range(count):
                before, copy = shown(broker.ports["SSL"], context), folder / "next.pem"
                shutil.copy(next(new), copy)
                os.replace(copy, ours)
                next(ways_in_turn)()
                end_s = time.monotonic() + _SEEN_S
                while shown(broker.ports["SSL"], context) == before:
                    if time.monotonic() > end_s:
                        wrong.append(f"round {number}: the old certificate is still shown")
                        break
                    time.sleep(0.02)
            load.stop()
            if load.acknowledged != load.sent:
                wrong.append(f"{load.sent} sent, {load.acknowledged} acknowledged")
            print(f"{count} certificates, {load.acknowledged} records acknowledged")
            return [*wrong, *load.errors]


def _same_path(admin: AdminClient, own_id: str, path: str) -> None:
    entry = ConfigEntry(SETTING, path, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, own_id, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)


def main() -> None:
    """Print what went wrong, and fail if anything did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    wrong = rounds(parser.parse_args().rounds)
    print("\n".join(wrong) or "nothing went wrong")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
