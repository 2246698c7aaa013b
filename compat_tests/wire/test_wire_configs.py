"""DescribeConfigs and IncrementalAlterConfigs of topics and of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.wire.wire_client import (
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    WireClient,
    code,
)

Either = Callable[[str, str], str]

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5


def alter(wire: WireClient, kind: int, name: str, *changes: tuple[str, int, str | None]) -> str:
    configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = wire.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses[0]
    return code(answer.error_code, answer.error_message)


def describe(wire: WireClient, topic: str, keys: list[str] | None) -> Any:
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": keys}
    return wire.call(DESCRIBE_CONFIGS, 4, resources=[resource]).results[0]


def value_of(wire: WireClient, topic: str, key: str) -> tuple[str, int]:
    """Value and source of a setting."""
    (found,) = describe(wire, topic, [key]).configs
    return found.value, found.config_source


@pytest.mark.row(206)
def test_a_missing_topic_cannot_be_altered(wire: WireClient, topic: str) -> None:
    refused = alter(wire, TOPIC, topic, ("retention.ms", SET, "1000"))
    assert refused == f"3 UNKNOWN_TOPIC_OR_PARTITION (The topic '{topic}' does not exist.)"


@pytest.mark.row(206)
def test_an_unknown_setting_is_refused(wire: WireClient) -> None:
    refused = alter(wire, TOPIC, wire.create_topic(), ("no.such", SET, "1"))
    assert refused == "40 INVALID_CONFIG (Unknown topic config name: no.such)"


@pytest.mark.row(206)
def test_a_bad_value_is_refused(wire: WireClient, either: Either) -> None:
    topic = wire.create_topic()
    place = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): "
    reason = "Invalid value abc for configuration retention.ms: Not a number of type LONG"
    refused = alter(wire, TOPIC, topic, ("retention.ms", SET, "abc"))
    assert refused == f"40 INVALID_CONFIG ({either(place, '')}{reason})"
    assert value_of(wire, topic, "retention.ms")[1] == DEFAULT_SOURCE


@pytest.mark.row(207)
@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        (
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            "42 INVALID_REQUEST (Error due to duplicate config keys)",
        ),
        (
            [("retention.ms", SET, None)],
            "42 INVALID_REQUEST (Null value not supported for : retention.ms)",
        ),
        ([("retention.ms", 9, "1")], "-1 UNKNOWN_SERVER_ERROR"),
    ],
    ids=["twice", "null", "unknown operation"],
)
def test_a_change_that_makes_no_sense_is_refused(
    wire: WireClient, changes: list[tuple[str, int, str | None]], refused: str
) -> None:
    assert alter(wire, TOPIC, wire.create_topic(), *changes) == refused


@pytest.mark.row(208)
def test_lists_are_appended_to_and_subtracted_from(wire: WireClient) -> None:
    topic = wire.create_topic()
    assert alter(wire, TOPIC, topic, ("cleanup.policy", APPEND, "compact")) == "0"
    assert value_of(wire, topic, "cleanup.policy") == ("delete,compact", TOPIC_SOURCE)
    assert alter(wire, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")) == "0"
    assert value_of(wire, topic, "cleanup.policy") == ("compact", TOPIC_SOURCE)


@pytest.mark.row(208)
def test_a_number_is_no_list(wire: WireClient, either: Either) -> None:
    reason = either(
        "Config value append is not allowed for config key: retention.ms",
        "Can't APPEND to key retention.ms because its type is not LIST.",
    )
    refused = alter(wire, TOPIC, wire.create_topic(), ("retention.ms", APPEND, "1"))
    assert refused == f"40 INVALID_CONFIG ({reason})"


@pytest.mark.row(209)
def test_a_setting_that_is_not_set_may_be_deleted(wire: WireClient) -> None:
    assert alter(wire, TOPIC, wire.create_topic(), ("retention.ms", DELETE, None)) == "0"


def test_a_deleted_setting_goes_back_to_its_default(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"retention.ms": "1000"})
    assert value_of(wire, topic, "retention.ms") == ("1000", TOPIC_SOURCE)
    assert alter(wire, TOPIC, topic, ("retention.ms", DELETE, None)) == "0"
    assert value_of(wire, topic, "retention.ms") == ("604800000", DEFAULT_SOURCE)


@pytest.mark.row(210)
def test_a_setting_that_is_read_at_start_cannot_be_altered(wire: WireClient) -> None:
    refused = alter(wire, BROKER, str(wire.node_id()), ("log.dirs", SET, "/nowhere"))
    assert refused.startswith("42 INVALID_REQUEST (Cannot update these configs dynamically: ")
    assert "log.dirs" in refused


@pytest.mark.row(210)
def test_a_setting_of_one_broker_cannot_be_set_for_all(wire: WireClient) -> None:
    refused = alter(wire, BROKER, "", ("listeners", SET, "PLAINTEXT://:1"))
    reason = "Cannot update these configs at default cluster level, broker id must be specified: "
    assert refused.startswith(f"42 INVALID_REQUEST ({reason}")
    assert "listeners" in refused


@pytest.mark.row(210)
def test_an_unknown_setting_of_a_broker_is_kept_for_plugins(wire: WireClient) -> None:
    broker = str(wire.node_id())
    assert alter(wire, BROKER, broker, ("no.such", SET, "1")) == "0"
    assert alter(wire, BROKER, broker, ("no.such", DELETE, None)) == "0"


@pytest.mark.row(210)
def test_another_broker_cannot_be_altered_here(wire: WireClient) -> None:
    refused = alter(wire, BROKER, "99", ("log.cleaner.threads", SET, "1"))
    expected = f"Unexpected broker id, expected {wire.node_id()}, but received 99"
    assert refused == f"42 INVALID_REQUEST ({expected})"


@pytest.mark.row(213)
def test_a_missing_topic_has_no_settings(wire: WireClient, topic: str) -> None:
    answer = describe(wire, topic, None)
    assert (code(answer.error_code), answer.configs) == ("3 UNKNOWN_TOPIC_OR_PARTITION", ())


@pytest.mark.row(213)
def test_an_unknown_setting_is_left_out(wire: WireClient) -> None:
    answer = describe(wire, wire.create_topic(), ["no.such"])
    assert (code(answer.error_code), answer.configs) == ("0", ())


@pytest.mark.row(214)
@pytest.mark.parametrize("keys", [[], None])
def test_an_empty_list_of_keys_asks_for_all(
    wire: WireClient, either: Callable[[int, int], int], keys: list[str] | None
) -> None:
    assert len(describe(wire, wire.create_topic(), keys).configs) == either(36, 33)


@pytest.mark.parametrize("name", ["", ".", "a b", "x" * 250], ids=["empty", "dot", "space", "long"])
def test_a_name_that_no_topic_can_have_is_refused(wire: WireClient, name: str) -> None:
    answer = describe(wire, name, None)
    assert code(answer.error_code) == "17 INVALID_TOPIC_EXCEPTION"
    assert answer.error_message.startswith("Topic name is invalid: ")


@pytest.mark.parametrize("key", ["remote.storage.enable"])
def test_a_feature_that_the_broker_lacks_is_refused(wire: WireClient, key: str) -> None:
    topic = wire.create_topic()
    refused = alter(wire, TOPIC, topic, (key, SET, "true"))
    reason = "Topic cannot be configured with remote log storage."
    assert refused.startswith("40 INVALID_CONFIG (Tiered Storage functionality is disabled")
    assert refused.endswith(f"{reason})")
    assert value_of(wire, topic, key) == ("false", DEFAULT_SOURCE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.cleaner.dedupe.buffer.size", "1"),
        ("log.cleaner.threads", "0"),
        ("num.io.threads", "1000"),
        ("max.connections", "0"),
        ("log.retention.ms", "0"),
        ("max.connections.per.ip.overrides", "x"),
    ],
)
def test_settings_that_do_not_fit_are_refused_and_hide_no_others(
    wire: WireClient, key: str, value: str
) -> None:
    refused = alter(wire, BROKER, str(wire.node_id()), (key, SET, value))
    assert refused.startswith("42 INVALID_REQUEST")
    assert value_of(wire, wire.create_topic(), "segment.ms")[1] == DEFAULT_SOURCE


def logger_level(wire: WireClient, name: str) -> str | None:
    resource = {
        "resource_type": LOGGER,
        "resource_name": str(wire.node_id()),
        "configuration_keys": [name],
    }
    (answer,) = wire.call(DESCRIBE_CONFIGS, 4, resources=[resource]).results
    assert code(answer.error_code) == "0"
    return next((config.value for config in answer.configs), None)


def test_a_logger_has_the_level_it_was_given(wire: WireClient, only_kbroker: None) -> None:
    broker, name = str(wire.node_id()), "kbroker.network"
    before = logger_level(wire, "root")

    assert alter(wire, LOGGER, broker, (name, SET, "TRACE")) == "0"
    assert logger_level(wire, name) == "TRACE"
    assert logger_level(wire, "kbroker.network.acceptor") == "TRACE"
    assert logger_level(wire, "root") == before
    assert alter(wire, LOGGER, broker, (name, DELETE, None)) == "0"

    assert logger_level(wire, name) == before


@pytest.mark.parametrize(
    ("name", "operation", "value", "expected"),
    [
        ("no.such", SET, "INFO", "40 INVALID_CONFIG (Logger no.such does not exist!)"),
        ("root", SET, "OFF", "40 INVALID_CONFIG (Cannot set the log level of root to OFF as it is"),
        ("root", DELETE, None, "42 INVALID_REQUEST (Removing the log level of the root logger is"),
        ("root", APPEND, "INFO", "42 INVALID_REQUEST (APPEND operation is not allowed for the"),
    ],
)
def test_what_cannot_be_done_to_a_logger_is_refused(
    wire: WireClient, name: str, operation: int, value: str | None, expected: str
) -> None:
    refused = alter(wire, LOGGER, str(wire.node_id()), (name, operation, value))
    assert refused.startswith(expected)
