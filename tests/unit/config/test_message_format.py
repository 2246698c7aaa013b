from __future__ import annotations

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.message_format import (
    ignored_format_warning,
    is_format_version_ignored,
    message_format,
)
from kbroker.config.topic_config import TopicConfig

FORMATS = [
    ("0.8.0", 0),
    ("0.8.2", 0),
    ("0.9.0", 0),
    ("0.10.0-IV0", 1),
    ("0.10.2", 1),
    ("0.11.0", 2),
    ("0.11.0-IV2", 2),
    ("1.0", 2),
    ("2.8-IV1", 2),
    ("3.0-IV1", 2),
]


@pytest.mark.parametrize(("version", "expected"), FORMATS)
def test_a_version_stands_for_the_newest_format_it_knew(version: str, expected: int) -> None:
    assert message_format(version) == expected


@pytest.mark.parametrize(
    ("protocol", "ignored"), [("2.8", False), ("2.8-IV1", False), ("3.0-IV1", True), ("3.9", True)]
)
def test_format_versions_count_below_protocol_3(protocol: str, ignored: bool) -> None:
    assert is_format_version_ignored(protocol) is ignored


def test_an_old_format_that_is_ignored_is_worth_a_warning() -> None:
    warning = ignored_format_warning("message.format.version", "0.10.0", "3.9-IV0", "orders")

    assert warning is not None
    assert warning.startswith(
        "message.format.version=0.10.0 of topic orders is ignored because "
        "inter.broker.protocol.version is 3.9-IV0"
    )


@pytest.mark.parametrize(("version", "protocol"), [("0.10.0", "2.8"), ("2.8", "3.9-IV0")])
def test_a_format_that_is_written_is_worth_none(version: str, protocol: str) -> None:
    assert ignored_format_warning("message.format.version", version, protocol) is None


def test_the_brokers_own_old_format_is_warned_of_at_the_start() -> None:
    settings = {"log.message.format.version": "0.9.0"}

    (warning,) = KafkaConfig(settings).warnings()

    assert warning.startswith("log.message.format.version=0.9.0 is ignored because")
    assert KafkaConfig({**settings, "inter.broker.protocol.version": "2.8"}).warnings() == []


def topic_format(protocol: str, overrides: dict[str, str]) -> int:
    config = KafkaConfig({"log.message.format.version": "0.10.0"})
    return (
        TopicConfig.from_overrides(config, overrides).with_format_in_force(protocol).message_format
    )


def test_a_topic_has_its_own_format_else_the_brokers() -> None:
    assert topic_format("2.8", {"message.format.version": "0.9.0"}) == 0
    assert topic_format("2.8", {}) == 1
    assert topic_format("3.0", {"message.format.version": "0.9.0"}) == 2


LEVELS = [
    ("gzip", {"compression.gzip.level": "4"}, 4),
    ("lz4", {"compression.lz4.level": "5"}, 5),
    ("zstd", {"compression.zstd.level": "-6"}, -6),
    ("gzip", {}, -1),
    ("snappy", {}, None),
    ("producer", {"compression.gzip.level": "4"}, None),
]


@pytest.mark.parametrize(("codec", "levels", "expected"), LEVELS)
def test_the_level_is_that_of_the_topics_codec(
    codec: str, levels: dict[str, str], expected: int | None
) -> None:
    overrides = {"compression.type": codec, **levels}

    assert TopicConfig.from_overrides(KafkaConfig(), overrides).compression_level == expected
