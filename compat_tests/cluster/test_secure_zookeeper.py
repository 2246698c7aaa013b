"""kbroker and Apache Kafka 3.9.2 over a ZooKeeper that asks who comes, by TLS and DIGEST-MD5 together,
with the same settings and the same JAAS file: each reads what the other made, and all nodes have the
rights that Apache Kafka gives them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from compat_tests.cluster.processes import Cluster
from compat_tests.commands.command_line import completed
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.secure_zookeeper import SUPER, SecureZooKeeper, secure_zookeeper
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DELETE_TOPICS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    INCREMENTAL_ALTER_CONFIGS,
    WireClient,
    code,
)
from tests.fakes.certificates import Authority

pytestmark = pytest.mark.java

KBROKER, APACHE = 1, 2
GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "zookeeper" / "rights-3.9.2.tsv"
MAKERS = "x509:CN=broker,O=Org", "sasl:kafka"
TOPIC, CLUSTER_DEFAULT, USER = (2, "both"), (4, ""), "ann"


class Secured:
    """A ZooKeeper, and what brokers are told of it."""

    def __init__(self, zookeeper: SecureZooKeeper, authority: Authority, own: Path) -> None:
        self.zookeeper = zookeeper
        self.settings = {
            "zookeeper.set.acl": "true",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(own),
            "zookeeper.ssl.truststore.location": str(authority.certificate),
        }
        self.java_options = f"-Djava.security.auth.login.config={zookeeper.login_file()}"

    def wrong_rights(self, chroot: str) -> dict[str, str]:
        """The nodes below a chroot that have other rights than in the golden tree, where each is like
        the nearest one above it.
        """
        with GOLDEN.open() as lines:
            golden = {row["path"]: row["rights"] for row in csv.DictReader(lines, delimiter="\t")}
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


@pytest.fixture(scope="module")
def secured(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if target != "kbroker":
        pytest.skip("puts kbroker and Apache Kafka together")
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "authority")
    server = authority.issue("zookeeper", kind="rsa")
    own = authority.issue("broker", subject="/O=Org/CN=broker", kind="rsa").pem
    with secure_zookeeper(folder / "zookeeper", server.pem, authority.certificate) as zookeeper:
        yield Secured(zookeeper, authority, own)


def alter(wire: WireClient, resource: tuple[int, str], name: str, value: str) -> None:
    change = {"name": name, "config_operation": 0, "value": value}
    kind, resource_name = resource
    asked = {"resource_type": kind, "resource_name": resource_name, "configs": [change]}
    (answer,) = wire.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked]).responses
    assert code(answer.error_code, answer.error_message) == "0"


def test_nodes_of_both_kinds_of_brokers_have_kafka_s_rights_and_both_read_all(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", secured.java_options)
    servers, kinds = secured.zookeeper.servers, ["kbroker", "apache"]
    java_options = (secured.java_options,)
    with Cluster(tmp_path, servers, kinds, secured.settings, java_options=java_options) as cluster:
        over_tls = secured.zookeeper.connect("/kafka", tls=True)
        for broker in cluster.brokers.values():
            if isinstance(broker, ApacheBroker):
                broker.zookeeper = over_tls
            else:
                given = broker.options
                broker.options = tuple(over_tls if o == cluster.connect else o for o in given)
        cluster.tree.client.add_auth("digest", SUPER)
        cluster.start()
        for number in (KBROKER, APACHE):
            cluster.make_controller(number)
            cluster.create_topic(f"of-{number}", KBROKER, APACHE)
        cluster.create_topic("both", KBROKER, APACHE)
        for number, mechanism in ((KBROKER, 1), (APACHE, 2)):
            with cluster.wire(number) as wire:
                alter(wire, TOPIC, "retention.ms" if number == KBROKER else "segment.bytes", "9999")
                alter(wire, CLUSTER_DEFAULT, "log.cleaner.threads", str(number))
                credential = {"name": USER, "mechanism": mechanism, "iterations": 4096,
                              "salt": b"salt", "salted_password": b"p" * 32}  # fmt: skip
                done = wire.call(
                    ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[credential]
                )
                assert [each.error_code for each in done.results] == [0]
                wire.call(DELETE_TOPICS, 5, topic_names=[f"of-{number}"], timeout=20_000)
        until(lambda: cluster.tree.topics() == ["both"], "topics of both are deleted by either")
        cluster.restart(KBROKER)

        told = []
        for number in (KBROKER, APACHE):
            with cluster.wire(number) as wire:
                told.append(wire.call(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results)
        assert [len(each.credential_infos) for each in told[0]] == [2]
        assert told[0] == told[1]
        assert cluster.tree.config("topics", "both") == {
            "retention.ms": "9999",
            "segment.bytes": "9999",
        }
        assert secured.wrong_rights("/kafka") == {}
        assert "Traceback" not in cluster.brokers[KBROKER].log_text()


def test_a_directory_goes_there_with_kafka_s_rights_and_comes_back(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = BrokerProcess(tmp_path / "data")
    alone.start()
    with_login = {"name": USER, "mechanism": 1, "iterations": 4096,
                  "salt": b"salt", "salted_password": b"p" * 32}  # fmt: skip
    wire = WireClient(alone.bootstrap)
    wire.create_topic("t", 1, {})
    wire.call(ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[with_login])
    wire.close()
    assert alone.stop() == 0
    properties, connect = (
        tmp_path / "server.properties",
        secured.zookeeper.connect("/moved", tls=True),
    )
    values = secured.settings | {"listeners": "SASL_SSL://nowhere:1"}  # which is of no matter
    properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def run(*arguments: str) -> str:
        ways = ("--zookeeper", connect, "--zookeeper-config", str(properties))
        done = completed(["cluster", *arguments, *ways])
        assert done.returncode == 0, done.stderr
        return done.stderr

    monkeypatch.setenv("KAFKA_OPTS", secured.java_options)
    run("export", "--data", str(alone.data))
    assert secured.wrong_rights("/moved") == {}
    assert "for everybody" in run("protect", "--open")
    assert set(secured.wrong_rights("/moved").values()) == {"world:anyone:31"}
    assert f"nodes of {connect}: for those with this login" in run("protect")
    assert secured.wrong_rights("/moved") == {}
    run("import", "--data", str(alone.data))
    monkeypatch.delenv("KAFKA_OPTS")
    alone.start()
    wire = WireClient(alone.bootstrap)
    found = wire.call(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results
    wire.close()
    alone.stop()
    assert [each.user for each in found] == [USER]
