"""The features of a cluster: what its brokers support, and the levels it has settled on (KIP-584).

Law: a level counts as supported if every broker that answers supports it; 0 is the state before a
feature and needs no support. A request for another level names the direction, so that a level that
somebody else has just raised is not lowered by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_controller
from kbroker.controller.state_machines.feature_rules import UpgradeType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import SupportedFeature
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kbroker.protocol.request import NO_VERSION, OWN_SOFTWARE

_TIMEOUT_MS = 20_000  # less than the client waits for an answer
_WITH_ONE_CODE = 2  # version of UpdateFeatures


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeatures:
    """The features as reported by the brokers that answer; `epoch` is None if they keep no levels.

    `can_validate`: whether all of them can check an update without making it.
    """

    supported: Mapping[int, Mapping[str, SupportedFeature]]  # by broker
    levels: Mapping[str, int]
    epoch: int | None
    can_validate: bool

    def names(self) -> list[str]:
        """Return the features that some broker supports, or that have a level."""
        found = {name for features in self.supported.values() for name in features}
        return sorted(found | self.levels.keys())

    def range_of(self, name: str) -> SupportedFeature:
        """Return the levels that all brokers support; none above 0 if there are none."""
        ranges = [
            features.get(name, SupportedFeature(name, 0, 0)) for features in self.supported.values()
        ]
        lowest = max((each.lowest for each in ranges), default=0)
        highest = min((each.highest for each in ranges), default=0)
        return SupportedFeature(name, min(lowest, highest), highest)

    def lacking(self, name: str, level: int) -> list[int]:
        """Return the brokers that do not support a level, which is above 0."""
        return sorted(
            broker
            for broker, features in self.supported.items()
            if name not in features or not features[name].lowest <= level <= features[name].highest
        )


def features_of(links: ClusterLinks) -> ClusterFeatures:
    """Ask each broker for its features; the links know which brokers are silent.

    Raises OSError and ClientError if none answers.
    """
    answers: dict[int, ApiVersionsResponse] = {}
    ask = ApiVersionsRequest(client_software_name=OWN_SOFTWARE, client_software_version=NO_VERSION)
    for broker in links.describe([]).brokers:
        with suppress(OSError, ClientError):
            answers[broker.node_id] = links.ask(broker.node_id, ask)
    if not answers:
        raise next(iter(links.silent.values()), OSError(f"{links.bootstrap}: no broker answers"))
    newest = max(answers.values(), key=lambda answer: answer.finalized_features_epoch)
    epoch = newest.finalized_features_epoch
    return ClusterFeatures(
        supported={
            broker: {
                row.name: SupportedFeature(row.name, row.min_version, row.max_version)
                for row in answer.supported_features
            }
            for broker, answer in answers.items()
        },
        levels={row.name: row.max_version_level for row in newest.finalized_features},
        epoch=epoch if epoch >= 0 else None,
        can_validate=all(map(_can_validate, answers.values())),
    )


def _can_validate(answer: ApiVersionsResponse) -> bool:
    """Say whether a broker checks an update without making it. Those of Kafka 3.9 and older make it
    all the same with ZooKeeper; with KRaft they do not, and list DescribeQuorum.
    """
    versions = {row.api_key: row.max_version for row in answer.api_keys}
    version = versions.get(ApiKey.UPDATE_FEATURES, 0)
    is_kraft = ApiKey.DESCRIBE_QUORUM in versions
    return version >= _WITH_ONE_CODE or (is_kraft and version >= 1)


def update_features(
    links: ClusterLinks, changes: Mapping[str, tuple[int, int]], *, only_validates: bool
) -> dict[str, KafkaError | None]:
    """Have the cluster settle on other levels; `changes`: the present and the wanted level of each
    feature.

    Returns, for each, None if it was done, or why not. Raises KafkaError if all of it is
    refused, and what `ask_controller` raises.
    """
    request = UpdateFeaturesRequest(
        timeout_ms=_TIMEOUT_MS,
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(
                feature=name,
                max_version_level=after,
                allow_downgrade=after < before,
                upgrade_type=UpgradeType.SAFE_DOWNGRADE if after < before else UpgradeType.UPGRADE,
            )
            for name, (before, after) in changes.items()
        ],
        validate_only=only_validates,
    )
    answer: UpdateFeaturesResponse = ask_controller(links, request)
    if answer.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
    refused = {
        row.feature: KafkaError(ErrorCode(row.error_code), row.error_message)
        for row in answer.results
        if row.error_code != ErrorCode.NONE
    }
    return {name: refused.get(name) for name in changes}
