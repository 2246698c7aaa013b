"""Settings from files, variables and overrides."""

from __future__ import annotations

import pytest

from kbroker.config.kafka_config import (
    ORIGIN_DEFAULT,
    ORIGIN_ENVIRONMENT,
    ORIGIN_FILE,
    ORIGIN_OVERRIDE,
    ORIGIN_PROFILE,
)
from kbroker.errors import ConfigError
from kbroker.server.start.settings_sources import (
    SettingSources,
    environment_settings,
    load_settings,
    parse_overrides,
)

ENVIRONMENT = [
    ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
    ("KAFKA_CFG_LOG_RETENTION_MS", "log.retention.ms"),
    ("KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
    ("KAFKA_LISTENER_NAME_INTERNAL_SSL_KEY_PASSWORD", "listener.name.internal.ssl.key.password"),
    (
        "KAFKA_LISTENER_NAME_MY__NET_SASL_ENABLED_MECHANISMS",
        "listener.name.my_net.sasl.enabled.mechanisms",
    ),
    (
        "KAFKA_LISTENER_NAME_MY___NET_SASL_ENABLED_MECHANISMS",
        "listener.name.my-net.sasl.enabled.mechanisms",
    ),
    ("KAFKA_SUPER_USERS", "super.users"),
    ("KAFKA_GROUP_SHARE_MAX_SHARE_SESSIONS", "group.share.max.share.sessions"),
    ("KAFKA_KBROKER_ADVERTISE", "kbroker.advertise"),
    ("KBROKER_ADVERTISE", "kbroker.advertise"),
]


@pytest.mark.parametrize(("variable", "name"), ENVIRONMENT)
def test_a_variable_names_a_setting(variable: str, name: str) -> None:
    assert environment_settings({variable: "5"}) == ({name: "5"}, [])


def test_the_longer_prefix_wins() -> None:
    values, _ = environment_settings({"KAFKA_CFG_NUM_PARTITIONS": "2", "KAFKA_NUM_PARTITIONS": "1"})
    assert values == {"num.partitions": "2"}


NOTES = [
    ("KAFKA_HEAP_OPTS", ["KAFKA_HEAP_OPTS is set but has no effect: it is meant for Java"]),
    (
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        ["KAFKA_LOG4J_ROOT_LOGLEVEL is set but has no effect: it is meant for Java"],
    ),
    (
        "KAFKA_NUM_PARTITION",
        [
            "KAFKA_NUM_PARTITION is set but does not name a setting, did you mean "
            "KAFKA_NUM_PARTITIONS?"
        ],
    ),
    (
        "KAFKA_CFG_LOG_RETENTION_HOUR",
        [
            "KAFKA_CFG_LOG_RETENTION_HOUR is set but does not name a setting, did you mean "
            "KAFKA_CFG_LOG_RETENTION_HOURS?"
        ],
    ),
    ("KAFKA_ZZZ", ["KAFKA_ZZZ is set but does not name a setting"]),
    ("CLUSTER_ID", []),
    ("KAFKA_CLUSTER_ID", []),
    ("KBROKER_BOOTSTRAP", []),
    ("PATH", []),
]


@pytest.mark.parametrize(("variable", "notes"), NOTES)
def test_other_variables_set_nothing(variable: str, notes: list[str]) -> None:
    assert environment_settings({variable: "1"}) == ({}, notes)


def test_overrides_are_pairs() -> None:
    assert parse_overrides(["a=1", " b = c=d "]) == {"a": "1", "b": "c=d"}


@pytest.mark.parametrize("text", ["a", "=1", ""])
def test_an_override_without_a_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_overrides([text])


def test_later_sources_win_and_each_value_knows_where_it_came_from() -> None:
    names = ("num.partitions", "num.io.threads", "log.retention.ms", "offsets.topic.num.partitions")
    loaded = load_settings(
        SettingSources(
            properties={"num.partitions": "1", "num.io.threads": "1", "log.retention.ms": "1"},
            environment={"KAFKA_NUM_PARTITIONS": "2", "KAFKA_NUM_IO_THREADS": "2"},
            overrides={"num.partitions": "3"},
        )
    )
    assert [loaded.config.value(name) for name in names] == [3, 2, 1, 5]
    assert [loaded.config.origin(name) for name in names] == [
        ORIGIN_OVERRIDE,
        ORIGIN_ENVIRONMENT,
        ORIGIN_FILE,
        ORIGIN_PROFILE,
    ]
    assert loaded.config.origin("message.max.bytes") == ORIGIN_DEFAULT


def test_nothing_set_gives_the_dev_profile() -> None:
    loaded = load_settings(SettingSources())
    assert loaded.config.kbroker.kbroker_profile == "dev"
    assert loaded.config.server.broker_id == 0
    assert loaded.warnings == ()
    assert loaded.cluster_id is None


PROD_NEEDS = {"listeners": "PLAINTEXT://h:1", "log.dirs": "/data"}


@pytest.mark.parametrize("missing", sorted(PROD_NEEDS))
def test_prod_asks_for_what_a_test_broker_would_make_up(missing: str) -> None:
    given = {name: text for name, text in PROD_NEEDS.items() if name != missing}
    with pytest.raises(ConfigError, match=f"{missing} is not set"):
        load_settings(SettingSources(profile="prod", properties=given))


def test_dev_may_listen_everywhere_as_each_client_is_told_its_own_way() -> None:
    sources = SettingSources(overrides={"listeners": "PLAINTEXT://0.0.0.0:9092"})
    assert load_settings(sources).config.end_points()[0].host == "0.0.0.0"


def test_the_profile_asked_for_wins_over_the_files() -> None:
    sources = SettingSources(profile="prod", properties={"kbroker.profile": "dev", **PROD_NEEDS})
    loaded = load_settings(sources)
    assert loaded.config.kbroker.kbroker_profile == "prod"
    assert loaded.config.group.offsets_topic_num_partitions == 50


def test_the_profile_may_come_from_a_file() -> None:
    sources = SettingSources(properties={"kbroker.profile": "prod", **PROD_NEEDS})
    assert load_settings(sources).config.group.offsets_topic_num_partitions == 50


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown profile test: choose dev or prod"):
        load_settings(SettingSources(profile="test"))


def test_node_id_in_a_file_is_the_broker_id() -> None:
    assert load_settings(SettingSources(properties={"node.id": "7"})).config.server.broker_id == 7


@pytest.mark.parametrize("variable", ["CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID"])
def test_the_cluster_id_comes_from_the_environment(variable: str) -> None:
    assert load_settings(SettingSources(environment={variable: "abc"})).cluster_id == "abc"


def test_notes_and_warnings_come_together() -> None:
    sources = SettingSources(
        environment={"KAFKA_HEAP_OPTS": "-Xmx1g"}, overrides={"num.partition": "1"}
    )
    assert load_settings(sources).warnings == (
        "KAFKA_HEAP_OPTS is set but has no effect: it is meant for Java",
        "unknown setting num.partition, did you mean num.partitions?",
    )


def test_a_wrong_value_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value x for configuration num\.partitions"):
        load_settings(SettingSources(environment={"KAFKA_NUM_PARTITIONS": "x"}))
