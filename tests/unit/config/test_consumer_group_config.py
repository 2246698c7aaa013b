"""Settings of consumer groups, a broker's and a group's own: what has to fit together."""

from __future__ import annotations

import pytest

from kbroker.config.config_view import describe_group
from kbroker.config.consumer_group_config import ConsumerGroupConfig
from kbroker.config.group_settings import (
    ConsumerGroupSettings,
    complaints,
    settings_in_force,
    validate_group,
)
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError, ErrorCode, KafkaError

SESSION, HEARTBEAT, ASSIGNMENT = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "assignment.interval.ms",
)
BROKER = ConsumerGroupConfig()


def broker(**settings: int) -> ConsumerGroupConfig:
    return ConsumerGroupConfig(**{f"group_consumer_{name}": n for name, n in settings.items()})


# ---- of a broker


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        (f"max.{HEARTBEAT}", 4999, f"max.{HEARTBEAT} must be greater than or equal to "
         f"group.consumer.min.{HEARTBEAT}"),
        (HEARTBEAT, 4999, f"{HEARTBEAT} must be greater than or equal to "
         f"group.consumer.min.{HEARTBEAT}"),
        (HEARTBEAT, 15001, f"{HEARTBEAT} must be less than or equal to "
         f"group.consumer.max.{HEARTBEAT}"),
        (f"min.{SESSION}", 60001, f"max.{SESSION} must be greater than or equal to "
         f"group.consumer.min.{SESSION}"),
        (SESSION, 44999, f"{SESSION} must be greater than or equal to "
         f"group.consumer.min.{SESSION}"),
        (SESSION, 60001, f"{SESSION} must be less than or equal to group.consumer.max.{SESSION}"),
        (f"min.{ASSIGNMENT}", 15001, f"max.{ASSIGNMENT} must be greater than or equal to "
         f"group.consumer.min.{ASSIGNMENT}"),
        (f"min.{ASSIGNMENT}", 1001, f"{ASSIGNMENT} must be greater than or equal to "
         f"group.consumer.min.{ASSIGNMENT}"),
        (ASSIGNMENT, 15001, f"{ASSIGNMENT} must be less than or equal to "
         f"group.consumer.max.{ASSIGNMENT}"),
    ],
)  # fmt: skip
def test_a_broker_has_each_value_between_its_bounds(
    setting: str, value: int, sentence: str
) -> None:
    config = KafkaConfig({f"group.consumer.{setting}": str(value)})
    with pytest.raises(ConfigError) as refused:
        config.validate()
    assert str(refused.value) == f"group.consumer.{sentence}"


def test_a_broker_expects_heartbeats_within_a_session() -> None:
    even = broker(min_session_timeout_ms=1, session_timeout_ms=5000)
    with pytest.raises(ConfigError, match=rf"{HEARTBEAT} must be less than group.*{SESSION}"):
        even.check()
    broker(min_session_timeout_ms=1, session_timeout_ms=5001).check()


def test_the_time_between_assignments_alone_changes_while_a_broker_runs() -> None:
    changed = KafkaConfig().with_dynamic({f"group.consumer.{ASSIGNMENT}": "15000"}, {})
    assert changed.consumer_group.group_consumer_assignment_interval_ms == 15_000
    with pytest.raises(ConfigError, match="must be less than or equal to"):
        KafkaConfig().with_dynamic({f"group.consumer.{ASSIGNMENT}": "15001"}, {})


# ---- of a group


def refusal(own: dict[str, str], config: ConsumerGroupConfig = BROKER) -> str | None:
    try:
        validate_group(config, own)
    except KafkaError as error:
        return error.message if error.code is ErrorCode.INVALID_CONFIG else error.code.name
    return None


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        (SESSION, "44999", f"must be greater than or equal to group.consumer.min.{SESSION}"),
        (SESSION, "60001", f"must be less than or equal to group.consumer.max.{SESSION}"),
        (HEARTBEAT, "4999", f"must be greater than or equal to group.consumer.min.{HEARTBEAT}"),
        (HEARTBEAT, "15001", f"must be less than or equal to group.consumer.max.{HEARTBEAT}"),
        (ASSIGNMENT, "15001", f"must be less than or equal to group.consumer.max.{ASSIGNMENT}"),
    ],
)
def test_a_group_stays_within_the_bounds_of_its_broker(
    setting: str, value: str, sentence: str
) -> None:
    assert refusal({f"consumer.{setting}": value}) == f"consumer.{setting} {sentence}"


