"""What a running broker does not let its settings be changed to."""

from __future__ import annotations

import pytest

from kbroker.config.dynamic_checks import validate_dynamic
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError

REFUSED = [
    (
        {"num.io.threads": "17"},
        "Dynamic thread count update validation failed for num.io.threads=17, "
        "value should not be greater than double the current value 8",
    ),
    (
        {"num.network.threads": "1"},
        None,
    ),
    (
        {"background.threads": "4"},
        "Dynamic thread count update validation failed for background.threads=4, "
        "value should be at least half the current value 10",
    ),
    (
        {"log.cleaner.threads": "3"},
        "Dynamic thread count update validation failed for log.cleaner.threads=3, "
        "value should not be greater than double the current value 1",
    ),
    (
        {"log.cleaner.threads": "0"},
        "Dynamic thread count update validation failed for log.cleaner.threads=0, "
        "value should be at least 1",
    ),
    ({"log.cleaner.threads": "2", "num.io.threads": "16"}, None),
    (
        {"log.cleaner.dedupe.buffer.size": "1"},
        "Invalid value 1 for configuration log.cleaner.dedupe.buffer.size: "
        "it must be above 1 MiB for each of log.cleaner.threads",
    ),
    (
        {"log.retention.ms": "0"},
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    ),
    ({"log.retention.ms": "-2"}, None),
    ({"max.connections": "0"}, "Invalid max.connections 0"),
    (
        {"ssl.keystore.location": "x", "ssl.key.password": "y"},
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix: Set(ssl.key.password, ssl.keystore.location)",
    ),
    ({"listener.name.x.ssl.keystore.location": "y"}, None),
    ({"listener.name.x.ssl.keystore.locaton": "y"}, None),
    (
        {"listener.name.x.ssl.client.auth": "maybe"},
        "Invalid value maybe for configuration listener.name.x.ssl.client.auth: "
        "String must be one of: required, requested, none",
    ),
    ({"log.retention.ms": "x"}, "Invalid value x for configuration log.retention.ms"),
    ({"advertised.listeners": "x"}, "advertised.listeners"),
    ({"max.connections.per.ip.overrides": "x"}, "max.connections.per.ip.overrides"),
    ({"max.connections.per.ip.overrides": "127.0.0.1:7, ::1:8"}, None),
    ({"max.connections.per.ip.overrides": "127.0.0.1:many"}, "max.connections.per.ip.overrides"),
    ({}, None),
]


@pytest.mark.parametrize(("changed", "sentence"), REFUSED)
@pytest.mark.parametrize("of_broker", [True, False])
def test_what_kafka_refuses_is_refused(
    changed: dict[str, str], sentence: str | None, *, of_broker: bool
) -> None:
    current = KafkaConfig()
    if sentence is None:
        validate_dynamic(current, changed, of_broker=of_broker)
        return
    with pytest.raises(ConfigError) as caught:
        validate_dynamic(current, changed, of_broker=of_broker)
    assert sentence in str(caught.value)


def test_a_change_is_looked_at_together_with_the_settings_of_the_other_level() -> None:
    current = KafkaConfig(dynamic_broker={"log.cleaner.threads": "4"})

    validate_dynamic(current, {"log.cleaner.threads": "40"}, of_broker=False)  # hidden by the 4
    with pytest.raises(ConfigError, match="dedupe"):
        validate_dynamic(current, {"log.cleaner.dedupe.buffer.size": "4194304"}, of_broker=False)
    validate_dynamic(current, {"log.cleaner.dedupe.buffer.size": "4194308"}, of_broker=False)


def test_threads_are_counted_from_the_value_in_force() -> None:
    current = KafkaConfig({"num.io.threads": "3"}, dynamic_default={"num.io.threads": "6"})

    validate_dynamic(current, {"num.io.threads": "12"}, of_broker=True)
    with pytest.raises(ConfigError, match="at least half the current value 6"):
        validate_dynamic(current, {"num.io.threads": "2"}, of_broker=True)
