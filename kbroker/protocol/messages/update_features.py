"""UpdateFeatures: settle the cluster on levels of its features (KIP-584, KIP-778, KIP-1022).

v0: flexible.
v1: request gains upgrade_type, validate_only; request drops allow_downgrade.
v2: response drops results. One code for all features.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Message):
    """The levels wanted; with validate_only nothing is changed."""

    class FeatureUpdateKey(Struct):
        """One feature; a level below 1 removes it. Upgrade type 1 only raises, 2 lowers where that
        is safe, 3 lowers always.
        """

        feature: str = wire("string", default="")
        max_version_level: int = wire("int16", default=0)
        allow_downgrade: bool = wire("bool", "0", default=False)
        upgrade_type: int = wire("int8", "1+", default=1)

    timeout_ms: int = wire("int32", default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = wire(
        "[]FeatureUpdateKey", default=[]
    )
    validate_only: bool = wire("bool", "1+", default=False)


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    """The result of the request, and up to v1 of each feature."""

    class UpdatableFeatureResult(Struct):
        feature: str = wire("string", default="")
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = wire(
        "[]UpdatableFeatureResult", "0-1", default=[]
    )
