"""A second listener of each broker, INSIDE, which brokers use among themselves: with TLS, with logins,
or both. A third one, OLD, is as open as the first; brokers may use it before.

Knows nothing of kbroker.

    inside = Inside(folder, "SASL_SSL", "SCRAM-SHA-256")
    with Cluster(folder, zookeeper, kinds, inside.common(), own_settings=inside.listeners) as cluster:
        inside.make_user(cluster)
        cluster.start()
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import ssl
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

from compat_tests.cluster.processes import Cluster, tcp_connections
from compat_tests.running.apache_kafka import free_port
from tests.fakes.certificates import Authority

USER, PASSWORD = "inside", "ins.ide-secret"
OPEN, OLD, INSIDE = "PLAINTEXT", "OLD", "INSIDE"
PREFIX = "listener.name.inside."
CERTIFICATES = 3  # of each broker, by turns
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_NAMES = (OPEN, OLD, INSIDE)
_SECURITY = "org.apache.kafka.common.security"
_ITERATIONS, _SALT = 4_096, b"0123456789"
_MODULES = {"PLAIN": "plain.PlainLoginModule"}


class Inside:
    """The ports of all brokers, which stay, their certificates and their settings."""

    def __init__(self, folder: Path, protocol: str, mechanism: str = "PLAIN") -> None:
        self.protocol, self.mechanism = protocol, mechanism
        self._mechanisms = SCRAM if mechanism in SCRAM else (mechanism,)
        self._folder = folder / "inside"
        self._authority = Authority(self._folder)
        self._client = str(self._authority.issue("client").pem)
        self._ports: dict[int, dict[str, int]] = {}
        self._renewed: dict[int, cycle[Path]] = {}

    def common(self, password: str = PASSWORD) -> dict[str, str]:
        """The settings of all brokers that talk to each other there, with the password by which one
        logs in at the others.
        """
        return self.offered(password) | {"inter.broker.listener.name": INSIDE}

    def offered(self, password: str = PASSWORD) -> dict[str, str]:
        """The settings of all brokers that have the listener."""
        return {
            "sasl.enabled.mechanisms": ",".join(self._mechanisms),
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            **{
                f"{PREFIX}{mechanism.lower()}.sasl.jaas.config": self._jaas(password)
                for mechanism in self._mechanisms
            },
            f"{PREFIX}ssl.keystore.type": "PEM",
            f"{PREFIX}ssl.client.auth": "required",
            **self._authority.trust(PREFIX),
            "connections.max.reauth.ms": "6000",  # so that a test sees brokers log in again
        }

    def listeners(self, number: int, *names: str) -> dict[str, str]:
        """The listeners of one broker, the first and INSIDE if none are named."""
        used = names or (OPEN, INSIDE)
        urls = (f"{name}://{self.address(number, name)}" for name in used)
        own = {PREFIX + "ssl.keystore.location": str(self.certificate(number))}
        return {
            "listeners": ",".join(urls),
            "listener.security.protocol.map": (
                f"{OPEN}:PLAINTEXT,{OLD}:PLAINTEXT,{INSIDE}:{self.protocol}"
            ),
            **(own if INSIDE in used else {}),
        }

    def address(self, number: int, name: str = INSIDE) -> str:
        """Where a broker listens."""
        ports = self._ports.setdefault(number, {})
        if not ports:
            ports.update((each, free_port()) for each in _NAMES)
        return f"127.0.0.1:{ports[name]}"

    def addresses(self, numbers: Iterable[int], name: str = INSIDE) -> str:
        """Where brokers listen, as clients take it."""
        return ",".join(self.address(number, name) for number in numbers)

    def client(self) -> dict[str, str]:
        """How librdkafka comes in."""
        return {
            "security.protocol": self.protocol,
            "ssl.ca.location": str(self._authority.certificate),
            "ssl.certificate.location": self._client,
            "ssl.key.location": self._client,
            "sasl.mechanism": self.mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def context(self) -> ssl.SSLContext:
        """How a bare connection comes in, before its login."""
        context = ssl.create_default_context(cafile=self._authority.certificate)
        context.load_cert_chain(self._client)
        return context

    def certificate(self, number: int) -> Path:
        """The file of a broker's certificate, which is made with the others of that broker."""
        file = self._folder / f"broker-{number}.pem"
        if not file.exists():
            made = [
                self._authority.issue(f"inside-{number}-{turn}", subject=f"/CN=inside-{number}").pem
                for turn in range(CERTIFICATES)
            ]
            self._renewed[number] = cycle(made)
            self.renew(number)
        return file

    def renew(self, number: int) -> None:
        """Replace a broker's certificate by another one of the same names."""
        copy = self._folder / "next.pem"
        shutil.copy(next(self._renewed[number]), copy)
        os.replace(copy, self._folder / f"broker-{number}.pem")

    def connections(self) -> set[tuple[str, str]]:
        """All connections of brokers and clients to this listener, as addresses of both ends."""
        ours = {f"127.0.0.1:{ports[INSIDE]}" for ports in self._ports.values()}
        listed = tcp_connections("state", "established")
        pairs = (line.replace("[::ffff:127.0.0.1]", "127.0.0.1").split()[2:4] for line in listed)
        return {(near, far) for near, far in pairs if near in ours}

    def make_user(self, cluster: Cluster) -> None:
        """Give the user a credential, if it is one of SCRAM, as kafka-configs writes it: before any
        broker runs.
        """
        if self.mechanism not in SCRAM:
            return
        text = scram_credential(self.mechanism)
        node = {"version": 1, "config": {self.mechanism: text}}
        cluster.tree.client.ensure_path(f"/{cluster.connect.partition('/')[2]}/config/users")
        cluster.tree.create(f"/config/users/{USER}", json.dumps(node).encode())

    def _jaas(self, password: str) -> str:
        module = _MODULES.get(self.mechanism, "scram.ScramLoginModule")
        users = f' user_{USER}="{PASSWORD}"' if self.mechanism == "PLAIN" else ""
        return f'{_SECURITY}.{module} required username="{USER}" password="{password}"{users};'


def scram_credential(mechanism: str) -> str:
    """The credential of the password, as Kafka keeps it."""
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), _SALT, _ITERATIONS)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    keys = (_SALT, stored, hmac.digest(salted, b"Server Key", name))
    salt, stored_key, server_key = (base64.b64encode(key).decode() for key in keys)
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={_ITERATIONS}"
