"""The declared settings against the lists of a real Kafka: 3.9.2, and 4.3.1 for what 3.9 has of groups
in another way or not at all.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kbroker.config.config_values import to_text
from kbroker.config.group_settings import GroupSettings
from kbroker.config.kafka_config import config_keys
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ConfigError

GOLDEN = Path(__file__).parents[2] / "golden" / "config"
BROKER_KEYS = {key.name: key for key in config_keys()}
TOPIC_KEYS = {key.name: key for key in TopicConfig.keys}
GROUP_KEYS = {key.name: key for key in GroupSettings.keys}


def read_rows(file: str) -> list[dict[str, str]]:
    with (GOLDEN / file).open() as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


NEWER_ROWS = read_rows("consumer-group-settings-4.3.tsv")
NEWER = {row["name"] for row in NEWER_ROWS}
BROKER_ROWS = [
    *(row for row in read_rows("broker-settings-3.9.tsv") if row["name"] not in NEWER),
    *NEWER_ROWS,
]
TOPIC_ROWS = read_rows("topic-settings-3.9.tsv")
GROUP_ROWS = read_rows("group-settings-4.3.tsv")
ALL = [
    *((row, BROKER_KEYS[row["name"]]) for row in BROKER_ROWS),
    *((row, TOPIC_KEYS[row["name"]]) for row in TOPIC_ROWS),
    *((row, GROUP_KEYS[row["name"]]) for row in GROUP_ROWS),
]


# Where it is 4.3's, as its groups are served.
OTHER_DEFAULTS = {"group.coordinator.rebalance.protocols": "classic,consumer"}


def expected_default(row: dict[str, str]) -> str | None:
    default = OTHER_DEFAULTS.get(row["name"], row["default"])
    return {"null": None, '""': ""}.get(default, default)


def expected_synonyms(row: dict[str, str]) -> tuple[str, ...]:
    names = tuple(row["synonyms"].split(","))
    return () if names in (("null",), (row["name"],)) and "mode" in row else names


def test_exactly_the_broker_settings_of_kafka_and_our_own_are_declared() -> None:
    kafka = {name for name in BROKER_KEYS if not name.startswith("kbroker.")}
    assert kafka == {row["name"] for row in BROKER_ROWS}


def test_exactly_the_topic_settings_of_kafka_are_declared() -> None:
    assert list(TOPIC_KEYS) == [row["name"] for row in TOPIC_ROWS]


def test_exactly_what_consumer_groups_of_kafka_may_set_is_declared() -> None:
    assert list(GROUP_KEYS) == [row["name"] for row in GROUP_ROWS]


def test_type_default_importance_and_visibility_are_those_of_kafka() -> None:
    for row, key in ALL:
        assert key.type.name.lower() == row["type"], key.name
        assert to_text(key.default) == expected_default(row), key.name
        assert key.importance == row["importance"], key.name
        assert str(key.internal).lower() == row["internal"], key.name
        assert key.dynamic == row.get("mode", key.dynamic), key.name


def test_broker_settings_fall_back_as_in_kafka() -> None:
    ours = {row["name"]: BROKER_KEYS[row["name"]].synonyms for row in BROKER_ROWS}
    assert ours == {row["name"]: expected_synonyms(row) for row in BROKER_ROWS}


def test_settings_of_topics_and_groups_fall_back_as_in_kafka() -> None:
    keys = {**TOPIC_KEYS, **GROUP_KEYS}
    rows = (*TOPIC_ROWS, *GROUP_ROWS)
    ours = {row["name"]: ",".join(keys[row["name"]].synonyms) for row in rows}
    assert ours == {row["name"]: row["synonyms"].replace("null", "") for row in rows}


def bounds(valid: str) -> tuple[str | None, str | None]:
    if "..." not in valid or valid.startswith("[partition") or valid.endswith("-1"):
        return None, None
    low, _, high = valid.strip("[]").partition(",...")
    return low, high.lstrip(",") or None


def test_bounds_are_those_of_kafka() -> None:
    for row, key in ALL:
        ours = (to_text(key.at_least), to_text(key.at_most))
        assert ours == bounds(row["valid"]), key.name


def test_attribute_is_the_name_with_underscores_both_ways() -> None:
    for key in BROKER_KEYS.values():
        assert key.attribute == key.name.replace(".", "_")
        assert key.attribute.replace("_", ".") == key.name


def test_default_survives_printing_and_reading() -> None:
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        text = to_text(key.default)
        assert text is None or key.parse(text) == key.default, key.name


def test_every_setting_has_a_line_of_documentation() -> None:
    for key in BROKER_KEYS.values():
        assert key.doc.endswith("."), key.name
        assert len(key.doc) < 160, key.name


def test_value_below_the_bound_is_refused_with_name_value_and_bound() -> None:
    for key in BROKER_KEYS.values():
        if key.at_least is not None:
            sentence = f"for configuration {key.name}: Value must be at least {key.at_least}"
            with pytest.raises(ConfigError, match=sentence):
                key.parse(str(key.at_least - 1))
