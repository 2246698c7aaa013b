"""The writes of our controllers and brokers to the tree are those of Apache Kafka 3.9.2, event by
event, and so is the whole tree at the four moments it was dumped at.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache

import pytest

from kbroker.acl.acl import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.admin import new_topics
from kbroker.model import TopicPartition
from tests.fakes.trees.recording_tree import Transaction
from tests.scenarios.zookeeper.differences import (
    NO_RULES,
    RULES,
    Rule,
    deletions,
    emptied,
    masked,
    without_differences,
    without_features,
)
from tests.scenarios.zookeeper.fixture import (
    EVENT_NAMES,
    Node,
    dumped_tree,
    number_of,
    transactions_of,
)
from tests.scenarios.zookeeper.replay import BROKER, TOPIC, ReplayCluster, topic_ids

MOVING = [TopicPartition("moving", 0), TopicPartition("moving", 1)]
READ, LITERAL = AclOperation.READ, PatternType.LITERAL
ORDERS = AclPattern(AclResourceType.TOPIC, "orders", LITERAL)
TRANSACTIONS = AclPattern(AclResourceType.TRANSACTIONAL_ID, "tx", PatternType.PREFIXED)
DUMPED_AFTER = {
    "tree-one-fresh-broker": 1,
    "tree-3.9.2": 21,
    "tree-one-broker-dead": 27,
    "tree-all-stopped": 38,
}


@cache
def played() -> tuple[dict[int, list[Transaction]], dict[int, dict[str, Node]]]:
    """The writes by number of event, and the trees at the moments of the dumps."""
    with pytest.MonkeyPatch.context() as patch:
        ids = topic_ids()
        patch.setattr(new_topics, "uuid4", lambda: next(ids))
        return asyncio.run(play())


async def play() -> tuple[dict[int, list[Transaction]], dict[int, dict[str, Node]]]:
    cluster = ReplayCluster()
    writes, trees = {}, {}
    try:
        for name in EVENT_NAMES:
            number = number_of(name)
            await ACTIONS[number](cluster)
            await cluster.settle()
            writes[number] = cluster.tree.take()
            if number in DUMPED_AFTER.values():
                trees[number] = tree_of(cluster)
    finally:
        await cluster.authorizer.stop()
        await cluster.stop()
    return writes, trees


def tree_of(cluster: ReplayCluster) -> dict[str, Node]:
    return {
        path: Node(
            path=path,
            data=None if data is None else data.decode(),
            is_ephemeral=stat.ephemeral_owner != 0,
            version=stat.version,
            cversion=stat.cversion,
        )
        for path, data, stat in cluster.tree.dump()
    }


@pytest.mark.parametrize("name", EVENT_NAMES)
def test_event_writes_what_kafka_writes(name: str) -> None:
    ours = without_differences(played()[0][number_of(name)])
    assert lines(ours) == lines(without_differences(transactions_of(name)))


@pytest.mark.parametrize("name", DUMPED_AFTER)
def test_tree_is_that_of_kafka(name: str) -> None:
    writes, trees = played()
    before = range(1, DUMPED_AFTER[name] + 1)
    raised = deletions(t for number in before for t in writes[number])
    left = emptied(t for number in before for t in writes[number])
    parents = [path.rpartition("/")[0] for path in left]
    wanted = {
        path: replace(
            node,
            version=node.version + raised[path],
            cversion=node.cversion - parents.count(path),  # by deletions of children
        )
        for path, node in dumped_tree(name).items()
    }
    for path in left:
        wanted[path] = Node(path=path, data=NO_RULES, is_ephemeral=False, version=1, cversion=0)
    assert nodes(trees[DUMPED_AFTER[name]]) == nodes(wanted)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_allowed_difference_is_there(rule: Rule) -> None:
    others = [other for other in RULES if other is not rule]
    assert any(
        without_differences(played()[0][number_of(name)], others)
        != without_differences(transactions_of(name), others)
        for name in EVENT_NAMES
    )


def lines(transactions: list[Transaction]) -> list[str]:
    return [f"{t.by}: {'; '.join(map(str, t.writes))}" for t in transactions]


def nodes(tree: dict[str, Node]) -> list[str]:
    """The nodes as text. Left out is the root: those who made the dumps left marks there."""
    shown = []
    for path, node in sorted(tree.items()):
        data = node.data and without_features(masked(node.data))
        if path != "/":
            shown.append(
                f"{path} {data} ephemeral={node.is_ephemeral}"
                f" version={node.version} cversion={node.cversion}"
            )
    return shown


# ---- the actions


async def first_start(cluster: ReplayCluster) -> None:
    await cluster.start_broker(0)
    await cluster.authorizer.start()


async def two_topics_at_once(cluster: ReplayCluster) -> None:
    await cluster.create_topics(
        cluster.topic("plain", partitions=1, factor=1),
        cluster.topic("manual", assignment=[[1, 0], [0, 1]]),
    )


async def move_whole_way(cluster: ReplayCluster) -> None:
    await cluster.reassign(MOVING[1], (1,))


async def move_slowly(cluster: ReplayCluster) -> None:
    for broker in cluster.following():
        broker.is_slow = True
    await cluster.reassign(MOVING[0], (1,))


async def set_quotas(cluster: ReplayCluster) -> None:
    produce, connections = "producer_byte_rate", "connection_creation_rate"
    for entity, key, value in (
        ({"client-id": "app-1"}, produce, 100_000),
        ({"client-id": None}, "consumer_byte_rate", 200_000),
        ({"user": "alice"}, "request_percentage", 50),
        ({"user": None}, "controller_mutation_rate", 10),
        ({"user": "alice", "client-id": "app-1"}, produce, 1),
        ({"user": "alice", "client-id": None}, produce, 2),
        ({"user": "a b/c@d", "client-id": "x y"}, produce, 3),
        ({"ip": "127.0.0.1"}, connections, 1_000),
        ({"ip": None}, connections, 2_000),
    ):
        await cluster.alter_quota(entity, key, value)


async def set_credentials(cluster: ReplayCluster) -> None:
    """Those of the fixture, whose passwords nobody knows any more."""
    for transaction in transactions_of("12-scram-users-set"):
        for write in transaction.writes:
            if write.path.startswith("/config/users/"):
                stored = json.loads(write.data or "")["config"]
                scram = {name: text for name, text in stored.items() if name.startswith("SCRAM-")}
                await cluster.alter_user(write.path.rpartition("/")[2], stored=scram)


async def create_rules(cluster: ReplayCluster) -> None:
    kind, bob = AclResourceType, Acl("User:bob", "127.0.0.1", READ, Permission.ALLOW)
    forbidden = Acl("User:alice", "*", AclOperation.IDEMPOTENT_WRITE, Permission.DENY)
    await cluster.create_rules(AclPattern(kind.CLUSTER, CLUSTER_NAME, LITERAL), forbidden)
    await cluster.create_rules(AclPattern(kind.TOPIC, "ord", PatternType.PREFIXED), bob)
    await cluster.create_rules(AclPattern(kind.TOPIC, "*", LITERAL), alice(READ))
    await cluster.create_rules(AclPattern(kind.GROUP, "g", LITERAL), alice(READ))
    await cluster.create_rules(ORDERS, alice(READ), alice(AclOperation.WRITE))
    await cluster.create_rules(TRANSACTIONS, alice(READ))


async def delete_rules(cluster: ReplayCluster) -> None:
    await cluster.delete_rule(ORDERS, alice(AclOperation.WRITE))
    await cluster.delete_rule(TRANSACTIONS, alice(READ))


def alice(operation: AclOperation) -> Acl:
    """A rule that allows her something."""
    return Acl("User:alice", "*", operation, Permission.ALLOW)


async def cancel_move(cluster: ReplayCluster) -> None:
    await cluster.reassign(MOVING[0], None)
    for broker in cluster.following():
        broker.is_slow = False


async def delete_with_dead_replica(cluster: ReplayCluster) -> None:
    await cluster.kill_broker(0)
    await cluster.settle()
    await cluster.delete_topic("manual")


async def stop_all(cluster: ReplayCluster) -> None:
    await cluster.stop_broker(0)
    await cluster.settle()
    await cluster.stop_broker(1)


def topic_config(changes: dict[str, str | None]) -> Callable[[ReplayCluster], Awaitable[None]]:
    return lambda c: c.alter_configs(c.controller, TOPIC, "orders", changes)


ACTIONS: dict[int, Callable[[ReplayCluster], Awaitable[None]]] = {
    1: first_start,
    2: lambda c: c.start_broker(1),
    3: lambda c: c.create_topics(
        c.topic(
            "orders",
            partitions=2,
            factor=2,
            configs={"cleanup.policy": "compact", "retention.ms": "86400000"},
        )
    ),
    4: two_topics_at_once,
    5: lambda c: c.add_partitions("orders", 3),
    6: topic_config({"min.insync.replicas": "2", "retention.ms": "90000000"}),
    7: topic_config({"min.insync.replicas": None}),
    8: lambda c: c.alter_configs(c.brokers[1], BROKER, "1", {"log.cleaner.threads": "2"}),
    9: lambda c: c.alter_configs(c.controller, BROKER, "", {"message.max.bytes": "2000000"}),
    10: set_quotas,
    11: lambda c: c.alter_quota({"client-id": "app-1"}, "producer_byte_rate", None),
    12: set_credentials,
    13: lambda c: c.alter_user("bob", deleted=["SCRAM-SHA-512"]),
    14: create_rules,
    15: delete_rules,
    16: lambda c: c.allocate_producer_ids(),
    17: lambda c: c.create_offsets_topic(),
    18: lambda c: c.create_topics(c.topic("moving", assignment=[[0], [0]])),
    19: move_whole_way,
    20: lambda c: c.throttle("1000", ("0:0", "0:1")),
    21: move_slowly,
    22: cancel_move,
    23: lambda c: c.throttle(None, None),
    24: lambda c: c.stop_broker(1),
    25: lambda c: c.return_broker(1),
    26: lambda c: c.elect_preferred(),
    27: lambda c: c.kill_broker(1),
    28: lambda c: c.return_broker(1),
    29: lambda c: c.kill_broker(0),
    30: lambda c: c.return_broker(0),
    31: lambda c: c.delete_topic("orders"),
    32: delete_with_dead_replica,
    33: lambda c: c.return_broker(0),
    34: lambda c: c.ask_by_node(
        "preferred_replica_election",
        {"version": 1, "partitions": [{"topic": "moving", "partition": 1}]},
    ),
    35: lambda c: c.ask_by_node(
        "reassign_partitions",
        {"version": 1, "partitions": [{"topic": "moving", "partition": 0, "replicas": [1, 0]}]},
    ),
    36: lambda c: c.ask_by_node("delete_topics/moving", None),
    37: lambda c: c.ask_by_node("delete_topics/no-such-topic", None),
    38: stop_all,
}
