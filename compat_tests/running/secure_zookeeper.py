"""A ZooKeeper that takes logins by DIGEST-MD5 on its port, and TLS with client certificates on another
one, and the settings and Java options by which brokers come in.

Knows nothing of kbroker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.running.apache_kafka import free_port
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers

USER, PASSWORD = "kafka", 'kafka-"secret'
SUPER = "super:admin"  # a login by the scheme digest, to whom all nodes are open
_SUPER_HASH = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs="


@dataclass(frozen=True)
class SecureZooKeeper:
    """The servers, and the port for TLS of the first one."""

    servers: ZooKeeperServers
    tls_port: int
    directory: Path

    def connect(self, chroot: str = "", *, tls: bool = False) -> str:
        """The connect string for either port."""
        return f"localhost:{self.tls_port}{chroot}" if tls else self.servers.connect(chroot)

    def login_file(self, user: str = USER, password: str = PASSWORD) -> Path:
        """A JAAS file with a login of brokers, as KAFKA_OPTS names it."""
        return _login_file(
            self.directory / "client.jaas",
            "Client",
            f"username={user}",
            f"password={_quoted(password)}",
        )


@contextmanager
def secure_zookeeper(
    directory: Path, own: Path, trusted: Path, settings: Sequence[str] = ()
) -> Iterator[SecureZooKeeper]:
    """One server that shows the PEM file `own`, and takes whom the PEM file `trusted` signed."""
    directory.mkdir(parents=True, exist_ok=True)
    tls_port = free_port()
    logins = _login_file(directory / "server.jaas", "Server", f"user_{USER}={_quoted(PASSWORD)}")
    lines = (
        f"secureClientPort={tls_port}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={own}",
        "ssl.keyStore.type=PEM",
        f"ssl.trustStore.location={trusted}",
        "ssl.trustStore.type=PEM",
        "ssl.enabledProtocols=TLSv1.2,TLSv1.3",  # Kafka 3.9 asks for 1.2
        "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        *settings,
    )
    options = (
        f"-Djava.security.auth.login.config={logins}",
        f"-Dzookeeper.DigestAuthenticationProvider.superDigest={_SUPER_HASH}",
    )
    with zookeeper_servers(directory=directory, java_options=options, settings=lines) as servers:
        yield SecureZooKeeper(servers, tls_port, directory)


def _login_file(path: Path, section: str, *options: str) -> Path:
    lines = "\n  ".join(options)
    path.write_text(
        f"{section} {{\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f"  {lines};\n}};\n"
    )
    return path


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