def test_what_a_group_cannot_have_is_refused_with_kafkas_sentences() -> None:
    wide = broker(min_session_timeout_ms=1)
    name = f"consumer.{SESSION}"

    assert refusal({"no.such": "1"}) == "Unknown group config name: no.such"
    assert refusal({"share.session.timeout.ms": "50000"}) == (
        "Unknown group config name: share.session.timeout.ms"
    )
    assert refusal({name: "x"}) == (
        f"Invalid value x for configuration {name}: Not a number of type INT"
    )
    assert refusal({name: "0"}) == (
        f"Invalid value 0 for configuration {name}: Value must be at least 1"
    )
    assert refusal({name: "5000"}, wide) == f"{name} must be greater than consumer.{HEARTBEAT}"
    assert refusal({name: "5001"}, wide) is None
    assert refusal({f"consumer.{ASSIGNMENT}": "0"}) is None


def test_a_group_without_settings_has_the_brokers() -> None:
    config = broker(session_timeout_ms=46_000, heartbeat_interval_ms=6000)

    assert settings_in_force(config, {}) == ConsumerGroupSettings(46_000, 6000, 1000)
    assert settings_in_force(config, {f"consumer.{HEARTBEAT}": "7000"}) == (
        ConsumerGroupSettings(46_000, 7000, 1000)
    )


def test_what_another_hand_wrote_counts_as_the_nearest_bound_or_not_at_all_and_is_told() -> None:
    own = {
        f"consumer.{SESSION}": "1",
        f"consumer.{HEARTBEAT}": "99999",
        f"consumer.{ASSIGNMENT}": "soon",
        "later.setting": "1",
    }

    assert settings_in_force(BROKER, own) == ConsumerGroupSettings(45_000, 15_000, 1000)
    told = complaints("g", BROKER, own)
    assert [line.partition(":")[0] for line in told[:2]] == ["ignoring a setting of group g"] * 2
    assert told[2:] == [
        f"consumer.{SESSION} of group g is 1, outside of 45000 to 60000, and counts as 45000",
        f"consumer.{HEARTBEAT} of group g is 99999, outside of 5000 to 15000, and counts as 15000",
    ]
    narrow = broker(min_session_timeout_ms=1, max_session_timeout_ms=2)
    (_, last) = complaints("g", narrow, {f"consumer.{SESSION}": "3"})
    assert last == (
        f"consumer.{SESSION} of group g, 2, is not greater than its consumer.{HEARTBEAT}, 5000"
    )


def test_a_groups_settings_are_described_with_their_sources_as_they_are_stored() -> None:
    config = KafkaConfig({f"group.consumer.{HEARTBEAT}": "6000"})
    own = {f"consumer.{SESSION}": "1", "later.setting": "1", f"consumer.{ASSIGNMENT}": "soon"}

    found = {
        entry.name: (
            entry.value,
            entry.source,
            [(s.name, s.value, s.source) for s in entry.synonyms],
        )
        for entry in describe_group(config, own)
    }

    assert found == {
        f"consumer.{ASSIGNMENT}": ("1000", 5, [(f"group.consumer.{ASSIGNMENT}", "1000", 5)]),
        f"consumer.{HEARTBEAT}": (
            "6000", 4,
            [(f"group.consumer.{HEARTBEAT}", "6000", 4), (f"group.consumer.{HEARTBEAT}", "5000", 5)],
        ),
        f"consumer.{SESSION}": (
            "1", 8,
            [(f"consumer.{SESSION}", "1", 8), (f"group.consumer.{SESSION}", "45000", 5)],
        ),
    }  # fmt: skip
