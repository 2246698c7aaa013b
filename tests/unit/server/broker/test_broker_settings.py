from __future__ import annotations

import logging

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.server.broker.broker_settings import BrokerSettings

OVERRIDES = {"old": {"message.format.version": "0.10.0"}, "plain": {}}


def settings_of(protocol: str) -> BrokerSettings:
    config = KafkaConfig({"inter.broker.protocol.version": protocol})
    return BrokerSettings(config, OVERRIDES.__getitem__)


def test_below_protocol_3_a_topic_has_the_format_of_its_version() -> None:
    settings = settings_of("2.8")

    assert settings.of_topic("old").message_format == 1
    assert settings.of_topic("plain").message_format == 2


def test_from_protocol_3_on_the_version_is_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = settings_of("3.9-IV0")

    with caplog.at_level(logging.WARNING):
        formats = [settings.of_topic(topic).message_format for topic in ("old", "old", "plain")]

    assert formats == [2, 2, 2]
    (warning,) = caplog.messages
    assert warning.startswith("message.format.version=0.10.0 of topic old is ignored because")


def test_a_setting_of_a_topic_that_cannot_be_used_leaves_the_others_in_force(
    caplog: pytest.LogCaptureFixture,
) -> None:
    overrides = {"segment.bytes": "1", "retention.ms": "5", "no.such": "x"}
    settings = BrokerSettings(KafkaConfig({"log.segment.bytes": "100"}), lambda _: overrides)

    found = [settings.of_topic("t") for _ in range(2)]

    assert [(each.segment_bytes, each.retention_ms) for each in found] == [(100, 5)] * 2
    assert caplog.messages == [
        "ignoring a setting of topic t: Invalid value 1 for configuration segment.bytes: "
        "Value must be at least 14"
    ]


def test_stored_settings_that_name_code_or_are_for_the_start_alone_are_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = "listener.name.plaintext.principal.builder.class"
    kafkas = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    config = KafkaConfig({"broker.id": "0", builder: "mine:named"})
    settings = BrokerSettings(config, OVERRIDES.__getitem__)

    settings.broker_changed("0", {builder: "os:system", "log.dirs": "/x", "num.io.threads": "9"})

    assert (
        settings.config.listener_setting("principal.builder.class", "PLAINTEXT")[1] == "mine:named"
    )
    assert settings.config.dynamic_broker == {"num.io.threads": "9"}
    assert [line.partition(":")[0] for line in caplog.messages] == [
        f"ignoring the dynamic setting {name}" for name in (builder, "log.dirs")
    ]
    settings.broker_changed("0", {builder: kafkas})
    assert settings.config.dynamic_broker == {builder: kafkas}


def test_a_stored_setting_that_does_not_fit_this_broker_leaves_the_others_in_force(
    caplog: pytest.LogCaptureFixture,
) -> None:
    between = "group.consumer.assignment.interval.ms"
    config = KafkaConfig({"broker.id": "0", "group.consumer.max.assignment.interval.ms": "10000"})
    settings = BrokerSettings(config, OVERRIDES.__getitem__)

    settings.broker_changed("<default>", {between: "15000", "log.retention.ms": "-1"})
    settings.broker_changed("0", {"num.io.threads": "9"})

    assert settings.config.dynamic_default == {"log.retention.ms": "-1"}
    assert settings.config.dynamic_broker == {"num.io.threads": "9"}
    assert {line.partition(":")[0] for line in caplog.messages} == {
        f"ignoring the dynamic setting {between}"
    }
    settings.broker_changed("<default>", {between: "5000", "log.retention.ms": "-1"})
    assert settings.config.consumer_group.group_consumer_assignment_interval_ms == 5000
