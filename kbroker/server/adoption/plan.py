"""The plan of taking over a data directory of Apache Kafka: topics, their partitions, leader epochs
and settings, and what would be left.

Pure: everything that was found goes in, a plan comes out.

Law: no record may go because of a guess. Settings of topics are in ZooKeeper, not in the directory,
and the defaults of the broker that wrote it are in its server.properties: a topic whose retention
is not known keeps its records for good, and nothing is compacted that is not known to be. Leader
epochs go on above the highest that is known, so that none is ever used twice. What cannot be taken
over stays in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kbroker.acl.acl import (
    Acl,
    AclOperation,
    AclPattern,
    AclResourceType,
    Acls,
    PatternType,
    Permission,
)
from kbroker.admin.acl_admin import refusal_of
from kbroker.admin.client_quota_changes import Place, place_of, value_text
from kbroker.admin.host_names import may_be_host
from kbroker.admin.internal_topics import new_topic
from kbroker.config.kafka_config import ORIGIN_DEFAULT, ORIGIN_PROFILE, KafkaConfig
from kbroker.config.topic_config import KEEP_ALL, for_one_replica, usable_overrides
from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.checkpoint import MetaProperties
from kbroker.log.disk.format import parse_directory_name
from kbroker.model import INTERNAL_TOPICS, TopicPartition
from kbroker.quotas.quota_entity import QuotaError, checked_entity
from kbroker.sasl.scram_keys import MECHANISM_NUMBERS
from kbroker.server.adoption.adopted_groups import usable_group_settings, usable_levels
from kbroker.server.adoption.adopted_tokens import usable_tokens
from kbroker.server.adoption.kafka_directory import FoundDirectory, FoundPartition
from kbroker.server.adoption.kraft_metadata import METADATA_DIRECTORY, ClusterMetadata, KraftTopic
from kbroker.zk.nodes.topic_ops import TopicWithLogs
from kbroker.zk.zk_paths import has_node

_OFFSETS_RETENTION = "offsets.retention.minutes"
_RETENTION_SETTINGS = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedTopic(TopicWithLogs):
    """A topic to take over."""

    missing: tuple[int, ...]  # partitions without a directory here: they begin empty
    behind: tuple[int, ...]  # partitions that other brokers had more of, as the metadata says
    is_retention_known: bool  # False: it keeps its records for good


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPlan:
    """The topics to take over, from whom, and what would be left, for people to read."""

    paths: tuple[str, ...]
    meta: MetaProperties | None
    topics: tuple[AdoptedTopic, ...]
    is_clean: bool
    next_producer_id: int | None  # None if the metadata does not say
    unknown_settings: str | None  # why topic settings are not known; None if they are
    offsets_retention_minutes: int | None  # for committed offsets, None if it was set
    dropped_settings: tuple[str, ...]  # names
    users: Mapping[str, Mapping[str, str]]  # what is stored of each, by mechanism
    quotas: Mapping[Place, Mapping[str, str]]  # what is stored of each entity, by key
    acls: Mapping[AclPattern, Acls]  # the rules of access
    tokens: tuple[DelegationToken, ...]
    groups: Mapping[str, Mapping[str, str]]  # the settings of single groups
    levels: Mapping[str, int]  # of features
    refused: Mapping[str, str]  # topic: why it is left
    left: tuple[str, ...]
    leaving: tuple[str, ...]  # -delete directories, removed soon


@dataclass(frozen=True, slots=True)
class Recorded:
    """The facts known beside the partitions themselves.

    `metadata` comes from KRaft's log; None if there is none or, with `problem`, if it cannot be
    read. `partition_counts`: topics that are known to have at least so many.
    """

    metadata: ClusterMetadata | None = None
    problem: str | None = None
    partition_counts: Mapping[str, int] = field(default_factory=dict)


def make_plan(
    directories: Sequence[FoundDirectory], known_facts: Recorded, config: KafkaConfig
) -> AdoptionPlan:
    """Plan the adoption of these directories.

    Raises LogDirectoryError for directories that do not belong together or to this broker.
    """
    metadata = known_facts.metadata
    meta = _common_meta(directories, config)
    by_topic = _by_topic(directories)
    known_topics = {topic.name: topic for topic in metadata.topics.values()} if metadata else {}
    topics: list[AdoptedTopic] = []
    refused: dict[str, str] = {}
    dropped: set[str] = set()
    for name, partitions in sorted(by_topic.items()):
        known = known_topics.get(name)
        problem = _problem(partitions, metadata, known)
        if problem is not None:
            refused[name] = problem
            continue
        recorded = None if metadata is None else metadata.topic_settings.get(name, {})
        settings = _settings(name, recorded, config)
        at_least = known_facts.partition_counts.get(name, 0)
        topics.append(_adopted(partitions, known, settings, at_least, meta))
        dropped.update(set(recorded or {}) - set(usable_overrides(recorded or {})))
    acls, lost_acls = _acls(metadata)
    quotas, lost_quotas = _quotas(metadata)
    tokens, lost_tokens = usable_tokens(metadata)
    groups, lost_groups = usable_group_settings(metadata)
    levels, levels_above = usable_levels(metadata)
    lost = (lost_acls, lost_tokens, lost_quotas, lost_groups, levels_above)
    elsewhere = len(known_topics.keys() - by_topic.keys())
    moved = [name for directory in directories for name in directory.moved]
    return AdoptionPlan(
        paths=tuple(directory.path for directory in directories),
        meta=meta,
        topics=tuple(topics),
        is_clean=all(directory.is_clean or not directory.partitions for directory in directories),
        next_producer_id=metadata.next_producer_id if metadata is not None else None,
        unknown_settings=_why_unknown(known_facts, meta),
        offsets_retention_minutes=(
            None if _OFFSETS_RETENTION in config.texts else config.group.offsets_retention_minutes
        ),
        dropped_settings=tuple(sorted(dropped)),
        users=_users(metadata),
        quotas=quotas,
        acls=acls,
        tokens=tokens,
        groups=groups,
        levels=levels,
        refused=refused,
        left=(
            *_left_files(directories, moved),
            *_left_metadata(metadata, elsewhere, lost),
        ),
        leaving=tuple(name for name in moved if name.endswith("-delete")),
    )


def _acls(metadata: ClusterMetadata | None) -> tuple[dict[AclPattern, Acls], int]:
    """The rules of KRaft's metadata, and how many of them a tree cannot have: of a later release,
    or for a name that no node can have.
    """
    acls: dict[AclPattern, Acls] = {}
    lost = 0
    for record in metadata.acls.values() if metadata is not None else ():
        try:
            kind, pattern_type = (
                AclResourceType(record.resource_type),
                PatternType(record.pattern_type),
            )
            operation = AclOperation(record.operation)
            permission = Permission(record.permission_type)
        except ValueError:
            lost += 1
            continue
        pattern = AclPattern(kind, record.resource_name, pattern_type)
        acl = Acl(record.principal, record.host, operation, permission)
        if refusal_of(pattern, acl) is None:
            acls[pattern] = (*acls.get(pattern, ()), acl)
        else:
            lost += 1
    return acls, lost


def _users(metadata: ClusterMetadata | None) -> dict[str, dict[str, str]]:
    """The SCRAM credentials of KRaft's metadata, which mean the same in a tree."""
    users: dict[str, dict[str, str]] = {}
    if metadata is not None:
        for (user, number), credential in sorted(metadata.scram_credentials.items()):
            if number in MECHANISM_NUMBERS and has_node(user):
                name = MECHANISM_NUMBERS[number].sasl_name
                users.setdefault(user, {})[name] = str(credential)
    return users


