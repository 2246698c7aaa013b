"""Settings as text: what Kafka's ConfigDef accepts for each type, and how it prints a value.

Law: the text that Kafka parses is parsed here to the same value, and a refusal carries Kafka's own
sentence, because clients show it and some tools match on it. Pure functions over strings.
"""

from __future__ import annotations

import math
import re
from enum import IntEnum

from kbroker.errors import ConfigError

ConfigValue = bool | int | float | str | tuple[str, ...] | None

MAX_SHORT = 2**15 - 1
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
MAX_DOUBLE = 1.7976931348623157e308

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?))")


class ConfigType(IntEnum):
    """Kafka's types of settings; the numbers travel in DescribeConfigs answers."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_LIMITS = {
    ConfigType.SHORT: MAX_SHORT,
    ConfigType.INT: MAX_INT,
    ConfigType.LONG: MAX_LONG,
}


def invalid_value(name: str, value: object, reason: str) -> ConfigError:
    """The refusal of one value, in Kafka's wording."""
    return ConfigError(f"Invalid value {value} for configuration {name}: {reason}")


def parse_text(name: str, config_type: ConfigType, text: str) -> ConfigValue:
    """The value that `text` stands for; raises ConfigError with Kafka's sentence."""
    trimmed = text.strip()
    if config_type in _LIMITS:
        return _parse_integer(name, config_type, text)
    if config_type is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if config_type is ConfigType.DOUBLE:
        if not _DOUBLE.fullmatch(trimmed):
            raise invalid_value(name, text, "Not a number of type DOUBLE")
        return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
    if config_type is ConfigType.LIST:
        return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
    return trimmed


def _parse_integer(name: str, config_type: ConfigType, text: str) -> int:
    trimmed = text.strip()
    limit = _LIMITS[config_type]
    if _INTEGER.fullmatch(trimmed) and len(trimmed) < 30 and -limit - 1 <= int(trimmed) <= limit:
        return int(trimmed)
    raise invalid_value(name, text, f"Not a number of type {config_type.name}")


def to_text(value: ConfigValue) -> str | None:
    """The value as Kafka prints it: `true`, `0.5`, `a,b`; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _double_to_text(value)
    return str(value)


def _double_to_text(value: float) -> str:
    """As Java prints a double: decimal from 0.001 up to 10 million, else with an exponent."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(
        text for text in (f"{value:.{digits}e}" for digits in range(1, 18)) if float(text) == value
    )
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa}E{int(exponent)}"
