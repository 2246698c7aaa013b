"""A topic's settings over the broker's, and Kafka's refusals."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.topic_config import TopicConfig, validate_overrides
from kbroker.errors import ConfigError, ErrorCode, KafkaError

HOUR_MS = 3_600_000


def test_without_overrides_a_topic_has_the_brokers_values() -> None:
    config = KafkaConfig(
        {
            "log.segment.bytes": "1000",
            "log.cleanup.policy": "compact,delete",
            "min.insync.replicas": "2",
        }
    )
    topic = TopicConfig.from_overrides(config, {})
    assert (topic.segment_bytes, topic.min_insync_replicas) == (1000, 2)
    assert topic.cleanup_policy == ("compact", "delete")
    assert topic.is_compacted
    assert topic.is_deleted


def test_the_defaults_alone_are_those_of_a_default_broker() -> None:
    assert TopicConfig.from_overrides(KafkaConfig(), {}) == TopicConfig()


def test_an_override_wins_over_the_broker() -> None:
    topic = TopicConfig.from_overrides(
        KafkaConfig({"log.retention.ms": "5"}), {"retention.ms": " 7 "}
    )
    assert topic.retention_ms == 7


def test_an_override_of_another_version_is_passed_over() -> None:
    assert (
        TopicConfig.from_overrides(KafkaConfig(), {"internal.segment.bytes": "9"}) == TopicConfig()
    )


def test_a_bad_override_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"configuration segment\.bytes"):
        TopicConfig.from_overrides(KafkaConfig(), {"segment.bytes": "1"})


RETENTION = [
    ({"log.retention.ms": "1", "log.retention.minutes": "2", "log.retention.hours": "3"}, 1),
    ({"log.retention.minutes": "2", "log.retention.hours": "3"}, 120_000),
    ({"log.retention.hours": "3"}, 3 * HOUR_MS),
    ({"log.retention.hours": "-1"}, -1),
    ({"log.retention.minutes": "-1"}, -1),
    ({}, 168 * HOUR_MS),
]


@pytest.mark.parametrize(("broker", "retention_ms"), RETENTION)
def test_retention_comes_from_the_finest_unit_that_is_set(
    broker: dict[str, str], retention_ms: int
) -> None:
    assert TopicConfig.from_overrides(KafkaConfig(broker), {}).retention_ms == retention_ms


def test_rolling_jitter_and_flush_fall_back_too() -> None:
    config = KafkaConfig(
        {
            "log.roll.hours": "2",
            "log.roll.jitter.hours": "1",
            "log.flush.scheduler.interval.ms": "50",
        }
    )
    topic = TopicConfig.from_overrides(config, {})
    assert (topic.segment_ms, topic.segment_jitter_ms, topic.flush_ms) == (2 * HOUR_MS, HOUR_MS, 50)


def test_one_bound_of_record_times_falls_back_to_the_bound_for_both_ways() -> None:
    topic = TopicConfig(message_timestamp_difference_max_ms=10, message_timestamp_after_max_ms=3)
    assert topic.timestamp_before_max_ms_effective() == 10
    assert topic.timestamp_after_max_ms_effective() == 3


NO_REMOTE_STORAGE = (
    "Tiered Storage functionality is disabled in the broker. "
    "Topic cannot be configured with remote log storage."
)
NO_REMOTE_SWITCHES = (
    "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` "
    "under Zookeeper's mode."
)
REFUSALS: list[tuple[dict[str, str | None], str]] = [
    ({"remote.storage.enable": "true"}, NO_REMOTE_STORAGE),
    ({"remote.storage.enable": "TRUE", "cleanup.policy": "compact"}, NO_REMOTE_STORAGE),
    ({"remote.log.copy.disable": "true"}, NO_REMOTE_SWITCHES),
    ({"remote.log.delete.on.disable": "true"}, NO_REMOTE_SWITCHES),
    (
        {"message.format.version": "4.0"},
        "Invalid value 4.0 for configuration message.format.version: "
        "Version 4.0 is not a valid version",
    ),
    (
        {"message.format.version": "3.7-IV5"},
        "Invalid value 3.7-IV5 for configuration message.format.version: "
        "Version 3.7-IV5 is not a valid version",
    ),
    ({"no.such.config": "1"}, "Unknown topic config name: no.such.config"),
    (
        {"retention.ms": "abc"},
        "Invalid value abc for configuration retention.ms: Not a number of type LONG",
    ),
    ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
    (
        {"cleanup.policy": "foo"},
        "Invalid value foo for configuration cleanup.policy: "
        "String must be one of: compact, delete",
    ),
    (
        {"segment.bytes": "1"},
        "Invalid value 1 for configuration segment.bytes: Value must be at least 14",
    ),
    (
        {"min.insync.replicas": "0"},
        "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
    ),
    (
        {"max.message.bytes": "-1"},
        "Invalid value -1 for configuration max.message.bytes: Value must be at least 0",
    ),
    (
        {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
        "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
    ),
    (
        {"leader.replication.throttled.replicas": "1"},
        "Invalid value [1] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' "
        "or a list of replicas in the following "
        "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
    (
        {"compression.gzip.level": "0"},
        "Invalid value 0 for configuration compression.gzip.level: "
        "Value must be between 1 and 9 or equal to -1",
    ),
    (
        {"message.format.version": "9.9"},
        "Invalid value 9.9 for configuration message.format.version: "
        "Version 9.9 is not a valid version",
    ),
]


@pytest.mark.parametrize(("overrides", "sentence"), REFUSALS)
def test_refusals_are_worded_as_kafkas(overrides: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        validate_overrides(overrides)
    assert refusal.value.code is ErrorCode.INVALID_CONFIG
    assert refusal.value.message == sentence


GOOD: list[dict[str, str | None]] = [
    {"message.format.version": "2.8"},
    {"message.format.version": "0.10.1-IV2"},
    {"message.downconversion.enable": "false"},
    {"message.timestamp.difference.max.ms": "1000"},
    {"segment.bytes": "100000"},
    {"follower.replication.throttled.replicas": "*"},
    {"follower.replication.throttled.replicas": "0:1,1:2"},
    {"follower.replication.throttled.replicas": ""},
    {"follower.replication.throttled.replicas": "0:1,"},
    {"follower.replication.throttled.replicas": "0:1,,1:2"},
    {"message.format.version": "4.0-IV1"},
    {"message.format.version": "3.9.2"},
    {"min.cleanable.dirty.ratio": "NaN"},
    {"remote.storage.enable": "false"},
    {"remote.log.copy.disable": "false", "remote.log.delete.on.disable": "False"},
    {"local.retention.ms": "10", "retention.ms": "5"},
    {},
]


@pytest.mark.parametrize("overrides", GOOD)
def test_what_kafka_takes_is_taken(overrides: dict[str, str | None]) -> None:
    validate_overrides(overrides)
