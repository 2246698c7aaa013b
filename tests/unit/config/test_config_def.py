"""Declaring settings and keeping their values."""

from __future__ import annotations

import pytest

from kbroker.config.config_def import ConfigGroup, Long, Password, config_group, define, replace
from kbroker.config.config_values import ConfigType
from kbroker.errors import ConfigError


@config_group
class PondConfig(ConfigGroup):
    """Settings of a pond."""

    pond_depth_ms: Long = define(5, "How deep.", at_least=1, at_most=9)
    pond_fish: tuple[str, ...] = define(("carp",), "Who lives there.", list_of=("carp", "eel"))
    pond_colour: str | None = define(None, "Its colour.", one_of=("blue", "green"))
    pond_key: Password | None = define(None, "Its key.")

    def depth_doubled(self) -> int:
        return self.pond_depth_ms * 2


def test_values_left_out_are_the_defaults() -> None:
    pond = PondConfig(pond_colour="blue")
    assert (pond.pond_depth_ms, pond.pond_fish, pond.pond_colour) == (5, ("carp",), "blue")
    assert pond.depth_doubled() == 10


def test_keys_know_name_and_type() -> None:
    assert [(key.name, key.type) for key in PondConfig.keys] == [
        ("pond.depth.ms", ConfigType.LONG),
        ("pond.fish", ConfigType.LIST),
        ("pond.colour", ConfigType.STRING),
        ("pond.key", ConfigType.PASSWORD),
    ]


def test_a_group_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        PondConfig().pond_depth_ms = 7  # type: ignore[misc]


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="pond_depth"):
        PondConfig(pond_depth=1)  # type: ignore[call-arg]


def test_replace_makes_another_group_and_leaves_the_first() -> None:
    pond = PondConfig()
    assert replace(pond, pond_depth_ms=6) == PondConfig(pond_depth_ms=6)
    assert pond == PondConfig()
    assert hash(pond) == hash(PondConfig())


def test_secrets_are_not_printed() -> None:
    assert "hush" not in repr(PondConfig(pond_key="hush"))
    assert "pond.depth.ms=5" in repr(PondConfig())


REFUSED = [
    (0, "10", "Invalid value 10 for configuration pond.depth.ms: Value must be no more than 9"),
    (0, "0", "Invalid value 0 for configuration pond.depth.ms: Value must be at least 1"),
    (
        1,
        "carp,newt",
        "Invalid value newt for configuration pond.fish: String must be one of: carp, eel",
    ),
    (
        2,
        "red",
        "Invalid value red for configuration pond.colour: String must be one of: blue, green",
    ),
]


@pytest.mark.parametrize(("index", "text", "sentence"), REFUSED)
def test_values_out_of_bounds_are_refused_in_one_sentence(
    index: int, text: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        PondConfig.keys[index].parse(text)
    assert str(refusal.value) == sentence
