"""All settings of a broker together."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import (
    ORIGIN_DEFAULT,
    ORIGIN_DYNAMIC_BROKER,
    ORIGIN_DYNAMIC_DEFAULT,
    ORIGIN_FILE,
    KafkaConfig,
)
from kbroker.errors import ConfigError


def test_the_dev_profile_is_usable_at_once() -> None:
    config = KafkaConfig.for_profile("dev")
    (end_point,) = config.end_points()
    assert (end_point.host, end_point.port) == ("127.0.0.1", 9092)
    assert config.group.group_initial_rebalance_delay_ms == 0
    assert config.group.offsets_topic_replication_factor == 1
    assert config.transaction.transaction_state_log_min_isr == 1
    assert config.advertises_per_connection()
    assert config.warnings() == []


def test_values_on_top_of_a_profile_win() -> None:
    config = KafkaConfig.for_profile("dev", {"offsets.topic.num.partitions": "7"})
    assert config.group.offsets_topic_num_partitions == 7


def test_the_prod_profile_needs_explicit_listeners() -> None:
    with pytest.raises(ConfigError, match="listeners is not set"):
        KafkaConfig.from_values({"kbroker.profile": "prod"})


def test_an_unknown_name_warns_with_the_nearest_one() -> None:
    _, warnings = KafkaConfig.from_values({"log.segment.byte": "5", "zzz": "1"})
    assert warnings == [
        "unknown setting log.segment.byte, did you mean log.segment.bytes?",
        "unknown setting zzz",
    ]


def test_a_setting_without_effect_says_so_once() -> None:
    _, warnings = KafkaConfig.from_values(
        {
            "num.network.threads": "8",
            "group.share.max.share.sessions": "1",
            "metric.reporters": "com.example.Reporter",
            "kafka.metrics.reporters": "com.example.OlderReporter",
        }
    )
    assert warnings == [
        "group.share.max.share.sessions is set but has no effect: it is a setting of Kafka 4",
        "metric.reporters is set but has no effect yet",
        "kafka.metrics.reporters is set but has no effect yet",
    ]


BAD = [
    (
        {"num.partitions": "0"},
        "Invalid value 0 for configuration num.partitions: Value must be at least 1",
    ),
    (
        {"listeners": "9092"},
        "Invalid value 9092 for configuration listeners: an address is NAME://host:port",
    ),
    (
        {"listeners": ""},
        "Invalid value  for configuration listeners: at least one address is needed",
    ),
    (
        {"listeners": "PLAINTEXT://:70000"},
        "Invalid value PLAINTEXT://:70000 for configuration listeners: a port is 0 to 65535",
    ),
    (
        {"listeners": "EXTERNAL://:1"},
        "Invalid value EXTERNAL://:1 for configuration listeners: "
        "listener.security.protocol.map has no security protocol for EXTERNAL",
    ),
    (
        {"listeners": "PLAINTEXT://:1,plaintext://:2"},
        "Invalid value PLAINTEXT://:1,plaintext://:2 for configuration listeners: "
        "listener name PLAINTEXT is used twice",
    ),
    (
        {"advertised.listeners": "SSL://a:1"},
        "Invalid value SSL://a:1 for configuration advertised.listeners: "
        "listeners has no such listener",
    ),
    (
        {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
        "Invalid value PLAINTEXT://0.0.0.0:1 for configuration advertised.listeners: "
        "clients cannot connect to this address",
    ),
    (
        {"broker.id": "1", "node.id": "2"},
        "Invalid value 2 for configuration node.id: it must be the same as broker.id, 1",
    ),
    (
        {"log.dirs": " , "},
        "Invalid value , for configuration log.dirs: at least one directory is needed",
    ),
    (
        {"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": "4194304"},
        "Invalid value 4194304 for configuration log.cleaner.dedupe.buffer.size: "
        "it must be above 1 MiB for each of log.cleaner.threads",
    ),
]


@pytest.mark.parametrize(("values", "sentence"), BAD)
def test_wrong_values_are_refused_in_one_sentence(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        KafkaConfig.from_values(values)
    assert str(refusal.value) == sentence


def test_listeners_become_end_points_with_their_protocol() -> None:
    config, _ = KafkaConfig.from_values(
        {
            "listeners": "inside://:9092, OUTSIDE://[::1]:9093",
            "advertised.listeners": "INSIDE://b1.example:9092,OUTSIDE://b1.example.org:443",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL",
            "inter.broker.listener.name": "inside",
        }
    )
    inside, outside = config.end_points()
    assert (inside.listener_name, inside.host, inside.security_protocol) == (
        "INSIDE",
        "",
        "PLAINTEXT",
    )
    assert (outside.host, outside.port, outside.security_protocol) == ("::1", 9093, "SASL_SSL")
    assert [str(end_point) for end_point in config.advertised_end_points()] == [
        "INSIDE://b1.example:9092",
        "OUTSIDE://b1.example.org:443",
    ]
    assert config.inter_broker_listener_name() == "INSIDE"
    assert not config.advertises_per_connection()


def test_without_advertised_listeners_those_listened_on_are_told() -> None:
    config = KafkaConfig.for_profile("prod", {"listeners": "PLAINTEXT://h:1"})
    assert config.advertised_end_points() == config.end_points()
    assert not config.advertises_per_connection()


def test_node_id_stands_for_broker_id() -> None:
    assert KafkaConfig({"node.id": "4"}).server.broker_id == 4
    assert KafkaConfig({"broker.id": "4"}).server.node_id == 4


def test_data_directories_are_named_once_in_order() -> None:
    assert KafkaConfig({"log.dirs": "/b, /a,/b"}).log.data_directories() == ("/b", "/a")
    assert KafkaConfig({"log.dir": "/c"}).log.data_directories() == ("/c",)
    assert KafkaConfig({"log.dirs": "", "log.dir": "/c"}).log.data_directories() == ()


def test_a_data_directory_has_one_name_with_slashes_at_its_end_and_without() -> None:
    config = KafkaConfig({"log.dirs": "/b/,/a//,/b,/"})
    assert config.log.data_directories() == ("/b", "/a", "/")


def test_a_dynamic_value_of_the_broker_wins_over_the_clusters_and_the_file() -> None:
    start = KafkaConfig.from_values({"log.retention.ms": "1", "num.io.threads": "4"})[0]
    config = start.with_dynamic(
        {"log.retention.ms": "2", "message.max.bytes": "9"}, {"log.retention.ms": "3"}
    )
    assert config.log.log_retention_ms_effective() == 3
    assert config.origin("log.retention.ms") == ORIGIN_DYNAMIC_BROKER
    assert config.origin("message.max.bytes") == ORIGIN_DYNAMIC_DEFAULT
    assert config.origin("num.io.threads") == ORIGIN_FILE
    assert config.origin("log.dir") == ORIGIN_DEFAULT
    assert start.log.log_retention_ms_effective() == 1


def test_value_is_found_by_name() -> None:
    assert KafkaConfig().value("zookeeper.clientCnxnSocket") is None
    assert KafkaConfig().value("num.partitions") == 1


def test_a_setting_that_nothing_acts_on_is_checked_and_known_all_the_same() -> None:
    config = KafkaConfig({"remote.log.reader.threads": "7"})

    assert config.value("remote.log.reader.threads") == 7
    assert config.value("remote.log.manager.task.retry.jitter") == 0.2
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        KafkaConfig({"remote.log.reader.threads": "0"})
