"""What two brokers leave in a real ZooKeeper is what two brokers of Apache Kafka 3.9.2 left there:
paths, data with the order of its keys, ephemeral nodes, versions and ACLs.

The expectation is the dumps and events in tests/golden/zookeeper. The actions are those of their
series that need no second replica; `--target kafka` plays them with Apache Kafka 3.9.2 again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from compat_tests.cluster.processes import Cluster
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from compat_tests.wire.wire_client import (
    CREATE_PARTITIONS,
    DELETE_TOPICS,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    code,
)

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "zookeeper"
OFFSETS_TOPIC = "__consumer_offsets"
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
LEFT_OUT = ("/kafka-acl", "/zookeeper")  # ACLs are not there yet
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "1048576",
    "auto.leader.rebalance.enable": "false",
}
# Made by the parts that are not there yet: quotas and SCRAM users.
KINDS_NOT_THERE_YET = ("/config/clients/", "/config/users/", "/config/ips/")


@dataclass(frozen=True)
class Node:
    """One node. `data` without what differs from run to run."""

    data: str | None
    is_ephemeral: bool
    version: int
    cversion: int
    acl: tuple[str, ...]


Tree = dict[str, Node]


class TwoBrokers(Cluster):
    """Brokers 0 and 1, as in the fixture, each with a rack."""

    def __init__(self, directory: Path, zookeeper: ZooKeeperServers, kind: str) -> None:
        super().__init__(directory, zookeeper, [kind, kind], SETTINGS, chroot="/two")
        self.kinds = {0: kind, 1: kind}
        self.brokers = {number: self._broker(number, kind) for number in (0, 1)}
        for number in (0, 1):
            self.set_up(number, broker_rack=f"r{number}")

    def controller_id(self) -> int:
        return int(until(lambda: str(self.tree.controller_id()).strip("None"), "a controller"))

    def dump(self) -> Tree:
        """The whole tree."""
        client = KazooClient(hosts=self.connect)
        client.start(30)
        try:
            return dict(_walk(client, "/"))
        finally:
            client.stop()
            client.close()

    def alter(self, broker: int, kind: int, name: str, **changes: str | None) -> None:
        """Set (None: delete) settings, asked of one broker."""
        configs = [
            {
                "name": key.replace("_", "."),
                "config_operation": DELETE if value is None else SET,
                "value": value,
            }
            for key, value in changes.items()
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        with self.wire(broker) as wire:
            (said,) = wire.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
        assert code(said.error_code, said.error_message) == "0"

    def ask(self, broker: int, api: Any, version: int, **fields: Any) -> Any:
        with self.wire(broker) as wire:
            return wire.call(api, version, **fields)


def _walk(client: KazooClient, path: str) -> Iterator[tuple[str, Node]]:
    data, stat = client.get(path)
    acls, _ = client.get_acls(path)
    acl = tuple(f"{a.id.scheme}:{a.id.id}:{a.perms}" for a in acls)
    text = None if data is None or data == b"" else data.decode()
    yield path, Node(masked(text), stat.ephemeralOwner != 0, stat.version, stat.cversion, acl)
    for name in sorted(client.get_children(path)):
        child = f"{path.rstrip('/')}/{name}"
        if not child.startswith(LEFT_OUT):
            yield from _walk(client, child)


def masked(data: str | None) -> str | None:
    """Data without times, ports and ids made at random."""
    if data is None:
        return None
    data = re.sub(r'"timestamp":"\d+"', '"timestamp":"-"', data)
    # A kbroker supports features that brokers of Kafka have without ZooKeeper only.
    of_feature = r'"(group|transaction)\.version":\{[^}]*\}'
    data = re.sub(rf'"features":\{{{of_feature}(,{of_feature})*\}}', '"features":{}', data)
    data = re.sub(r'(127\.0\.0\.1:|"port":)\d+', r"\1-", data)
    return re.sub(r'"(topic_id|id)":"[\w-]{22}"', r'"\1":"-"', data)


def fixture_tree(name: str) -> Tree:
    lines = map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
    return {
        line["path"]: Node(
            masked(line["data"] or None),
            line["ephemeral"],
            line["version"],
            line["cversion"],
            tuple(line["acl"]),
        )
        for line in lines
        if not line["path"].startswith(LEFT_OUT)
    }


@dataclass
class Series:
    """The trees at some moments of the series."""

    fresh: Tree
    full: Tree
    killed: Tree
    back: Tree
    deleted: Tree
    stopped: Tree


@pytest.fixture(scope="module")
def series(
    kind: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Series:
    with TwoBrokers(tmp_path_factory.mktemp("two"), zookeeper, kind) as cluster:
        return play(cluster)


def play(cluster: TwoBrokers) -> Series:
    cluster.start(0)
    until(lambda: cluster.tree.get("/feature"), "the controller is through")
    fresh = cluster.dump()
    cluster.start(1)
    make_topics(cluster)
    change_settings(cluster)
    take_producer_ids(cluster)
    ask_by_nodes(cluster)
    full = cluster.dump()
    cluster.kill(1)
    until(lambda: cluster.tree.leaders("plain") == {0: -1}, "plain has no leader")
    until(lambda: cluster.tree.leaders("orders") == {0: -1, 1: 0, 2: -1}, "orders neither")
    until(lambda: -1 in cluster.tree.leaders(OFFSETS_TOPIC).values(), "offsets neither")
    killed = cluster.dump()
    cluster.start(1)
    for topic in ("plain", "orders", OFFSETS_TOPIC):
        until(lambda t=topic: -1 not in cluster.tree.leaders(t).values(), f"{topic} is led")
    back = cluster.dump()
    answer = cluster.ask(0, DELETE_TOPICS, 5, topic_names=["orders"], timeout=20_000)
    assert code(answer.responses[0].error_code) == "0"
    until(lambda: not cluster.tree.children("/admin/delete_topics"), "orders is gone")
    deleted = cluster.dump()
    cluster.stop(1)
    until(lambda: cluster.tree.leaders("plain") == {0: -1}, "plain has no leader")
    cluster.stop(0)
    return Series(fresh, full, killed, back, deleted, cluster.dump())


def make_topics(cluster: TwoBrokers) -> None:
    cluster.create_topic("plain", 1)
    cluster.create_topic("moving", 0, 0)
    cluster.create_topic("orders", 1, 0, cleanup_policy="compact", retention_ms="86400000")
    growth = {"name": "orders", "count": 3, "assignments": [{"broker_ids": [1]}]}
    answer = cluster.ask(0, CREATE_PARTITIONS, 1, topics=[growth], timeout=20_000)
    assert code(answer.results[0].error_code) == "0"
    until(
        lambda: cluster.ask(0, FIND_COORDINATOR, 1, key="g", key_type=0).error_code == 0,
        "a coordinator",
    )
    until(lambda: len(cluster.tree.leaders(OFFSETS_TOPIC)) == 3, "the offsets topic")


def change_settings(cluster: TwoBrokers) -> None:
    cluster.alter(0, TOPIC, "orders", min_insync_replicas="2", retention_ms="90000000")
    cluster.alter(0, TOPIC, "orders", min_insync_replicas=None)
    cluster.alter(1, BROKER, "1", log_cleaner_threads="2")
    cluster.alter(0, BROKER, "", message_max_bytes="2000000")


def take_producer_ids(cluster: TwoBrokers) -> None:
    for number in (0, 1):
        until(
            lambda n=number: (
                cluster.ask(n, INIT_PRODUCER_ID, 1, transactional_id=None).error_code == 0
            ),
            "a producer id",
        )


def ask_by_nodes(cluster: TwoBrokers) -> None:
    """Wishes that change nothing: their nodes go."""
    wishes = {
        "/admin/preferred_replica_election": b'{"version":1,"partitions":'
        b'[{"topic":"moving","partition":1}]}',
        "/admin/delete_topics/no-such-topic": b"",
        "/admin/reassign_partitions": b'{"version":1,"partitions":'
        b'[{"topic":"no-such-topic","partition":0,"replicas":[0]}]}',
    }
    for path, data in wishes.items():
        cluster.tree.create(path, data)
        until(lambda p=path: cluster.tree.node(p) is None, f"{path} has been worked")


# ---- what the trees have to be


def test_the_first_broker_leaves_kafkas_tree(series: Series) -> None:
    expected = fixture_tree("tree-one-fresh-broker")
    assert without_root(series.fresh) == without_root(expected)


def test_nodes_of_every_kind_look_as_in_kafkas_full_tree(series: Series) -> None:
    expected = shapes(fixture_tree("tree-3.9.2"))
    found = shapes(series.full)
    assert {kind: found[kind] for kind in found if found[kind] != expected.get(kind)} == {}
    missing = expected.keys() - found.keys()
    assert [kind for kind in missing if not kind.startswith(KINDS_NOT_THERE_YET)] == []


def test_topics_and_settings_hold_what_kafka_puts_there(series: Series) -> None:
    tree = series.full
    orders = '{"partitions":{"0":[1],"1":[0],"2":[1]},"topic_id":"-","adding_replicas":{},'
    assert tree["/brokers/topics/orders"].data == f'{orders}"removing_replicas":{{}},"version":3}}'
    assert tree["/brokers/topics/orders"].version == 1
    assert overrides(tree, "topics/orders") == {
        "cleanup.policy": "compact",
        "retention.ms": "90000000",
    }
    assert overrides(tree, "topics/plain") == {}
    expected = fixture_tree("tree-3.9.2")
    for same in (
        f"/config/topics/{OFFSETS_TOPIC}",
        "/config/brokers/<default>",
        "/config/topics/orders",
        *(f"/config/changes/config_change_000000000{n}" for n in range(4)),
    ):
        assert without_order(tree[same]) == without_order(expected[same])
    assert json.loads(tree["/latest_producer_id_block"].data or "") == {
        "version": 1,
        "broker": 1,
        "block_start": "1000",
        "block_end": "1999",
    }


def test_a_killed_broker_leaves_its_partitions_without_leader_and_they_come_back(
    series: Series,
) -> None:
    led_by_1 = ["plain/partitions/0", "orders/partitions/0", "orders/partitions/2"]
    for name in led_by_1:
        path = f"/brokers/topics/{name}/state"
        states = [tree[path].data for tree in (series.full, series.killed, series.back)]
        assert states == [state(1, 0), state(-1, 1), state(1, 2)]
        assert series.back[path].version == 2
    untouched = "/brokers/topics/moving/partitions/0/state"
    assert series.back[untouched] == series.full[untouched]
    assert "/brokers/ids/1" not in series.killed


def test_a_deleted_topic_leaves_nothing(series: Series) -> None:
    assert not any("orders" in path for path in series.deleted if "/changes/" not in path)
    assert series.deleted["/admin/delete_topics"].data is None


def test_a_clean_stop_leaves_no_ephemeral_node_and_the_states_kafka_leaves(series: Series) -> None:
    expected = fixture_tree("tree-all-stopped")
    assert [path for path, node in series.stopped.items() if node.is_ephemeral] == []
    assert "/controller" not in series.stopped
    assert series.stopped["/controller_epoch"].data in ("1", "2")
    # Broker 1 stopped first; nobody was left to note that broker 0 has gone as well.
    assert series.stopped["/brokers/topics/plain/partitions/0/state"].data == state(-1, 3)
    assert series.stopped["/brokers/topics/moving/partitions/0/state"].data == state(0, 0)
    assert shapes(series.stopped).items() <= (shapes(expected) | shapes(series.full)).items()


def test_a_wish_in_the_tree_moves_a_partition_and_its_node_goes(
    cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, 1)
    wish = {"topic": topic, "partition": 0, "replicas": [2]}
    path = "/admin/reassign_partitions"

    cluster.tree.create(path, json.dumps({"version": 1, "partitions": [wish]}).encode())
    until(lambda: cluster.tree.node(path) is None, "the wish has been worked")

    assert cluster.tree.assignment(topic) == {0: [2]}


def state(leader: int, leader_epoch: int) -> str:
    """The state of a partition whose one replica is broker 0 or 1, under the first controller."""
    isr = 1 if leader == -1 else leader
    return (
        f'{{"controller_epoch":1,"leader":{leader},"version":1,'
        f'"leader_epoch":{leader_epoch},"isr":[{isr}]}}'
    )


def without_root(tree: Tree) -> Tree:
    """Those who made the fixture, and the makers of our chroot, left marks at the root."""
    return {path: node for path, node in tree.items() if path != "/"}


def overrides(tree: Tree, entity: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(tree[f"/config/{entity}"].data or "")["config"]
    return found


def without_order(node: Node) -> tuple[Any, bool, tuple[str, ...]]:
    """Overrides come in the order of a Java hash table, which means nothing."""
    return json.loads(node.data or "null"), node.is_ephemeral, node.acl


def shapes(tree: Tree) -> dict[str, tuple[str, bool, tuple[str, ...]]]:
    """For every kind of node: the keys of its data in their order, the types of its values, whether
    it is ephemeral, and its ACL.
    """
    return {
        kind_of(path): (shape(node.data), node.is_ephemeral, node.acl)
        for path, node in tree.items()
        if path != "/"
    }


def kind_of(path: str) -> str:
    """A path without names and numbers."""
    for pattern, kind in (
        (r"/(brokers|config)/topics/[^/]+", r"/\1/topics/T"),
        (r"/partitions/\d+", "/partitions/N"),
        (r"/brokers/ids/\d+", "/brokers/ids/N"),
        (r"/config/brokers/\d+", "/config/brokers/N"),
        (r"config_change_\d{10}", "config_change_N"),
    ):
        path = re.sub(pattern, kind, path)
    return path


def shape(data: str | None) -> str:
    try:
        return _shape(json.loads(data or "null"))
    except ValueError:
        return "text"


def _shape(value: Any, name: str = "") -> str:
    if isinstance(value, dict):
        if name in ("config", "partitions", "adding_replicas", "removing_replicas"):
            return "map"
        return "{" + ",".join(f"{key}:{_shape(inner, key)}" for key, inner in value.items()) + "}"
    return type(value).__name__
