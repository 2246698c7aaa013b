"""Bounds of settings that a range or a list of words cannot say.

Each raises ConfigError with Kafka's sentence.
"""

from __future__ import annotations

import re
from typing import Any

from kbroker.config.config_values import invalid_value
from kbroker.errors import ConfigError

_MIGRATION_POLICIES = ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")
_THROTTLED_REPLICAS = re.compile(r"([0-9]+:[0-9]+)?")

# Releases with a version of the inter-broker protocol, each with its highest -IV number; the first
# ones have none. What 3.9 knows of 4.0 was not released, so that it has no name without a number.
_RELEASES = dict.fromkeys(("0.8.0", "0.8.1", "0.8.2", "0.9.0"), -1)
_RELEASES |= {"0.10.0": 1, "0.10.1": 2, "0.10.2": 0, "0.11.0": 2, "1.0": 0, "1.1": 0, "2.0": 1}
_RELEASES |= {"2.1": 2, "2.2": 1, "2.3": 1, "2.4": 1, "2.5": 0, "2.6": 0, "2.7": 2, "2.8": 1}
_RELEASES |= {"3.0": 1, "3.1": 0, "3.2": 0, "3.3": 3, "3.4": 0, "3.5": 2, "3.6": 2, "3.7": 4}
_RELEASES |= {"3.8": 0, "3.9": 0, "4.0": 1}
_UNRELEASED = "4.0"
_VERSIONS = (_RELEASES.keys() - {_UNRELEASED}) | {
    f"{release}-IV{number}" for release, last in _RELEASES.items() for number in range(last + 1)
}


def kafka_version(name: str, value: Any) -> None:
    """A release of Kafka, such as 2.8, 3.0-IV1 or 0.10.1-IV2."""
    parts = value.split(".")
    if ".".join(parts[: 3 if value.startswith("0.") else 2]) not in _VERSIONS:
        raise invalid_value(name, value, f"Version {value} is not a valid version")


def gzip_level(name: str, value: Any) -> None:
    """1 to 9, or -1 for the library's choice."""
    if value != -1 and not 1 <= value <= 9:
        raise invalid_value(name, value, "Value must be between 1 and 9 or equal to -1")


def migration_policy(name: str, value: Any) -> None:
    """How classic groups may move to the consumer protocol, in any case."""
    if value.upper() not in _MIGRATION_POLICIES:
        allowed = ", ".join(_MIGRATION_POLICIES)
        raise invalid_value(name, value, f"String must be one of (case insensitive): {allowed}")


def non_empty(name: str, value: Any) -> None:
    """A text that is not empty."""
    if not value:
        raise invalid_value(name, value, "String must be non-empty")


def throttled_replicas(name: str, value: Any) -> None:
    """`*`, or partition:broker pairs."""
    if value != ("*",) and not all(_THROTTLED_REPLICAS.fullmatch(pair) for pair in value):
        shape = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        raise invalid_value(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' "
            f"or a list of replicas in the following format: {shape}",
        )


def connections_per_ip(_name: str, value: Any) -> None:
    parse_per_ip_overrides(value)


def parse_per_ip_overrides(text: str) -> dict[str, int]:
    """Read `max.connections.per.ip.overrides`, host:count, comma separated. Raises ConfigError.

    >>> parse_per_ip_overrides("10.0.0.1:5, ::1:7")
    {'10.0.0.1': 5, '::1': 7}
    """
    overrides = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = entry.rpartition(":")
        if not host or not count.isdecimal():
            raise ConfigError(
                f"max.connections.per.ip.overrides: {entry!r} is not of the form host:count"
            )
        overrides[host] = int(count)
    return overrides
