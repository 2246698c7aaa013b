"""DescribeConfigs' view of settings against the answers of a real Kafka 3.9.2, and of 4.3.1 where it
is about consumer groups of the new protocol.

The broker that was asked had the settings that show as source 4 in its file, three dynamic ones and
a throttle. kbroker's own settings come on top; nothing else differs.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kbroker.config.config_resources import ConfigSource
from kbroker.config.config_values import ConfigType
from kbroker.config.config_view import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_topic,
    select,
)
from kbroker.config.kafka_config import KafkaConfig

GOLDEN = Path(__file__).parents[2] / "golden" / "config"
PROTOCOLS = "group.coordinator.rebalance.protocols"  # which are served; no release has our list
OF_GROUPS = "group.consumer."
CLUSTER = {"log.retention.ms": "7654321", "message.max.bytes": "2000012"}
BROKER = {"log.cleaner.threads": "1", "leader.replication.throttled.rate": "777"}
OVERRIDES = {"cleanup.policy": "compact", "retention.ms": "123456", "segment.bytes": "2000000"}

Row = dict[str, str]


def read_rows(resource_type: str, resource: str, version: str = "3.9.2") -> list[Row]:
    with (GOLDEN / f"describe-configs-{version}.tsv").open() as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            row
            for row in rows
            if (row["resource_type"], row["resource"]) == (resource_type, resource)
        ]


def static_settings() -> dict[str, str]:
    """Return the settings in the broker's file, read off the synonyms of source 4.

    Values of unknown names are hidden.
    """
    synonyms = [part for row in read_rows("4", "0") for part in row["synonyms"].split("; ")]
    pairs = (part.removeprefix("4:").split("=", 1) for part in synonyms if part.startswith("4:"))
    return {name: value for name, value in pairs}  # noqa: C416  dict(pairs) is not typed


def shown(entry: ConfigEntry) -> Row:
    """An entry in the columns of the golden file."""
    synonyms = "; ".join(f"{source.value}:{name}={value}" for name, value, source in entry.synonyms)
    value = "null" if entry.value is None else entry.value
    return {
        "name": entry.name,
        "value": value or '""',
        "config_source": entry.source.name,
        "read_only": str(entry.read_only).lower(),
        "is_sensitive": str(entry.is_sensitive).lower(),
        "config_type": entry.type.name,
        "synonyms": synonyms or '""',
    }


def wanted(rows: list[Row]) -> list[Row]:
    columns = (
        "name",
        "value",
        "config_source",
        "read_only",
        "is_sensitive",
        "config_type",
        "synonyms",
    )
    return sorted(
        ({column: row[column] for column in columns} for row in rows), key=lambda row: row["name"]
    )


@pytest.fixture(scope="module")
def config() -> KafkaConfig:
    return KafkaConfig(static_settings()).with_dynamic(CLUSTER, BROKER)


def test_a_broker_is_described_as_kafka_does(config: KafkaConfig) -> None:
    kafka = [
        entry
        for entry in describe_broker(config)
        if not entry.name.startswith("kbroker.") and entry.name != PROTOCOLS
    ]
    older = read_rows("4", "0")
    rows = [
        row for row in older if not row["name"].startswith(OF_GROUPS) and row["name"] != PROTOCOLS
    ]
    rows += read_rows("4", "0", "4.3.1")
    assert [shown(entry) for entry in kafka] == wanted(rows)


def test_the_cluster_default_is_described_as_kafka_does(config: KafkaConfig) -> None:
    assert [shown(entry) for entry in describe_cluster_default(config)] == wanted(
        read_rows("4", '""')
    )


def test_a_topic_without_overrides_is_described_as_kafka_does(config: KafkaConfig) -> None:
    assert [shown(entry) for entry in describe_topic(config, {})] == wanted(
        read_rows("2", "cfg-plain")
    )


def test_a_topic_with_overrides_is_described_as_kafka_does(config: KafkaConfig) -> None:
    assert [shown(entry) for entry in describe_topic(config, OVERRIDES)] == wanted(
        read_rows("2", "cfg-over")
    )


def test_our_own_settings_are_described_too(config: KafkaConfig) -> None:
    own = [entry.name for entry in describe_broker(config) if entry.name.startswith("kbroker.")]
    assert "kbroker.record.validation" in own


@pytest.mark.parametrize(
    ("values", "source"),
    [
        ({}, ConfigSource.DEFAULT_CONFIG),
        ({"min.insync.replicas": "1"}, ConfigSource.STATIC_BROKER_CONFIG),
    ],
)
def test_a_default_that_a_profile_repeats_is_not_told_as_set(
    values: dict[str, str], source: ConfigSource
) -> None:
    config = KafkaConfig.for_profile("dev", values)

    of_topic = select(describe_topic(config, {}), ["min.insync.replicas"])
    of_broker = select(describe_broker(config), ["min.insync.replicas"])

    assert [(entry.value, entry.source) for entry in (*of_topic, *of_broker)] == [("1", source)] * 2
    (changed,) = select(describe_broker(config), ["offsets.topic.num.partitions"])
    assert changed.source is ConfigSource.STATIC_BROKER_CONFIG


def test_a_secret_shows_neither_value_nor_synonym_value() -> None:
    config = KafkaConfig({"ssl.key.password": "hush"})
    (entry,) = select(describe_broker(config), ["ssl.key.password"])
    assert entry.value is None
    assert [synonym.value for synonym in entry.synonyms] == [None]
    assert entry.is_sensitive


def test_an_internal_setting_shows_only_when_it_is_set() -> None:
    name = "log.initial.task.delay.ms"
    assert not list(select(describe_broker(KafkaConfig()), [name]))
    assert len(list(select(describe_broker(KafkaConfig({name: "5"})), [name]))) == 1


def test_a_retention_in_hours_is_the_topics_value_without_a_synonym_in_ms() -> None:
    config = KafkaConfig({"log.retention.hours": "2"})
    (entry,) = select(describe_topic(config, {}), ["retention.ms"])
    assert entry.value == "7200000"
    assert entry.synonyms == ()
    assert entry.source is ConfigSource.DEFAULT_CONFIG


def test_no_names_and_none_stand_for_all() -> None:
    entries = describe_topic(KafkaConfig(), {})
    assert len(entries) == 36
    assert list(select(entries, [])) == list(select(entries, None)) == entries
    assert not list(select(entries, ["no.such"]))


def test_every_entry_has_a_type_and_documentation() -> None:
    entries = describe_broker(KafkaConfig())
    assert all(entry.documentation and entry.type is not ConfigType.UNKNOWN for entry in entries)
