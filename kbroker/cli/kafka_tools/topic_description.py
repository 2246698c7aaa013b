"""Topics as `kafka-topics --describe` prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbroker.client.cluster_configs import DEFAULT_ORIGIN, Resource, Setting, describe_configs
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_figures import Described
from kbroker.config.config_resources import ResourceType
from kbroker.model import NO_LEADER, ZERO_UUID
from kbroker.wording import uuid_text

OVERRIDES = "topics-with-overrides"


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects partitions: `keeps` gets one, and how many in-sync replicas it needs."""

    help: str
    keeps: Callable[[Any, int], bool]


FILTERS = {
    "under-replicated-partitions": Filter(
        "Describe only partitions that lack replicas in sync.",
        lambda partition, _: len(partition.isr_nodes) < len(partition.replica_nodes),
    ),
    "unavailable-partitions": Filter(
        "Describe only partitions without a leader.",
        lambda partition, _: partition.leader_id == NO_LEADER,
    ),
    "under-min-isr-partitions": Filter(
        "Describe only partitions with fewer replicas in sync than min.insync.replicas.",
        lambda partition, needed: len(partition.isr_nodes) < needed,
    ),
    "at-min-isr-partitions": Filter(
        "Describe only partitions with just as many replicas in sync as min.insync.replicas.",
        lambda partition, needed: len(partition.isr_nodes) == needed,
    ),
}


def description(
    links: ClusterLinks, topics: Sequence[Described], only: str | None = None
) -> Iterator[str]:
    """Yield the lines of these topics; `only`: a name of FILTERS, or OVERRIDES.

    Raises OSError and KafkaError.
    """
    resources = [Resource(ResourceType.TOPIC, str(topic.name)) for topic in topics]
    settings = describe_configs(links, resources) if resources else {}
    for topic, resource in zip(topics, resources, strict=True):
        found = settings[resource]
        own = [f"{each.name}={each.value}" for each in found if each.origin != DEFAULT_ORIGIN]
        if only is None or (only == OVERRIDES and own):
            yield _summary(topic, own)
        if only == OVERRIDES:
            continue
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            if only is None or FILTERS[only].keeps(partition, _needed(found)):
                yield _line(str(topic.name), partition)


def _needed(settings: Sequence[Setting]) -> int:
    values: Mapping[str, str | None] = {each.name: each.value for each in settings}
    return int(values.get("min.insync.replicas") or 1)


def _summary(topic: Described, own: Sequence[str]) -> str:
    topic_id = "" if topic.topic_id == ZERO_UUID else f"\tTopicId: {uuid_text(topic.topic_id)}"
    replicas = len(topic.partitions[0].replica_nodes) if topic.partitions else 0
    return (
        f"Topic: {topic.name}{topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replicas}\tConfigs: {','.join(own)}"
    )


def _line(topic: str, partition: Any) -> str:
    leader = "none" if partition.leader_id == NO_LEADER else partition.leader_id
    return (
        f"\tTopic: {topic}\tPartition: {partition.partition_index}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replica_nodes)}\tIsr: {_ids(partition.isr_nodes)}"
        "\tElr: \tLastKnownElr: "
    )


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
