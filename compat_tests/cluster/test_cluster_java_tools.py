"""Apache Kafka's own tools and a cluster: those that speak to brokers, through any of them, and those
of 3.9.2 that speak to ZooKeeper; what is changed in the tree by hand is taken over.
"""

from __future__ import annotations

import json
from functools import partial

import pytest

from compat_tests.cluster.processes import Cluster
from compat_tests.commands.tool_runner import run_tool
from compat_tests.running import apache_kafka
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import DESCRIBE_CONFIGS

pytestmark = pytest.mark.java

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
SHELL = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
TOPIC, BROKER = 2, 4


def tool(main_class: str, *args: str, version: str = ZOOKEEPER_LINE, stdin: str = "") -> str:
    run = apache_kafka.run_tool if main_class == SHELL else run_tool
    done = run(main_class, *args, version=version, stdin=stdin)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


def config_told(cluster: Cluster, broker_id: int, kind: int, name: str, key: str) -> str:
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
    with cluster.wire(broker_id) as wire:
        answer = wire.call(DESCRIBE_CONFIGS, 4, resources=[asked])
    return str(answer.results[0].configs[0].value)


def is_told(
    cluster: Cluster, broker_id: int, resource: tuple[int, str], key: str, value: str
) -> bool:
    return config_told(cluster, broker_id, *resource, key) == value


def topics_told(cluster: Cluster, broker_id: int) -> set[str]:
    with cluster.wire(broker_id) as wire:
        answer = wire.call(3, 8, topics=None, allow_auto_topic_creation=False)
    return {t.name for t in answer.topics}


def not_controllers(cluster: Cluster) -> list[int]:
    return [n for n in cluster.ids if n != cluster.controller_id()]


def test_kafka_topics_does_all_its_work_through_any_broker(cluster: Cluster, topic: str) -> None:
    first, second = (cluster.address(n) for n in not_controllers(cluster))

    def topics(bootstrap: str, *args: str) -> str:
        return tool(TOPIC_COMMAND, "--bootstrap-server", bootstrap, *args)

    created = topics(
        first, "--create", "--topic", topic, "--replica-assignment", "1,2,3",
        "--config", "retention.ms=600000",
    )  # fmt: skip
    described = topics(second, "--describe", "--topic", topic)
    topics(first, "--alter", "--topic", topic, "--partitions", "5")
    grown = cluster.tree.assignment(topic)
    topics(second, "--delete", "--topic", topic)
    left = topics(first, "--list")

    assert f"Created topic {topic}." in created
    assert "PartitionCount: 3" in described
    assert "retention.ms=600000" in described
    for number in cluster.ids:
        assert f"Leader: {number}\tReplicas: {number}\tIsr: {number}" in described
    assert len(grown or {}) == 5
    assert topic not in left.split()
    until(lambda: topic not in cluster.tree.topics(), "it is gone")


def test_kafka_configs_changes_topics_and_brokers(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, *cluster.ids)
    at = not_controllers(cluster)[0]
    bootstrap = ("--bootstrap-server", cluster.address(at))

    tool(CONFIG_COMMAND, *bootstrap, "--alter", "--topic", topic,
         "--add-config", "retention.ms=123456,max.message.bytes=200000")  # fmt: skip
    tool(CONFIG_COMMAND, *bootstrap, "--alter", "--topic", topic,
         "--delete-config", "max.message.bytes")  # fmt: skip
    told = tool(CONFIG_COMMAND, *bootstrap, "--describe", "--topic", topic)
    tool(CONFIG_COMMAND, *bootstrap, "--alter", "--broker", str(at),
         "--add-config", "log.cleaner.threads=2")  # fmt: skip
    tool(CONFIG_COMMAND, *bootstrap, "--alter", "--broker-defaults",
         "--add-config", "log.retention.ms=7654321", version=NEWEST)  # fmt: skip

    assert "retention.ms=123456" in told
    assert "max.message.bytes=200000" not in told
    assert cluster.tree.config("topics", topic) == {"retention.ms": "123456"}
    assert cluster.tree.config("brokers", str(at)) == {"log.cleaner.threads": "2"}
    assert cluster.tree.config("brokers", "<default>") == {"log.retention.ms": "7654321"}
    for number in cluster.ids:
        threads = "2" if number == at else "1"
        until(partial(is_told, cluster, number, (TOPIC, topic), "retention.ms", "123456"))
        own = (BROKER, str(number))
        until(partial(is_told, cluster, number, own, "log.cleaner.threads", threads))
        until(partial(is_told, cluster, number, own, "log.retention.ms", "7654321"))


