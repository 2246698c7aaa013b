"""What an adoption would do: topics, epochs, settings, refusals."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kbroker.acl.acl import Acl, AclOperation, AclPattern, AclResourceType, PatternType, Permission
from kbroker.config.kafka_config import KafkaConfig
from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.disk.checkpoint import MetaProperties
from kbroker.model import TopicPartition
from kbroker.server.adoption import kraft_records as kinds
from kbroker.server.adoption.adopted_groups import group_ops, level_ops
from kbroker.server.adoption.adopted_tokens import token_ops
from kbroker.server.adoption.adoption_summary import proposal, report
from kbroker.server.adoption.kafka_directory import FoundDirectory, FoundPartition
from kbroker.server.adoption.kraft_metadata import ClusterMetadata, KraftTopic
from kbroker.server.adoption.plan import AdoptedTopic, AdoptionPlan, Recorded, make_plan

ID, OTHER_ID = UUID(int=1), UUID(int=2)
META = MetaProperties(0, "cluster", 3)
DEV = KafkaConfig.for_profile("dev")


def found(topic: str, partition: int, **facts: Any) -> FoundPartition:
    path = f"{facts.pop('home', '/d')}/{topic}-{partition}"
    return FoundPartition(topic_partition=TopicPartition(topic, partition), path=path, **facts)


def directory(*partitions: FoundPartition, **facts: Any) -> FoundDirectory:
    return FoundDirectory(**{"path": "/d", "meta": META, "partitions": partitions, **facts})


def plan(
    *directories: FoundDirectory,
    metadata: ClusterMetadata | None = None,
    problem: str | None = None,
    counts: dict[str, int] | None = None,
    config: KafkaConfig = DEV,
) -> AdoptionPlan:
    return make_plan(directories, Recorded(metadata, problem, counts or {}), config)


def only(made: AdoptionPlan) -> AdoptedTopic:
    (topic,) = made.topics
    return topic


def metadata_of(topic: KraftTopic, **settings: str) -> ClusterMetadata:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return ClusterMetadata(topics={topic.topic_id: topic}, topic_settings={topic.name: named})


# ---- topics


def test_epochs_go_on_above_the_highest() -> None:
    made = plan(directory(found("t", 0, leader_epoch=7), found("t", 1)))

    assert only(made).leader_epochs == (8, 0)


def test_the_metadata_may_know_of_a_higher_epoch_than_the_files() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 9}))

    made = plan(directory(found("t", 0, topic_id=ID, leader_epoch=7)), metadata=metadata)

    assert only(made).leader_epochs == (10,)


def test_partitions_without_a_directory_begin_empty() -> None:
    made = plan(directory(found("t", 3)))

    assert len(only(made).leader_epochs) == 4
    assert only(made).missing == (0, 1, 2)
    assert "3 partitions without a directory here, t-0, t-1, t-2, begin empty" in proposal(made)


def test_a_topic_has_as_many_partitions_as_are_known_of() -> None:
    made = plan(directory(found("__consumer_offsets", 1)), counts={"__consumer_offsets": 4})

    assert only(made).leader_epochs == (0, 0, 0, 0)
    assert only(made).missing == (0, 2, 3)


def test_partitions_that_only_the_metadata_knows_begin_empty_above_their_epoch() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1, 1: 5}))

    made = plan(directory(found("t", 0, topic_id=ID)), metadata=metadata)

    assert only(made).leader_epochs == (2, 6)
    assert only(made).missing == (1,)


def test_a_partition_without_id_takes_the_one_of_its_topic() -> None:
    assert only(plan(directory(found("t", 0), found("t", 1, topic_id=ID)))).topic_id == ID
    assert only(plan(directory(found("t", 0)))).topic_id is None


def test_a_topic_with_two_ids_is_left() -> None:
    made = plan(
        directory(found("t", 0, topic_id=ID), found("t", 1, topic_id=OTHER_ID), found("u", 0))
    )

    assert [topic.name for topic in made.topics] == ["u"]
    assert "would leave topic t: its partitions carry different topic ids" in proposal(made)
    assert "left topic t: its partitions" in report(made)


def test_a_topic_whose_id_cannot_be_read_is_left_with_the_reason() -> None:
    made = plan(directory(found("t", 0, problem="bad file")))

    assert made.refused == {"t": "bad file"}


def test_deleted_topics_do_not_come_back() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}))
    partitions = (found("t", 0, topic_id=ID), found("gone", 0, topic_id=OTHER_ID))

    made = plan(directory(*partitions), metadata=metadata)

    assert [topic.name for topic in made.topics] == ["t"]
    assert "gone" in made.refused


def test_a_topic_made_anew_under_an_old_name_is_not_mixed_with_the_old_one() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}))

    made = plan(directory(found("t", 0, topic_id=OTHER_ID)), metadata=metadata)

    assert "another topic id than the cluster's metadata" in made.refused["t"]


# ---- settings


def test_unknown_settings_delete_and_compact_nothing() -> None:
    careless = KafkaConfig.for_profile(
        "dev", {"log.cleanup.policy": "compact", "log.retention.ms": "1"}
    )

    topic = only(plan(directory(found("t", 0)), config=careless))

    assert topic.settings == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
    assert not topic.is_retention_known


def test_internal_topics_are_compacted_as_they_are_made() -> None:
    offsets, transactions = plan(
        directory(found("__consumer_offsets", 0), found("__transaction_state", 0)),
        config=KafkaConfig.for_profile("prod"),
    ).topics

    assert offsets.settings["cleanup.policy"] == "compact"
    assert transactions.settings["cleanup.policy"] == "compact"
    assert transactions.settings["min.insync.replicas"] == "1"
    assert "retention" not in str(offsets.settings)


def test_known_settings_are_taken_over_as_they_are() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}), retention_ms="5", compression_type="gzip")

    topic = only(plan(directory(found("t", 0, topic_id=ID)), metadata=metadata))

    assert topic.settings == {"retention.ms": "5", "compression.type": "gzip"}
    assert topic.is_retention_known


def test_without_the_brokers_own_retention_records_stay() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}), compression_type="gzip")
    here = directory(found("t", 0, topic_id=ID))

    guessed = only(plan(here, metadata=metadata))
    told = only(
        plan(
            here,
            metadata=metadata,
            config=KafkaConfig.for_profile("dev", {"log.retention.hours": "1"}),
        )
    )

    assert guessed.settings["retention.ms"] == "-1"
    assert "retention.ms" not in told.settings


def test_a_compacted_topic_needs_no_retention() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}), cleanup_policy="compact")

    topic = only(plan(directory(found("t", 0, topic_id=ID)), metadata=metadata))

    assert topic.settings == {"cleanup.policy": "compact"}


def test_settings_that_cannot_be_used_are_dropped_and_named() -> None:
    metadata = metadata_of(
        KraftTopic("t", ID, {0: 1}), retention_ms="soon", internal_segment_bytes="9"
    )

    made = plan(directory(found("t", 0, topic_id=ID)), metadata=metadata)

    assert only(made).settings == {"retention.ms": "-1"}
    assert "dropped: internal.segment.bytes, retention.ms" in proposal(made)


@pytest.mark.parametrize(
    ("in_sync", "eligible", "behind"), [((3,), (), ()), ((4,), (), (0,)), ((), (3,), ())]
)
def test_a_broker_that_left_in_order_may_lack_nothing(
    in_sync: tuple[int, ...], eligible: tuple[int, ...], behind: tuple[int, ...]
) -> None:
    metadata = metadata_of(
        KraftTopic("t", ID, {0: 1}, in_sync={0: in_sync}, eligible={0: eligible})
    )

    topic = only(plan(directory(found("t", 0, topic_id=ID)), metadata=metadata))

    assert topic.behind == behind


def test_one_replica_is_in_sync_with_itself() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}), min_insync_replicas="2", retention_ms="1")

    topic = only(plan(directory(found("t", 0, topic_id=ID)), metadata=metadata))

    assert topic.settings["min.insync.replicas"] == "1"


# ---- whose


def test_directories_of_two_brokers_are_not_adopted_together() -> None:
    other = directory(path="/e", meta=META._replace(broker_id=4))

    with pytest.raises(LogDirectoryError, match="/e to broker 4 of cluster cluster"):
        plan(directory(found("t", 0)), other)


def test_a_broker_id_that_was_set_must_be_the_directorys() -> None:
    config = KafkaConfig.for_profile("dev", {"broker.id": "9"})

    with pytest.raises(LogDirectoryError, match=r"belongs to broker 3, but broker\.id is set to 9"):
        plan(directory(found("t", 0)), config=config)


def test_a_partition_in_two_directories_is_refused() -> None:
    with pytest.raises(LogDirectoryError, match="t-0 lies in /d/t-0 and in /e/t-0"):
        plan(directory(found("t", 0)), directory(found("t", 0, home="/e"), path="/e"))


# ---- what is left


def test_what_the_metadata_has_beyond_topics_is_counted() -> None:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}), retention_ms="1")
    for acl_id, operation in ((ID, 3), (OTHER_ID, 15)):
        metadata.acls[acl_id] = kinds.AccessControlEntryRecord(
            resource_type=2, resource_name="t", pattern_type=4, principal="User:ann", host="*",
            operation=operation, permission_type=2,
        )  # fmt: skip
    for token_id, owner in (("id", "User:ann"), ("a/b", "User:ann"), ("other", "ann")):
        metadata.tokens[token_id] = kinds.DelegationTokenRecord(
            token_id=token_id, owner=owner, requester="User:bob", renewers=["User:é"],
            issue_timestamp=1, expiration_timestamp=2, max_timestamp=3,
        )  # fmt: skip
    metadata.topics[OTHER_ID] = KraftTopic("elsewhere", OTHER_ID)

    made = plan(directory(found("t", 0, topic_id=ID), foreign=("photos",)), metadata=metadata)

    assert made.left == (
        "photos",
        "topics without a partition here (1)",
        "rules of access that the tree cannot have (1)",
        "delegation tokens that the tree cannot have (2)",
    )
    pattern = AclPattern(AclResourceType.TOPIC, "t", PatternType.PREFIXED)
    assert made.acls == {pattern: (Acl("User:ann", "*", AclOperation.READ, Permission.DENY),)}
    token = DelegationToken("id", "User:ann", "User:bob", ("User:é",), 1, 2, 3)
    assert made.tokens == (token,)
    assert [each.path for each in token_ops(made.tokens)] == [
        "/delegation_token", "/delegation_token/tokens", "/delegation_token/tokens/id",
    ]  # fmt: skip


GROUP_SETTINGS = {
    "g": {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"},
    "odd": {"consumer.session.timeout.ms": "soon"},
    "..": {"consumer.session.timeout.ms": "50000"},
}


def of_groups_and_levels() -> AdoptionPlan:
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}), retention_ms="1")
    metadata.group_settings = {name: dict(own) for name, own in GROUP_SETTINGS.items()}
    metadata.feature_levels = {
        "metadata.version": 25, "transaction.version": 2, "group.version": 1, "share.version": 0,
    }  # fmt: skip
    return plan(directory(found("t", 0, topic_id=ID)), metadata=metadata)


def test_levels_and_settings_of_groups_go_on_and_what_is_not_known_is_counted() -> None:
    made = of_groups_and_levels()

    assert made.levels == {"group.version": 1, "transaction.version": 2}
    assert made.groups == {"g": {"consumer.session.timeout.ms": "50000"}}
    assert made.left == ("settings of groups that this broker does not know (3)",)
    told = report(made).splitlines()
    assert "  1 setting of single groups" in told
    assert "  levels of features: group.version 1, transaction.version 2" in told
    made_nodes = [(op.path, op.data) for op in (*group_ops(made.groups), *level_ops(made.levels))]
    assert made_nodes == [
        ("/config/groups", None),
        ("/config/groups/g", b'{"version":1,"config":{"consumer.session.timeout.ms":"50000"}}'),
        (
            "/feature",
            b'{"features":{"group.version":{"max_version_level":1},"transaction.version":'
            b'{"max_version_level":2}},"version":2,"status":1}',
        ),
    ]
