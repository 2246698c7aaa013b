"""The overview of a cluster: brokers, controller, versions, and partitions that lack something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import (
    MIN_ISR,
    Resource,
    Setting,
    describe_configs,
    minimums_in_sync,
)
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.partition_health import health_of
from kbroker.client.partition_requests import moves_under_way
from kbroker.config.config_resources import ResourceType
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps
from kbroker.model import NO_CONTROLLER, TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.request import NO_VERSION, OWN_SOFTWARE

MOST_PLACES: Final = 100
_MOST_ASKED = 1_000  # topics
_LEVELS = ("metadata.version", "inter.broker.protocol.version")
_KEYS = frozenset(ApiKey)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker as the cluster describes it; `apis`: the lowest and the highest version of each
    request that it takes, by name, None if it does not answer.
    """

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool
    leaders: int  # partitions that it leads
    replicas: int
    apis: Mapping[str, tuple[int, int]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Partitions that lack something: how many, and the first of them."""

    count: int
    first: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A cluster at a glance. `level`: the version that its brokers speak with each other;
    `under_min_isr` and `reassigning` are None if not known.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerRow, ...]
    topics: int
    partitions: int
    leaderless: Places
    under_replicated: Places
    under_min_isr: Places | None
    reassigning: Places | None
    level: str | None
    features: Mapping[str, int]
    gaps: tuple[str, ...]


async def overview(cluster: ConsoledCluster) -> Overview:
    """Look at the whole cluster. Raises ClientError."""
    return await cluster.ask(_overview)


def _overview(work: Work) -> Overview:
    links, gaps = work.links, Gaps()
    described = links.describe(None)
    answers = _api_versions(links, [broker.node_id for broker in described.brokers])
    moves = None
    if described.controller_id != NO_CONTROLLER:
        with gaps.around("moves of partitions"):
            moves = moves_under_way(links, described.controller_id)
    health = health_of(described.topics, None, moves)
    lacking = {place.topic for place in health.under_replicated}
    minimums = _minimums(links, lacking, gaps)
    under_min_isr = None
    if minimums is not None:
        of_lacking = (topic for topic in described.topics if topic.name in lacking)
        under_min_isr = health_of(of_lacking, minimums, moves).under_min_isr
    features = _features(answers.values())
    level = _level(links, answers, features, gaps)
    gaps.tell_silent(links.silent)
    return Overview(
        cluster_id=described.cluster_id,
        controller_id=None if described.controller_id == NO_CONTROLLER else described.controller_id,
        brokers=_brokers(described, answers),
        topics=len(described.topics),
        partitions=sum(len(topic.partitions) for topic in described.topics),
        leaderless=_places(health.leaderless),
        under_replicated=_places(health.under_replicated),
        under_min_isr=None if under_min_isr is None else _places(under_min_isr),
        reassigning=None if health.reassigning is None else _places(health.reassigning),
        level=level,
        features=features,
        gaps=gaps.sentences(),
    )


def _brokers(
    described: MetadataResponse, answers: Mapping[int, ApiVersionsResponse]
) -> tuple[BrokerRow, ...]:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for partition in chain.from_iterable(topic.partitions for topic in described.topics):
        leaders[partition.leader_id] += 1
        for broker_id in partition.replica_nodes:
            replicas[broker_id] += 1
    return tuple(
        BrokerRow(
            broker_id=broker.node_id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            is_controller=broker.node_id == described.controller_id,
            leaders=leaders[broker.node_id],
            replicas=replicas[broker.node_id],
            apis=_apis(answers.get(broker.node_id)),
        )
        for broker in sorted(described.brokers, key=lambda each: each.node_id)
    )


def _api_versions(links: ClusterLinks, brokers: Iterable[int]) -> dict[int, ApiVersionsResponse]:
    request = ApiVersionsRequest(
        client_software_name=OWN_SOFTWARE, client_software_version=NO_VERSION
    )
    found: dict[int, ApiVersionsResponse] = {}
    for broker in brokers:
        with suppress(OSError, ClientError):  # the links know it is silent
            found[broker] = links.ask(broker, request)
    return found


def _apis(answer: ApiVersionsResponse | None) -> dict[str, tuple[int, int]] | None:
    if answer is None:
        return None
    return {
        ApiKey(row.api_key).api_name if row.api_key in _KEYS else str(row.api_key): (
            row.min_version,
            row.max_version,
        )
        for row in answer.api_keys
    }


def _features(answers: Iterable[ApiVersionsResponse]) -> dict[str, int]:
    newest = max(answers, key=lambda each: each.finalized_features_epoch, default=None)
    if newest is None:
        return {}
    return {row.name: row.max_version_level for row in newest.finalized_features}


def _level(
    links: ClusterLinks,
    answers: Iterable[int],
    features: Mapping[str, int],
    gaps: Gaps,
) -> str | None:
    """Return the version of the metadata, or that in which brokers with a ZooKeeper speak."""
    of_kraft, of_zookeeper = _LEVELS
    if of_kraft in features:
        return f"{of_kraft} {features[of_kraft]}"
    broker = next(iter(answers), None)
    if broker is None:
        return None
    resource = Resource(ResourceType.BROKER, str(broker))
    found: list[Setting] = []
    with gaps.around("settings of brokers"):
        found = describe_configs(links, [resource], [of_zookeeper])[resource]
    return f"{of_zookeeper} {found[0].value}" if found else None


def _minimums(links: ClusterLinks, topics: Collection[str], gaps: Gaps) -> dict[str, int] | None:
    """Return `min.insync.replicas` of the topics that lack replicas in sync: no other partition can
    have too few.
    """
    if len(topics) > _MOST_ASKED:
        gaps.tell(f"values of {MIN_ISR} are not asked of {len(topics):,} topics at once")
        return None
    with gaps.around(f"values of {MIN_ISR}"):
        return minimums_in_sync(links, sorted(topics))
    return None


def _places(found: Iterable[TopicPartition]) -> Places:
    places = sorted(found)
    return Places(count=len(places), first=tuple(places[:MOST_PLACES]))
