"""Which changes of features are allowed, in the words of Kafka 3.9."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.controller.state_machines.feature_rules import (
    FeatureUpdate,
    UpgradeType,
    updated_levels,
)
from kbroker.errors import ErrorCode
from kbroker.features import unsupported_levels
from kbroker.model import SupportedFeature

UNKNOWN, UPGRADE, SAFE, UNSAFE = UpgradeType
SUPPORTED = (SupportedFeature("a", 0, 3), SupportedFeature("b", 2, 5))
SETTLED = {"a": 2}
COULD_NOT = "Could not apply finalized feature update because "


def refusal(feature: str, level: int, kind: UpgradeType) -> str | None:
    update = FeatureUpdate(feature, level, kind)
    after, refusals = updated_levels([update], SETTLED, SUPPORTED, [SUPPORTED])
    error = refusals[feature]
    if error is None:
        return None
    assert (after, error.code) == (SETTLED, ErrorCode.INVALID_REQUEST)
    return error.message


@pytest.mark.parametrize(
    ("feature", "level", "kind", "words"),
    [
        ("", 1, UPGRADE, "Feature name can not be empty."),
        ("a", 3, UNKNOWN, "Received unknown upgrade type."),
        ("b", 0, SAFE, "Can not delete non-existing finalized feature."),
        (
            "a",
            -1,
            UPGRADE,
            "Can not provide versionLevel: -1 less than 1 without setting the SAFE downgradeType in "
            "the request.",
        ),
        (
            "a",
            2,
            UPGRADE,
            "Can not upgrade a finalized feature from existing versionLevel:2 to the same value.",
        ),
        (
            "a",
            2,
            SAFE,
            "Can not downgrade a finalized feature from existing versionLevel:2 to the same value.",
        ),
        (
            "a",
            1,
            UNSAFE,
            "Can not downgrade finalized feature from existing versionLevel:2 to provided "
            "versionLevel:1 without setting the downgradeType to SAFE in the request.",
        ),
        (
            "a",
            3,
            SAFE,
            "When the downgradeType is set to SAFE in the request, the provided versionLevel:3 can "
            "not be greater than existing versionLevel:2.",
        ),
        ("c", 1, UPGRADE, COULD_NOT + "the provided feature is not supported."),
        (
            "b",
            1,
            UPGRADE,
            COULD_NOT + "the provided versionLevel:1 is lower than the supported minVersion:2.",
        ),
    ],
)
def test_what_is_refused_and_why(feature: str, level: int, kind: UpgradeType, words: str) -> None:
    assert refusal(feature, level, kind) == words


@pytest.mark.parametrize(
    ("update", "levels"),
    [
        (FeatureUpdate("a", 3, UPGRADE), {"a": 3}),
        (FeatureUpdate("a", 1, SAFE), {"a": 1}),
        (FeatureUpdate("a", 0, SAFE), {}),
        (FeatureUpdate("a", -1, UNSAFE), {}),
        (FeatureUpdate("b", 4, UPGRADE), {"a": 2, "b": 4}),
    ],
)
def test_what_is_allowed(update: FeatureUpdate, levels: dict[str, int]) -> None:
    assert updated_levels([update], SETTLED, SUPPORTED, [SUPPORTED]) == (
        levels,
        {update.feature: None},
    )


def test_a_living_broker_that_does_not_support_a_level_holds_it_up() -> None:
    older = (SupportedFeature("a", 0, 2),)

    after, refusals = updated_levels(
        [FeatureUpdate("a", 3, UPGRADE)], SETTLED, SUPPORTED, [SUPPORTED, older]
    )

    error = refusals["a"]
    assert after == SETTLED
    assert error is not None
    assert error.message == COULD_NOT + (
        "brokers were found to have incompatible versions for the feature."
    )


updates = st.lists(
    st.builds(
        FeatureUpdate,
        st.sampled_from(["a", "b", "c", ""]),
        st.integers(-2, 7),
        st.sampled_from(UpgradeType),
    )
)


@given(updates, st.dictionaries(st.sampled_from(["a", "b"]), st.integers(2, 3)))
def test_no_level_is_settled_on_that_a_broker_does_not_support(
    asked: list[FeatureUpdate], levels: dict[str, int]
) -> None:
    after, refusals = updated_levels(asked, levels, SUPPORTED, [SUPPORTED])

    assert unsupported_levels(after, SUPPORTED) == []
    assert set(refusals) == {update.feature for update in asked}
    if all(refusals.values()):
        assert after == levels or len(refusals) < len(asked)
