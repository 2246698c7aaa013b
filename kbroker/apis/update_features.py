"""UpdateFeatures (key 57), versions 0 to 2: settles the cluster on levels of features (KIP-584).

v0: `allow_downgrade` in place of the upgrade type. v1: `validate_only`, which kbroker heeds, and
Kafka 3.9 does not if ZooKeeper keeps the metadata. v2: all updates or none, and one code for them.
Brokers that are not controller answer NOT_CONTROLLER, as in Kafka: clients ask the controller.
The answer leaves once this broker shows the levels.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, in_words, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.controller.event_handlers.feature_updates import update_failed
from kbroker.controller.state_machines.feature_rules import (
    FeatureUpdate,
    FeatureUpdateResult,
    UpdateFeatures,
    UpgradeType,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_MOST_FEATURES = 1_000  # there are about ten

Refusals = Mapping[str, KafkaError | None]


@api(UpdateFeaturesRequest, ForRequest(AclOperation.ALTER, the_cluster, text=in_words))
async def handle(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Have the controller write the levels, and wait until they are seen."""
    if len(request.feature_updates) > _MOST_FEATURES:
        message = f"{len(request.feature_updates)} features, {_MOST_FEATURES} are the most."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    updates = tuple(_update(ctx.api_version, update) for update in request.feature_updates)
    one_code = ctx.api_version >= 2
    result: FeatureUpdateResult = await ctx.services.controller.ask(
        UpdateFeatures(updates, one_code, request.validate_only)
    )
    refusals, epoch = result
    if epoch is not None and not await ctx.services.forwarding.wait_until_shown(
        lambda: ctx.services.metadata.finalized_features.epoch >= epoch, request.timeout_ms
    ):
        refusals = {feature: refusal or update_failed() for feature, refusal in refusals.items()}
    return _with_one_code(refusals) if one_code else _with_codes(refusals)


def _update(version: int, update: UpdateFeaturesRequest.FeatureUpdateKey) -> FeatureUpdate:
    kind = UpgradeType.UNKNOWN
    if version == 0:
        kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    elif update.upgrade_type in tuple(UpgradeType):
        kind = UpgradeType(update.upgrade_type)
    return FeatureUpdate(update.feature, update.max_version_level, kind)


def _with_codes(refusals: Refusals) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=feature,
                error_code=refusal.code if refusal is not None else ErrorCode.NONE,
                error_message=refusal.message if refusal is not None else None,
            )
            for feature, refusal in refusals.items()
        ],
    )


def _with_one_code(refusals: Refusals) -> UpdateFeaturesResponse:
    first = next((refusal for refusal in refusals.values() if refusal is not None), None)
    if first is None:
        return UpdateFeaturesResponse(error_message=None)
    text = "The update failed for all features since the following feature had an error: "
    return UpdateFeaturesResponse(error_code=first.code, error_message=f"{text}{first.message}")
