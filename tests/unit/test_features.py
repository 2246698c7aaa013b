from __future__ import annotations

from kbroker.features import (
    HIGHEST_LEVELS,
    SUPPORTED_FEATURES,
    supported_features,
    unsupported_levels,
)
from kbroker.model import SupportedFeature


def test_a_feature_whose_protocol_is_missing_is_not_supported() -> None:
    assert {name: level for name, level in HIGHEST_LEVELS.items() if level} == {
        "group.version": 1, "transaction.version": 2,
    }  # fmt: skip
    assert (
        SupportedFeature("group.version", 0, 1),
        SupportedFeature("transaction.version", 0, 2),
    ) == SUPPORTED_FEATURES


def test_features_are_supported_from_0_up_to_their_highest_level() -> None:
    levels = {"transaction.version": 2, "group.version": 1, "share.version": 0}

    assert supported_features(levels) == (
        SupportedFeature("group.version", 0, 1),
        SupportedFeature("transaction.version", 0, 2),
    )


def test_levels_outside_of_what_is_supported_are_named() -> None:
    supported = (SupportedFeature("a", 0, 2), SupportedFeature("b", 1, 1))

    assert unsupported_levels({"a": 2, "b": 1}, supported) == []
    assert unsupported_levels({"c": 1, "a": 3, "b": 0}, supported) == ["a", "b", "c"]