def _quotas(metadata: ClusterMetadata | None) -> tuple[dict[Place, dict[str, str]], int]:
    """The quotas of KRaft's metadata, and how many of them a tree cannot have: of IPv6 addresses,
    with values that are no limits, or of a later release.
    """
    quotas: dict[Place, dict[str, str]] = {}
    lost = 0
    for names, values in metadata.quotas.items() if metadata is not None else ():
        for key, value in values.items():
            try:
                entity = checked_entity(dict(names))
                place, text = place_of(entity), value_text(entity, key, value)
            except QuotaError:
                lost += 1
                continue
            if isinstance(entity.ip, str) and not may_be_host(entity.ip):
                lost += 1
            else:
                quotas.setdefault(place, {})[key] = text
    return quotas, lost


# ---- whose directories these are


def _common_meta(
    directories: Sequence[FoundDirectory], config: KafkaConfig
) -> MetaProperties | None:
    metas = [(d.path, d.meta) for d in directories if d.meta is not None]
    if not metas:
        return None
    path, first = metas[0]
    for other_path, other in metas[1:]:
        if (other.cluster_id, other.broker_id) != (first.cluster_id, first.broker_id):
            raise LogDirectoryError(
                f"Data directory {path} belongs to broker {first.broker_id} of cluster "
                f"{first.cluster_id}, {other_path} to broker {other.broker_id} of cluster "
                f"{other.cluster_id}: adopt them one at a time"
            )
    wanted = config.server.broker_id
    is_asked_for = config.origin("broker.id") not in (ORIGIN_DEFAULT, ORIGIN_PROFILE)
    if first.broker_id is not None and is_asked_for and wanted not in (-1, first.broker_id):
        raise LogDirectoryError(
            f"Data directory {path} belongs to broker {first.broker_id}, but broker.id is set to "
            f"{wanted}: leave broker.id out, or set it to {first.broker_id}"
        )
    return first


