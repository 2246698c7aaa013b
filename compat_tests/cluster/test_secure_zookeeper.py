"""kbroker and Apache Kafka 3.9.2 over a ZooKeeper that asks who comes, by TLS and DIGEST-MD5 together,
with the same settings and the same JAAS file: each reads what the other made, and all nodes have the
rights that Apache Kafka gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.secured_rounds import run
from compat_tests.cluster.secured_tree import SecuredTree, secured_tree
from compat_tests.commands.command_line import completed
from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DELETE_TOPICS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    WireClient,
)

pytestmark = pytest.mark.java

KBROKER, APACHE = 1, 2
TOPIC, CLUSTER_DEFAULT, USER = (2, "both"), (4, ""), "ann"


@pytest.fixture(scope="module")
def secured(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredTree]:
    if target != "kbroker":
        pytest.skip("puts kbroker and Apache Kafka together")
    with secured_tree(tmp_path_factory.mktemp("secured")) as tree:
        yield tree


def test_nodes_of_both_kinds_of_brokers_have_kafka_s_rights_and_both_read_all(
    secured: SecuredTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", secured.java_options)
    with secured.cluster(tmp_path, ["kbroker", "apache"], "/kafka", {}) as cluster:
        cluster.start()
        for number in (KBROKER, APACHE):
            cluster.make_controller(number)
            cluster.create_topic(f"of-{number}", KBROKER, APACHE)
        cluster.create_topic("both", KBROKER, APACHE)
        for number, mechanism in ((KBROKER, 1), (APACHE, 2)):
            with cluster.wire(number) as wire:
                setting = "retention.ms" if number == KBROKER else "segment.bytes"
                wire.alter_config(TOPIC, setting, "9999")
                wire.alter_config(CLUSTER_DEFAULT, "log.cleaner.threads", str(number))
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
    secured: SecuredTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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

    def cluster(*arguments: str) -> str:
        ways = ("--zookeeper", connect, "--zookeeper-config", str(properties))
        done = completed(["cluster", *arguments, *ways])
        assert done.returncode == 0, done.stderr
        return done.stderr

    monkeypatch.setenv("KAFKA_OPTS", secured.java_options)
    cluster("export", "--data", str(alone.data))
    assert secured.wrong_rights("/moved") == {}
    assert "for everybody" in cluster("protect", "--open")
    assert set(secured.wrong_rights("/moved").values()) == {"world:anyone:31"}
    assert f"nodes of {connect}: for those with this login" in cluster("protect")
    assert secured.wrong_rights("/moved") == {}
    cluster("import", "--data", str(alone.data))
    monkeypatch.delenv("KAFKA_OPTS")
    alone.start()
    wire = WireClient(alone.bootstrap)
    found = wire.call(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results
    wire.close()
    alone.stop()
    assert [each.user for each in found] == [USER]


@pytest.mark.timeout(600)  # a JVM starts five times
def test_a_cluster_moves_to_sasl_ssl_and_loses_nothing_as_brokers_fail(
    secured: SecuredTree, tmp_path: Path
) -> None:
    """The short form of `secured_rounds`, in which brokers of both kinds are controller."""
    kinds = ["kbroker", "kbroker", "apache"]
    faults = ["edit_users", "kill_controller", "renew_certificates", "forget_password"]

    rounds = run(tmp_path, secured, kinds, faults, seed=1)

    assert rounds.faults.total() == 1 + len(faults)
    assert rounds.compared_bytes > 0
    assert len(rounds.users.refused_for_s) > 3
