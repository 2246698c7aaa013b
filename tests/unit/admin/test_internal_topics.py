"""How topics look that nobody laid out."""

from __future__ import annotations

import pytest

from kbroker.admin.internal_topics import new_topic
from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

ENSEMBLE = {"zookeeper.connect": "localhost:2181"}
OWN_TOPICS = pytest.mark.parametrize(
    ("topic", "setting"),
    [
        (GROUP_METADATA_TOPIC, "offsets.topic.replication.factor"),
        (TRANSACTION_STATE_TOPIC, "transaction.state.log.replication.factor"),
    ],
)


@OWN_TOPICS
@pytest.mark.parametrize(("brokers", "replicas"), [(0, 1), (1, 1), (2, 2)])
def test_over_a_tree_of_its_own_as_many_replicas_as_brokers_do_and_it_is_said(
    topic: str, setting: str, brokers: int, replicas: int
) -> None:
    found = new_topic(topic, KafkaConfig(), brokers)  # Kafka's default is 3

    assert (found.num_partitions, found.replication_factor) == (50, replicas)
    assert found.note is not None
    assert f"not 3 ({setting})" in found.note
    assert found.overrides["cleanup.policy"] == "compact"
    assert new_topic(topic, KafkaConfig({setting: "1"}), brokers).note is None


@OWN_TOPICS
@pytest.mark.parametrize("brokers", [1, 2, 3, 4])
def test_in_a_cluster_the_brokers_own_topics_have_the_replicas_of_their_setting(
    topic: str, setting: str, brokers: int
) -> None:
    found = new_topic(topic, KafkaConfig(ENSEMBLE), brokers)

    assert (found.replication_factor, found.note) == (3, None)
    assert (
        new_topic(topic, KafkaConfig({**ENSEMBLE, setting: "2"}), brokers).replication_factor == 2
    )


@OWN_TOPICS
@pytest.mark.parametrize("brokers", [1, 3])
def test_a_single_replica_is_told_where_other_brokers_may_come(
    topic: str, setting: str, brokers: int
) -> None:
    note = new_topic(topic, KafkaConfig({**ENSEMBLE, setting: "1"}), brokers).note

    assert note is not None
    assert f"{topic} has one replica of each partition ({setting}=1): " in note
    assert f"kbroker cluster reassign --topic {topic} --to" in note


@pytest.mark.parametrize(
    ("settings", "brokers", "min_isr"), [({}, 1, "1"), ({}, 3, "2"), (ENSEMBLE, 1, "2")]
)
def test_replicas_that_are_there_can_be_written_to(
    settings: dict[str, str], brokers: int, min_isr: str
) -> None:
    found = new_topic(TRANSACTION_STATE_TOPIC, KafkaConfig(settings), brokers)
    assert found.overrides["min.insync.replicas"] == min_isr


def test_a_topic_of_a_client_has_what_the_settings_say() -> None:
    config = KafkaConfig({"num.partitions": "3", "default.replication.factor": "2"})

    found = new_topic("t", config, brokers=1)

    assert (found.num_partitions, found.replication_factor, found.note) == (3, 2, None)
