"""Texts to values and back, as Kafka's ConfigDef does it."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.config_values import MAX_DOUBLE, ConfigType, ConfigValue, parse_text, to_text
from kbroker.errors import ConfigError

ACCEPTED: list[tuple[ConfigType, str, ConfigValue]] = [
    (ConfigType.BOOLEAN, " True ", True),
    (ConfigType.BOOLEAN, "FALSE", False),
    (ConfigType.INT, " 12 ", 12),
    (ConfigType.INT, "+12", 12),
    (ConfigType.INT, "-2147483648", -(2**31)),
    (ConfigType.SHORT, "32767", 32767),
    (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
    (ConfigType.DOUBLE, "1e3", 1000.0),
    (ConfigType.DOUBLE, ".5d", 0.5),
    (ConfigType.LIST, "", ()),
    (ConfigType.LIST, " a , b", ("a", "b")),
    (ConfigType.STRING, "  text ", "text"),
    (ConfigType.PASSWORD, " s ", "s"),
    (ConfigType.CLASS, "org.example.Thing", "org.example.Thing"),
]


@pytest.mark.parametrize(("config_type", "text", "value"), ACCEPTED)
def test_text_is_read_as_kafka_reads_it(
    config_type: ConfigType, text: str, value: ConfigValue
) -> None:
    assert parse_text("x", config_type, text) == value


NUMBERS = [
    (ConfigType.INT, "2147483648"),
    (ConfigType.SHORT, "32768"),
    (ConfigType.LONG, "9223372036854775808"),
    (ConfigType.LONG, "1_000"),
    (ConfigType.LONG, "1.5"),
    (ConfigType.LONG, ""),
    (ConfigType.LONG, "9" * 5000),
    (ConfigType.INT, "\u0661"),
    (ConfigType.DOUBLE, "1_0.5"),
    (ConfigType.DOUBLE, ""),
    (ConfigType.DOUBLE, "inf"),
]


@pytest.mark.parametrize(("config_type", "text"), NUMBERS)
def test_what_is_no_number_is_refused_by_type(config_type: ConfigType, text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_text("x.y", config_type, text)
    assert (
        str(refusal.value)
        == f"Invalid value {text} for configuration x.y: Not a number of type {config_type.name}"
    )


def test_a_boolean_is_true_or_false() -> None:
    with pytest.raises(
        ConfigError, match=r"Invalid value yes .*: Expected value to be either true or false"
    ):
        parse_text("x", ConfigType.BOOLEAN, "yes")


DOUBLES = [
    (MAX_DOUBLE, "1.7976931348623157E308"),
    (0.5, "0.5"),
    (0.0, "0.0"),
    (0.001, "0.001"),
    (0.0001, "1.0E-4"),
    (9999999.0, "9999999.0"),
    (1e7, "1.0E7"),
    (-12345678.5, "-1.23456785E7"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (math.nan, "NaN"),
]


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_a_double_is_printed_as_java_does(value: float, text: str) -> None:
    assert to_text(value) == text


@given(st.floats())
def test_any_double_survives_printing_and_reading(value: float) -> None:
    assert repr(parse_text("x", ConfigType.DOUBLE, to_text(value) or "")) == repr(value)


@given(st.text(max_size=30), st.sampled_from(list(ConfigType)))
def test_any_text_is_a_value_or_a_config_error(text: str, config_type: ConfigType) -> None:
    with contextlib.suppress(ConfigError):
        parse_text("x", config_type, text)