def _by_topic(directories: Iterable[FoundDirectory]) -> dict[str, dict[int, FoundPartition]]:
    topics: dict[str, dict[int, FoundPartition]] = {}
    for directory in directories:
        for found in directory.partitions:
            topic, partition = found.topic_partition
            other = topics.setdefault(topic, {}).setdefault(partition, found)
            if other is not found:
                raise LogDirectoryError(
                    f"Partition {found.topic_partition} lies in {other.path} and in {found.path}: "
                    "move the older one away"
                )
    return topics


# ---- topics


def _problem(
    partitions: Mapping[int, FoundPartition],
    metadata: ClusterMetadata | None,
    known: KraftTopic | None,
) -> str | None:
    """Return why a topic cannot be taken over; None if it can."""
    if metadata is not None and known is None:
        return "the cluster's metadata does not have it: it was deleted"
    problems = [found.problem for found in partitions.values() if found.problem is not None]
    if problems:
        return problems[0]
    ids = {found.topic_id for found in partitions.values() if found.topic_id is not None}
    if known is not None:
        if ids - {known.topic_id}:
            return "its partitions carry another topic id than the cluster's metadata"
    elif len(ids) > 1:
        return "its partitions carry different topic ids"
    return None


def _adopted(
    partitions: Mapping[int, FoundPartition],
    known: KraftTopic | None,
    settings: tuple[Mapping[str, str], bool],
    at_least: int,
    meta: MetaProperties | None,
) -> AdoptedTopic:
    """Plan a topic with at least so many partitions; `settings` as from `_settings`."""
    found = list(partitions.values())
    ids = [here.topic_id for here in found if here.topic_id is not None]
    epochs = _leader_epochs(partitions, known, at_least)
    return AdoptedTopic(
        name=found[0].topic_partition.topic,
        topic_id=known.topic_id if known is not None else next(iter(ids), None),
        leader_epochs=epochs,
        missing=tuple(p for p in range(len(epochs)) if p not in partitions),
        behind=_behind(partitions, known, meta),
        settings=settings[0],
        is_retention_known=settings[1],
    )