def test_kafka_configs_with_zookeeper_shows_and_changes_settings(cluster: Cluster) -> None:
    """Kafka 3.9 allows it only while no broker runs; SCRAM users may be changed at any time."""
    name = str(not_controllers(cluster)[0])
    zookeeper = ("--zookeeper", cluster.connect)
    refused = run_tool(
        CONFIG_COMMAND, *zookeeper, "--alter", "--entity-type", "brokers", "--entity-name", name,
        "--add-config", "log.cleaner.threads=2", version=ZOOKEEPER_LINE,
    )  # fmt: skip
    refused_text = refused.stdout + refused.stderr

    tool(CONFIG_COMMAND, *zookeeper, "--alter", "--entity-type", "brokers", "--entity-name", "99",
         "--add-config", "log.retention.ms=1234567")  # fmt: skip
    shown = tool(CONFIG_COMMAND, *zookeeper, "--describe", "--entity-type", "brokers",
                 "--entity-name", "99")  # fmt: skip
    tool(CONFIG_COMMAND, *zookeeper, "--alter", "--entity-type", "users", "--entity-name", "alice",
         "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")  # fmt: skip

    told = tool(CONFIG_COMMAND, "--bootstrap-server", cluster.address(cluster.ids[0]), "--describe",
                "--entity-type", "users", "--entity-name", "alice")  # fmt: skip

    assert f"broker {name} is running" in refused_text or "--bootstrap-server" in refused_text
    assert "log.retention.ms=1234567" in shown
    assert cluster.tree.config("brokers", "99") == {"log.retention.ms": "1234567"}
    assert "SCRAM-SHA-256" in cluster.tree.config("users", "alice")
    assert told == (
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=4096\n"
    )
    for number in cluster.ids:
        assert cluster.is_running(number)


def test_zookeeper_shell_sees_the_cluster(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 2)

    said = tool(
        SHELL, "-server", cluster.connect,
        stdin=f"ls /brokers/ids\nget /controller\nget /brokers/topics/{topic}/partitions/0/state\n",
    )  # fmt: skip

    assert str(cluster.ids) in said
    assert f'"brokerid":{cluster.tree.controller_id()},' in said
    state = json.loads(next(line for line in said.splitlines() if '"leader_epoch"' in line))
    assert (state["leader"], state["isr"]) == (2, [2])


def test_a_topic_made_and_deleted_in_the_tree_by_hand_is_taken_over(
    cluster: Cluster, topic: str
) -> None:
    made = json.dumps({"version": 3, "partitions": {"0": [1], "1": [3]}, "topic_id": "TaZlG-c7RiahHy1K2HRWXg",
                       "adding_replicas": {}, "removing_replicas": {}}, separators=(",", ":"))  # fmt: skip
    tool(SHELL, "-server", cluster.connect, stdin=f"create /brokers/topics/{topic} {made}\n")

    cluster.wait_for_leaders(topic, {0: 1, 1: 3})
    with cluster.wire(3) as wire:
        assert wire.produce(topic, batch(), partition=1).startswith("0; base_offset=0;")

    tool(SHELL, "-server", cluster.connect, stdin=f"create /admin/delete_topics/{topic} ''\n")

    until(lambda: topic not in cluster.tree.topics(), "the topic is gone")
    for number in cluster.ids:
        until(lambda n=number: topic not in topics_told(cluster, n), f"broker {number} forgets it")
    assert topic not in cluster.tree.children("/admin/delete_topics")


def test_settings_changed_in_the_tree_by_hand_are_taken_over_with_their_notification(
    cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, *cluster.ids)
    config = json.dumps(
        {"version": 1, "config": {"retention.ms": "4242424"}}, separators=(",", ":")
    )
    note = json.dumps({"version": 2, "entity_path": f"topics/{topic}"}, separators=(",", ":"))
    node = f"/config/topics/{topic}"
    verb = "set" if cluster.tree.node(node) else "create"

    tool(SHELL, "-server", cluster.connect,
         stdin=f"{verb} {node} {config}\ncreate -s /config/changes/config_change_ {note}\n")  # fmt: skip

    for number in cluster.ids:
        until(partial(is_told, cluster, number, (TOPIC, topic), "retention.ms", "4242424"))


def test_partitions_added_in_the_tree_by_hand_are_led(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    path = f"/brokers/topics/{topic}"
    node = json.loads(cluster.tree.get(path) or b"{}")
    node["partitions"]["1"] = [2]

    tool(SHELL, "-server", cluster.connect,
         stdin=f"set {path} {json.dumps(node, separators=(',', ':'))}\n")  # fmt: skip

    cluster.wait_for_leaders(topic, {0: 1, 1: 2})


def test_nodes_that_nobody_understands_harm_no_broker(cluster: Cluster, topic: str) -> None:
    cluster.tree.create(f"/brokers/topics/{topic}-odd", b"this is no JSON")
    cluster.tree.create("/config/changes/config_change_", b"{", sequence=True)
    cluster.tree.create(f"/admin/delete_topics/{topic}-never-there")

    cluster.create_topic(topic, *cluster.ids)

    until(lambda: not cluster.tree.children("/admin/delete_topics"), "the wish is answered")
    cluster.tree.delete(f"/brokers/topics/{topic}-odd")
    assert all(cluster.is_running(number) for number in cluster.ids)
