"""The settings of one group (resources of type GROUP): its own, over those of its broker.

Pure. Law: names, bounds and refusals are those of Kafka 4.3. What a group has stored is checked
when it is set; what is outside the broker's bounds later, because these have changed or another
hand wrote it, counts as the nearest bound, and what cannot be read does not count at all. Settings
of share groups and streams groups are not known, as nothing acts on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from kbroker.config.config_def import ConfigGroup, ConfigKey, config_group
from kbroker.config.consumer_group_config import Bounds, ConsumerGroupConfig
from kbroker.config.topic_config import follows
from kbroker.errors import ConfigError, ErrorCode, KafkaError

ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT = "consumer.session.timeout.ms"


@config_group
class GroupSettings(ConfigGroup):
    """The settings that a group may have of its own."""

    consumer_assignment_interval_ms: int = follows("group.consumer.assignment.interval.ms")
    consumer_heartbeat_interval_ms: int = follows("group.consumer.heartbeat.interval.ms")
    consumer_session_timeout_ms: int = follows("group.consumer.session.timeout.ms")


class ConsumerGroupSettings(NamedTuple):
    """The values in force for one consumer group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


_KEYS = {key.name: key for key in GroupSettings.keys}


def group_config_key(name: str) -> ConfigKey | None:
    """The declaration of a group's setting; None for a name that is not known."""
    return _KEYS.get(name)


def settings_in_force(config: ConsumerGroupConfig, own: Mapping[str, str]) -> ConsumerGroupSettings:
    """The values that count for a group with these settings of its own."""
    values, _ = _readable(own)
    bounds = bounds_of(config)
    chosen = {name: bounds[name].nearest(value) for name, value in values.items()}
    return ConsumerGroupSettings(
        chosen.get(SESSION_TIMEOUT, config.group_consumer_session_timeout_ms),
        chosen.get(HEARTBEAT_INTERVAL, config.group_consumer_heartbeat_interval_ms),
        chosen.get(ASSIGNMENT_INTERVAL, config.group_consumer_assignment_interval_ms),
    )


def bounds_of(config: ConsumerGroupConfig) -> dict[str, Bounds]:
    """The bounds within which a broker lets groups choose, by the name of the setting."""
    return {
        HEARTBEAT_INTERVAL: config.heartbeat_bounds,
        SESSION_TIMEOUT: config.session_bounds,
        ASSIGNMENT_INTERVAL: config.assignment_bounds,
    }


def sound_settings(own: Mapping[str, str]) -> dict[str, str]:
    """Of a group's stored settings, those that are known and can be read."""
    values, _ = _readable(own)
    return {name: own[name] for name in values}


def complaints(group_id: str, config: ConsumerGroupConfig, own: Mapping[str, str]) -> list[str]:
    """Say what is wrong with settings that a group has stored, for the log."""
    values, lines = _readable(own)
    lines = [f"ignoring a setting of group {group_id}: {line}" for line in lines]
    for name, value in values.items():
        bounds = bounds_of(config)[name]
        if bounds.nearest(value) != value:
            lines.append(
                f"{name} of group {group_id} is {value}, outside of {bounds.lowest} to "
                f"{bounds.highest}, and counts as {bounds.nearest(value)}"
            )
    force = settings_in_force(config, own)
    if values and force.session_timeout_ms <= force.heartbeat_interval_ms:
        lines.append(
            f"{SESSION_TIMEOUT} of group {group_id}, {force.session_timeout_ms}, is not greater "
            f"than its {HEARTBEAT_INTERVAL}, {force.heartbeat_interval_ms}"
        )
    return lines


def validate_group(config: ConsumerGroupConfig, own: Mapping[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG, with Kafka's sentence, for settings that a group may not
    have under these of its broker.
    """
    for name in own:
        if name not in _KEYS:
            raise _invalid(f"Unknown group config name: {name}")
    values = {SESSION_TIMEOUT: config.group_consumer_session_timeout_ms}
    values[HEARTBEAT_INTERVAL] = config.group_consumer_heartbeat_interval_ms
    try:
        for name in sorted(own):
            values[name] = cast("int", _KEYS[name].parse(own[name]))
    except ConfigError as error:
        raise _invalid(str(error)) from error
    for name, bounds in bounds_of(config).items():
        if name in values:
            _check_within(name, values[name], bounds)
    if values[SESSION_TIMEOUT] <= values[HEARTBEAT_INTERVAL]:
        raise _invalid(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")


def _check_within(name: str, value: int, bounds: Bounds) -> None:
    kind, _, rest = name.partition(".")
    if value < bounds.lowest:
        raise _invalid(f"{name} must be greater than or equal to group.{kind}.min.{rest}")
    if value > bounds.highest:
        raise _invalid(f"{name} must be less than or equal to group.{kind}.max.{rest}")


def _readable(own: Mapping[str, str]) -> tuple[dict[str, int], list[str]]:
    """The values of known settings that can be read, and what is wrong with the others."""
    values: dict[str, int] = {}
    wrong: list[str] = []
    for name, text in own.items():
        key = _KEYS.get(name)
        if key is None:
            wrong.append(f"{name} is not known")
            continue
        try:
            values[name] = cast("int", key.parse(text))
        except ConfigError as error:
            wrong.append(str(error))
    return values, wrong


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
