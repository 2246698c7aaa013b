"""Features of the cluster, and the levels of them that this broker supports (KIP-584, KIP-1022).

Pure. Law: a level is listed once all that it promises is served, never before, because others rely
on it: a change that adds a protocol raises its feature here. 0 is the state before the feature and
needs no support; a feature at 0 is not supported at all. `metadata.version`, `kraft.version` and
`eligible.leader.replicas.version` are levels of the metadata log and mean nothing if ZooKeeper
keeps the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.model import SupportedFeature

GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"

HIGHEST_LEVELS: Mapping[str, int] = {
    GROUP_VERSION: 1,  # 1: consumer groups of KIP-848
    TRANSACTION_VERSION: 2,  # 1: flexible records of the log, 2: transactions of KIP-890
    "share.version": 0,  # 1: share groups (KIP-932)
    "streams.version": 0,  # 1: streams groups (KIP-1071)
}


def supported_features(highest_levels: Mapping[str, int]) -> tuple[SupportedFeature, ...]:
    """The features that have a level above 0, by name."""
    return tuple(
        SupportedFeature(name=name, lowest=0, highest=highest)
        for name, highest in sorted(highest_levels.items())
        if highest > 0
    )


SUPPORTED_FEATURES = supported_features(HIGHEST_LEVELS)


def unsupported_levels(
    levels: Mapping[str, int], supported: tuple[SupportedFeature, ...]
) -> list[str]:
    """The cluster's features whose level is outside the supported range, by name."""
    ranges = {feature.name: feature for feature in supported}
    return sorted(
        name
        for name, level in levels.items()
        if name not in ranges or not ranges[name].lowest <= level <= ranges[name].highest
    )
