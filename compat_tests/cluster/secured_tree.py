"""A ZooKeeper that asks who comes, by TLS and DIGEST-MD5 together, clusters over it, and the rights that
Apache Kafka 3.9.2 gives to nodes.

Knows nothing of kbroker.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from compat_tests.cluster.processes import Cluster
from compat_tests.running import apache_kafka
from compat_tests.running.apache_kafka import ZOOKEEPER_LINE
from compat_tests.running.secure_zookeeper import SUPER, SecureZooKeeper, secure_zookeeper
from tests.fakes.certificates import Authority

MAKERS = "x509:CN=broker,O=Org", "sasl:kafka"
_GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "zookeeper" / "rights-3.9.2.tsv"
_OWN = {"/kbroker/login_secret": "MAKER:31"}  # which Apache Kafka does not have
_ATTEMPTS, _TOO_SLOW = 3, "ZooKeeperClientTimeoutException"  # of a JVM on a busy machine
_CONFIG_COMMAND = "kafka.admin.ConfigCommand"


class SecuredTree:
    """A ZooKeeper, and what brokers and tools are told of it."""

    def __init__(self, zookeeper: SecureZooKeeper, authority: Authority, own: Path) -> None:
        self.zookeeper = zookeeper
        self._files = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(own),
            "zookeeper.ssl.truststore.location": str(authority.certificate),
        }
        self.settings = {
            "zookeeper.set.acl": "true",
            "zookeeper.connection.timeout.ms": "60000",  # Java's first handshake takes seconds
            **self._files,
        }
        # Of Apache Kafka's brokers and tools; those of kbroker find it in KAFKA_OPTS.
        self.java_options = f"-Djava.security.auth.login.config={zookeeper.login_file()}"

    def cluster(
        self,
        directory: Path,
        kinds: Iterable[str],
        chroot: str,
        settings: Mapping[str, str],
        own_settings: Callable[[int], dict[str, str]] | None = None,
    ) -> Cluster:
        """Brokers that come in by TLS and with a login; the tree is seen as the super user."""
        cluster = Cluster(
            directory, self.zookeeper.servers, kinds, {**self.settings, **settings}, chroot,
            (self.java_options,), own_settings=own_settings,
            brokers_connect=self.zookeeper.connect(chroot, tls=True),
        )  # fmt: skip
        cluster.tree.client.add_auth("digest", SUPER)
        return cluster

    def kafka_configs(self, chroot: str, *change: str) -> None:
        """Apache Kafka's `kafka-configs --zookeeper`, which comes in as brokers do."""
        file = self.zookeeper.directory / "kafka-configs.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self._files.items()))
        connect = self.zookeeper.connect(chroot, tls=True)
        for _ in range(_ATTEMPTS):
            done = apache_kafka.run_tool(
                _CONFIG_COMMAND, "--zookeeper", connect, "--zk-tls-config-file", str(file),
                "--alter", *change, version=ZOOKEEPER_LINE, java_options=[self.java_options],
            )  # fmt: skip
            if _TOO_SLOW not in done.stderr:
                break
        assert done.returncode == 0, done.stdout + done.stderr

    def wrong_rights(self, chroot: str) -> dict[str, str]:
        """The nodes below a chroot that have other rights than in the golden tree, where each is like
        the nearest one above it.
        """
        with _GOLDEN.open() as lines:
            rows = csv.DictReader(lines, delimiter="\t")
            golden = {row["path"]: row["rights"] for row in rows} | _OWN
        found = self._rights(chroot)

        def wanted(path: str) -> str:
            while path not in golden:
                path = path.rpartition("/")[0] or "/"
            makers = " ".join(f"{maker}:31" for maker in sorted(MAKERS))
            parts = golden[path].replace("MAKER:31", makers).replace("WORLD:", "world:anyone:")
            return " ".join(sorted(parts.split(" ")))

        assert len(found) > 20
        return {
            path: rights
            for path, rights in found.items()
            if " ".join(sorted(rights.split(" "))) != wanted(path)
        }

    def _rights(self, chroot: str) -> dict[str, str]:
        client = KazooClient(self.zookeeper.connect(), timeout=30, auth_data=[("digest", SUPER)])
        client.start(30)
        found, paths = {}, ["/" + name for name in client.get_children(chroot)]
        for path in paths:
            acls, _ = client.get_acls(chroot + path)
            given = {f"{acl.id.scheme}:{acl.id.id}": acl.perms for acl in acls}
            found[path] = " ".join(f"{who}:{perms}" for who, perms in sorted(given.items()))
            paths += [f"{path}/{name}" for name in client.get_children(chroot + path)]
        client.stop()
        client.close()
        return found


@contextmanager
def secured_tree(folder: Path) -> Iterator[SecuredTree]:
    """Start the server, with an authority and certificates in the folder."""
    authority = Authority(folder / "authority")
    server = authority.issue("zookeeper", kind="rsa")
    own = authority.issue("broker", subject="/O=Org/CN=broker", kind="rsa").pem
    with secure_zookeeper(folder / "zookeeper", server.pem, authority.certificate) as zookeeper:
        yield SecuredTree(zookeeper, authority, own)
