"""How topics look that nobody laid out."""

from __future__ import annotations

import pytest

from kbroker.admin.internal_topics import new_topic
from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC


@pytest.mark.parametrize(
    ("topic", "setting", "partitions"),
    [
        (GROUP_METADATA_TOPIC, "offsets.topic.replication.factor", 50),
        (TRANSACTION_STATE_TOPIC, "transaction.state.log.replication.factor", 50),
    ],
)
def test_the_brokers_own_topics_take_the_replicas_there_can_be_and_say_so(
    topic: str, setting: str, partitions: int
) -> None:
    found = new_topic(topic, KafkaConfig())  # Kafka's default is 3

    assert (found.num_partitions, found.replication_factor) == (partitions, 1)
    assert found.note is not None
    assert f"not 3 ({setting})" in found.note
    assert found.overrides["cleanup.policy"] == "compact"
    assert new_topic(topic, KafkaConfig({setting: "1"})).note is None


def test_a_replica_alone_can_be_written_to() -> None:
    assert new_topic(TRANSACTION_STATE_TOPIC, KafkaConfig()).overrides["min.insync.replicas"] == "1"


def test_a_topic_of_a_client_has_what_the_settings_say() -> None:
    config = KafkaConfig({"num.partitions": "3", "default.replication.factor": "2"})

    found = new_topic("t", config)

    assert (found.num_partitions, found.replication_factor, found.note) == (3, 2, None)