def _leader_epochs(
    partitions: Mapping[int, FoundPartition], known: KraftTopic | None, at_least: int
) -> tuple[int, ...]:
    """Choose the epoch each partition goes on with: above the highest in files or metadata."""
    recorded = known.leader_epochs if known is not None else {}
    count = max(at_least, 1 + max((*partitions, *recorded)))
    found = {partition: here.leader_epoch for partition, here in partitions.items()}
    return tuple(1 + max(found.get(p, -1), recorded.get(p, -1)) for p in range(count))


def _behind(
    partitions: Mapping[int, FoundPartition], known: KraftTopic | None, meta: MetaProperties | None
) -> tuple[int, ...]:
    """Return partitions of which the writing broker may have lacked committed records."""
    if known is None or meta is None:
        return ()
    return tuple(
        p
        for p in partitions
        if p in known.in_sync
        and meta.broker_id not in (*known.in_sync[p], *known.eligible.get(p, ()))
    )


def _settings(
    name: str, recorded: Mapping[str, str] | None, config: KafkaConfig
) -> tuple[dict[str, str], bool]:
    """Return the overrides a topic gets, and whether its retention is known.

    `recorded` are the settings in the metadata, None if they are not known.
    """
    is_retention_known = True
    if recorded is not None:
        settings = usable_overrides(recorded)
        is_deleted = "delete" in settings.get("cleanup.policy", "delete")
        is_set_here = any(setting in config.texts for setting in _RETENTION_SETTINGS)
        if is_deleted and "retention.ms" not in settings and not is_set_here:
            settings["retention.ms"] = "-1"
            is_retention_known = False
    elif name in INTERNAL_TOPICS:
        settings = dict(new_topic(name, config, brokers=1).overrides)
    else:
        settings = dict(KEEP_ALL)
        is_retention_known = False
    return for_one_replica(settings), is_retention_known


def _why_unknown(known_facts: Recorded, meta: MetaProperties | None) -> str | None:
    if known_facts.metadata is not None:
        return None
    if known_facts.problem is not None:
        return f"KRaft's metadata log cannot be read, {known_facts.problem}"
    if meta is not None and meta.version == 1:
        return f"there is no {METADATA_DIRECTORY} here, set metadata.log.dir if it is elsewhere"
    return "they are in ZooKeeper"


# ---- what is left


def _left_files(directories: Iterable[FoundDirectory], moved: Iterable[str]) -> list[str]:
    found = {p.topic_partition for directory in directories for p in directory.partitions}
    left = [name for name in moved if not name.endswith("-delete") and not _goes_on(name, found)]
    for directory in directories:
        if directory.has_kraft_metadata:
            left.append(METADATA_DIRECTORY)
        left.extend(directory.foreign)
    return left


def _goes_on(name: str, found: Collection[TopicPartition]) -> bool:
    """True for a copy of a partition that is there: the broker goes on with such a move."""
    return name.endswith("-future") and parse_directory_name(name) in found


def _left_metadata(
    metadata: ClusterMetadata | None, elsewhere: int, lost: tuple[int, int, int, int, int]
) -> list[str]:
    """`lost`: rules, tokens and quotas that the tree cannot have, settings of groups that are not
    known here, and levels of features that are not supported.
    """
    if metadata is None:
        return []
    counts = (
        (elsewhere, "topics without a partition here"),
        (lost[0], "rules of access that the tree cannot have"),
        (lost[1], "delegation tokens that the tree cannot have"),
        (lost[2], "quotas that the tree cannot have"),
        (lost[3], "settings of groups that this broker does not know"),
        (lost[4], "levels of features that this broker does not support"),
        (len(metadata.other_settings), "dynamic settings of brokers and clients"),
    )
    return [f"{what} ({count})" for count, what in counts if count]
