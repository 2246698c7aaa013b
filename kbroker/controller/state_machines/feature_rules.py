"""The rules by which clients may change the cluster's features (KIP-584).

Pure. A feature is raised, lowered if the client says that it means to, and removed by a level below
1. A level that a living broker does not support is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kbroker.controller.state_machines.events import Event
from kbroker.controller.state_machines.feature_needs import ALL_HAVE_IDS, TopicIds, unmet_need
from kbroker.errors import ErrorCode, KafkaError
from kbroker.features import unsupported_levels
from kbroker.model import SupportedFeature


class UpgradeType(IntEnum):
    """The kind of update that a client asks for; numbers as in UpdateFeatures."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FeatureUpdate:
    """A feature and its requested level."""

    feature: str
    level: int
    upgrade_type: UpgradeType


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Event):
    """Somebody wants other levels; its answer is a FeatureUpdateResult.

    With `all_or_nothing` one refusal stops all of it; with `validate_only` nothing is written.
    """

    updates: tuple[FeatureUpdate, ...]
    all_or_nothing: bool = False
    validate_only: bool = False


class FeatureUpdateResult(NamedTuple):
    """For each feature None or why not, and the epoch of the levels if they were written."""

    refusals: Mapping[str, KafkaError | None]
    epoch: int | None = None


def updated_levels(
    updates: Iterable[FeatureUpdate],
    levels: Mapping[str, int],
    supported: tuple[SupportedFeature, ...],
    live_brokers: Iterable[tuple[SupportedFeature, ...]],
    topic_ids: TopicIds = ALL_HAVE_IDS,
) -> tuple[dict[str, int], dict[str, KafkaError | None]]:
    """The levels after all updates that are allowed, and for each feature None or why not."""
    after, refusals, brokers = dict(levels), {}, list(live_brokers)
    for update in updates:
        reason = _refusal(update, levels.get(update.feature))
        if reason is None and update.level >= 1:
            reason = _incompatibility(update, supported, brokers)
        if reason is None:
            reason = unmet_need(update.feature, update.level, topic_ids)
        refusals[update.feature] = (
            None if reason is None else KafkaError(ErrorCode.INVALID_REQUEST, reason)
        )
        if reason is None and update.level >= 1:
            after[update.feature] = update.level
        elif reason is None:
            after.pop(update.feature, None)
    return after, refusals


def _refusal(update: FeatureUpdate, existing: int | None) -> str | None:
    """Why an update does not fit the feature as it is, in Kafka's words."""
    level, kind = update.level, update.upgrade_type
    if not update.feature:
        return "Feature name can not be empty."
    if kind is UpgradeType.UNKNOWN:
        return "Received unknown upgrade type."
    if level < 1 and kind is UpgradeType.UPGRADE:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE "
            "downgradeType in the request."
        )
    if existing is None:
        return "Can not delete non-existing finalized feature." if level < 1 else None
    return None if level < 1 else _wrong_direction(level, existing, kind)


def _wrong_direction(level: int, existing: int, kind: UpgradeType) -> str | None:
    if level == existing:
        verb = "downgrade" if kind is UpgradeType.SAFE_DOWNGRADE else "upgrade"
        return (
            f"Can not {verb} a finalized feature from existing versionLevel:{existing} to the "
            "same value."
        )
    if level < existing and kind is not UpgradeType.SAFE_DOWNGRADE:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{existing} to "
            f"provided versionLevel:{level} without setting the downgradeType to SAFE in the "
            "request."
        )
    if level > existing and kind is not UpgradeType.UPGRADE:
        return (
            "When the downgradeType is set to SAFE in the request, the provided versionLevel:"
            f"{level} can not be greater than existing versionLevel:{existing}."
        )
    return None


def _incompatibility(
    update: FeatureUpdate,
    supported: tuple[SupportedFeature, ...],
    live_brokers: list[tuple[SupportedFeature, ...]],
) -> str | None:
    own = next((feature for feature in supported if feature.name == update.feature), None)
    wanted = {update.feature: update.level}
    if own is None:
        return (
            "Could not apply finalized feature update because the provided feature is not "
            "supported."
        )
    if unsupported_levels(wanted, supported):
        return (
            f"Could not apply finalized feature update because the provided versionLevel:"
            f"{update.level} is lower than the supported minVersion:{own.lowest}."
        )
    if any(unsupported_levels(wanted, features) for features in live_brokers):
        return (
            "Could not apply finalized feature update because brokers were found to have "
            "incompatible versions for the feature."
        )
    return None
