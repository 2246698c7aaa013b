"""Bounds of settings that a range or a list of words cannot say.

Each raises ConfigError with Kafka's sentence.
"""

from __future__ import annotations

import re
from typing import Any

from kbroker.config.config_values import invalid_value

_MIGRATION_POLICIES = ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL")
_THROTTLED_REPLICAS = re.compile(r"[0-9]+:[0-9]+")

# Versions of the inter-broker protocol, from 0.8.0 up to 4.0-IV1.
_KAFKA_VERSION = re.compile(
    r"(0\.8\.[0-2]|0\.9\.0|0\.10\.[0-2]|0\.11\.0|1\.[01]|2\.[0-8]|3\.[0-9]|4\.0)"
    r"(\.[0-9]+)*(-IV[0-4])?"
)


def kafka_version(name: str, value: Any) -> None:
    """A release of Kafka, such as 2.8, 3.0-IV1 or 0.10.1-IV2."""
    if not _KAFKA_VERSION.fullmatch(value):
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
