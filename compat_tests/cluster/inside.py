"""A second listener of each broker, INSIDE, which brokers use among themselves: with TLS, with logins,
or both, and with one certificate for all.

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
from pathlib import Path

from compat_tests.cluster.processes import Cluster
from compat_tests.running.apache_kafka import free_port
from compat_tests.running.tls_door import made_certificate

USER, PASSWORD = "inside", "ins.ide-secret"
_SECURITY = "org.apache.kafka.common.security"
_ITERATIONS, _SALT = 4_096, b"0123456789"
_MODULES = {"PLAIN": "plain.PlainLoginModule"}
_PREFIX = "listener.name.inside."


class Inside:
    """The ports of all brokers, which stay, and their settings."""

    def __init__(self, folder: Path, protocol: str, mechanism: str = "PLAIN") -> None:
        self.protocol, self.mechanism = protocol, mechanism
        self._pem = folder / "inside-both.pem"
        folder.mkdir(parents=True, exist_ok=True)
        made_certificate(folder, "inside", "IP:127.0.0.1,DNS:localhost")
        self._ports: dict[int, tuple[int, int]] = {}

    def common(self, password: str = PASSWORD) -> dict[str, str]:
        """The settings of all brokers that talk to each other there, with the password by which one
        logs in at the others.
        """
        return self.offered(password) | {"inter.broker.listener.name": "INSIDE"}

    def offered(self, password: str = PASSWORD) -> dict[str, str]:
        """The settings of all brokers that have the listener."""
        return {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INSIDE:{self.protocol}",
            "sasl.enabled.mechanisms": self.mechanism,
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            f"{_PREFIX}{self.mechanism.lower()}.sasl.jaas.config": self._jaas(password),
            f"{_PREFIX}ssl.keystore.type": "PEM",
            f"{_PREFIX}ssl.keystore.location": str(self._pem),
            f"{_PREFIX}ssl.truststore.type": "PEM",
            f"{_PREFIX}ssl.truststore.location": str(self._pem.with_name("inside.pem")),
            f"{_PREFIX}ssl.client.auth": "required",
            "connections.max.reauth.ms": "6000",  # so that a test sees brokers log in again
        }

    def listeners(self, number: int) -> dict[str, str]:
        """The listeners of one broker."""
        inside = f"INSIDE://127.0.0.1:{self._port_of(number, 1)}"
        return {"listeners": f"{self.plain_listener(number)['listeners']},{inside}"}

    def plain_listener(self, number: int) -> dict[str, str]:
        """The one for clients alone."""
        return {"listeners": f"PLAINTEXT://127.0.0.1:{self._port_of(number, 0)}"}

    def _port_of(self, number: int, which: int) -> int:
        return self._ports.setdefault(number, (free_port(), free_port()))[which]

    def make_user(self, cluster: Cluster) -> None:
        """Give the user a credential, if it is one of SCRAM, as kafka-configs writes it: before any
        broker runs.
        """
        if not self.mechanism.startswith("SCRAM"):
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
