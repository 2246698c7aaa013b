"""What a cluster's metadata must be: topics with their partitions and settings, compared with the
tree in ZooKeeper and with what every broker tells clients.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from compat_tests.clients.raw_connection import ClosedError, SilenceError
from compat_tests.cluster.processes import Cluster
from compat_tests.wire.wire_client import DESCRIBE_CONFIGS, METADATA, code

INTERNAL = "__consumer_offsets"
TOPIC_RESOURCE, DYNAMIC_TOPIC_CONFIG = 2, 1
UNREACHABLE = (OSError, ClosedError, SilenceError)


@dataclass
class ModelTopic:
    """A topic that clients were told exists."""

    partitions: int
    configs: dict[str, str] = field(default_factory=dict)


Model = dict[str, ModelTopic]
# Leader, leader epoch, replicas, in-sync replicas of each partition.
Partitions = dict[int, tuple[int, int, tuple[int, ...], tuple[int, ...]]]


def differences(cluster: Cluster, model: Model) -> list[str]:
    """In what the tree differs from the model, and each broker from the tree; [] when quiet."""
    tree = {topic: _partitions_in_tree(cluster, topic) for topic in cluster.tree.topics()}
    found = [*_tree_differences(cluster, model, tree)]
    for number in cluster.ids:
        try:
            found += [f"broker {number}: {what}" for what in _told(cluster, number, model, tree)]
        except UNREACHABLE as error:
            found.append(f"broker {number} cannot be asked: {error!r}")
    return found


def _partitions_in_tree(cluster: Cluster, topic: str) -> Partitions:
    found: Partitions = {}
    for number, replicas in (cluster.tree.assignment(topic) or {}).items():
        state = cluster.tree.partition_state(topic, number)
        found[number] = (
            (-2, -2, tuple(replicas), ())
            if state is None
            else (state.leader, state.leader_epoch, tuple(replicas), state.isr)
        )
    return found


def _tree_differences(cluster: Cluster, model: Model, tree: dict[str, Partitions]) -> Iterable[str]:
    view = cluster.tree
    if view.broker_ids() != cluster.ids:
        yield f"registered are {view.broker_ids()}"
    if view.controller_id() not in cluster.ids:
        yield f"the controller is {view.controller_id()}"
    if doomed := view.children("/admin/delete_topics"):
        yield f"still being deleted: {doomed}"
    if tree.keys() - {INTERNAL} != model.keys():
        yield (
            f"topics too many in the tree: {sorted(tree.keys() - {INTERNAL} - model.keys())}, "
            f"missing: {sorted(model.keys() - tree.keys())}"
        )
    for topic in sorted(model.keys() & tree.keys()):
        if sorted(tree[topic]) != list(range(model[topic].partitions)):
            yield f"{topic} has the partitions {sorted(tree[topic])} in the tree"
        if (configs := view.config("topics", topic)) != model[topic].configs:
            yield f"{topic} has {configs} in the tree instead of {model[topic].configs}"
    yield from _leaderless(tree)


def _leaderless(tree: dict[str, Partitions]) -> Iterable[str]:
    for topic, partitions in tree.items():
        for number, (leader, _, replicas, isr) in partitions.items():
            if leader not in replicas or leader not in isr:
                yield f"{topic}-{number} of {replicas} is led by {leader} with ISR {isr}"


def _told(
    cluster: Cluster, number: int, model: Model, tree: dict[str, Partitions]
) -> Iterable[str]:
    with cluster.wire(number) as wire:
        metadata = wire.call(METADATA, 10, topics=None, allow_auto_topic_creation=False)
        configs = wire.call(
            DESCRIBE_CONFIGS, 1,
            resources=[
                {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": None}
                for topic in sorted(model)
            ],
        )  # fmt: skip
    addresses = {b.node_id: f"{b.host}:{b.port}" for b in metadata.brokers}
    if addresses != dict(zip(cluster.ids, cluster.bootstraps, strict=True)):
        yield f"knows the brokers {addresses}"
    if metadata.controller_id != cluster.tree.controller_id():
        yield f"says the controller is {metadata.controller_id}"
    told = {topic.name: topic for topic in metadata.topics}
    if told.keys() != tree.keys():
        yield (
            f"topics too many: {sorted(told.keys() - tree.keys())}, "
            f"missing: {sorted(tree.keys() - told.keys())}"
        )
    for name in sorted(told.keys() & tree.keys()):
        if (partitions := _partitions_told(told[name])) != tree[name]:
            yield f"{name} is {partitions}, in the tree {tree[name]}"
        if told[name].topic_id.int != _topic_id(cluster, name):
            yield f"{name} has the id {told[name].topic_id}"
    for result in configs.results:
        yield from _config_differences(result, model[result.resource_name].configs)


def _partitions_told(topic: Any) -> Partitions:
    return {
        p.partition_index: (
            p.leader_id if p.error_code == 0 else -p.error_code.value,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
        )
        for p in topic.partitions
    }


def _topic_id(cluster: Cluster, topic: str) -> int:
    """The id in the topic's node: base64 without padding, in the alphabet for URLs."""
    data = cluster.tree.get(f"/brokers/topics/{topic}")
    text = json.loads(data)["topic_id"] if data else ""
    return int.from_bytes(urlsafe_b64decode(text + "=="), "big")


def _config_differences(result: Any, wanted: dict[str, str]) -> Iterable[str]:
    if result.error_code != 0:
        yield f"DescribeConfigs of {result.resource_name}: {code(result.error_code)}"
        return
    found = {c.name: c.value for c in result.configs if c.config_source == DYNAMIC_TOPIC_CONFIG}
    if found != wanted:
        yield f"{result.resource_name} has {found} instead of {wanted}"
