"""What is said of an adoption, before and after it."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.disk.checkpoint import MetaProperties
from kbroker.server.adoption import kraft_records as kinds
from kbroker.server.adoption.adoption_summary import proposal, report
from kbroker.server.adoption.kraft_metadata import KraftTopic
from tests.unit.server.adoption.test_plan import ID, OTHER_ID, directory, found, metadata_of, plan


def test_the_sentence_says_what_whose_and_what_now() -> None:
    offsets = [found("__consumer_offsets", p) for p in range(3)]

    sentence = proposal(plan(directory(found("t", 0), *offsets)))

    assert sentence.splitlines() == [
        "kbroker would adopt 2 topics with 4 partitions from /d",
        "  written by broker 3 of cluster cluster in ZooKeeper mode (meta.properties version 0)",
        "  groups with their committed offsets, in the 3 partitions of __consumer_offsets",
        "  1 topic keeps all records: topic settings are not known (they are in ZooKeeper)",
        "  `kbroker topic alter TOPIC --config retention.ms=MS` limits what a topic keeps",
        "  no topic is compacted until `kbroker topic alter TOPIC --config cleanup.policy=compact` says so again",
        "  committed offsets of groups without members expire after 7 days "
        "(offsets.retention.minutes)",
        "nothing was changed: add --adopt to agree",
    ]


def test_the_report_says_what_was_done() -> None:
    sentence = report(plan(directory(found("t", 0), meta=None, is_clean=False)))

    assert sentence.splitlines()[:3] == [
        "kbroker adopted 1 topic with 1 partition from /d",
        "  written by an unknown broker (no meta.properties), not stopped cleanly",
        "  no groups: there is no __consumer_offsets",
    ]
    assert "--adopt" not in sentence


def test_what_is_left_is_named() -> None:
    going, moving = f"t-1.{'a' * 32}-delete", f"t-2.{'a' * 32}-future"
    goes_on = f"t-0.{'a' * 32}-future"  # its partition is there
    metadata = metadata_of(KraftTopic("t", ID, {0: 1}), retention_ms="1")
    metadata.acls[ID] = kinds.AccessControlEntryRecord(id=ID)
    metadata.topics[OTHER_ID] = KraftTopic("elsewhere", OTHER_ID)

    sentence = proposal(
        plan(
            directory(
                found("t", 0, topic_id=ID),
                moved=(going, moving, goes_on),
                has_kraft_metadata=True,
                foreign=("a", "b", "c", "d"),
            ),
            metadata=metadata,
        )
    )

    assert (
        f"would leave as they are: {moving}, __cluster_metadata-0, a, b, c and 3 more" in sentence
    )
    assert f"would remove {going} a minute after the start" in sentence


@pytest.mark.parametrize(
    ("problem", "reason"),
    [(None, "there is no __cluster_metadata-0 here"), ("torn", "cannot be read, torn")],
)
def test_metadata_that_is_not_there_is_a_reason(problem: str | None, reason: str) -> None:
    made = plan(
        directory(found("t", 0), meta=MetaProperties(1, "c", 3, "directory")), problem=problem
    )

    assert reason in proposal(made)
    assert "in KRaft mode (meta.properties version 1)" in proposal(made)


def test_groups_that_were_kept_elsewhere_are_said_to_be_lost() -> None:
    sentence = proposal(plan(directory(found("__consumer_offsets", 1))))

    assert (
        "1 partition without a directory here, __consumer_offsets-0, begins empty, and groups that "
        "were kept there are not known\n"
    ) in sentence


def test_an_offsets_retention_that_was_set_is_not_said_again() -> None:
    config = KafkaConfig.for_profile("dev", {"offsets.retention.minutes": "5"})

    assert "expire" not in proposal(plan(directory(found("__consumer_offsets", 0)), config=config))


def test_partitions_that_other_brokers_had_more_of_are_named() -> None:
    topic = KraftTopic("t", ID, {0: 1, 1: 1}, {0: (4, 5), 1: (3, 4)})
    here = directory(found("t", 0, topic_id=ID), found("t", 1, topic_id=ID))

    sentence = proposal(plan(here, metadata=metadata_of(topic, retention_ms="1")))

    assert "\n  1 partition, t-0, may lack the newest records, which other brokers" in sentence
