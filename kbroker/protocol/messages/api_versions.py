"""ApiVersions: which APIs are served in which versions, and the cluster's features (KIP-511,
KIP-584, KIP-1242).

v1: response gains throttle_time_ms.
v2: Same bytes as v1.
v3: request gains client_software_name, client_software_version; response gains supported_features,
    finalized_features_epoch, finalized_features, zk_migration_ready; flexible.
v4: Same bytes as v3; features whose lowest level is 0 are shown.
v5: request gains cluster_id, node_id.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Message):
    client_software_name: str = wire("string", "3+", default="")
    client_software_version: str = wire("string", "3+", default="")
    cluster_id: str | None = wire("string", "5+", nullable="5+", default=None)
    node_id: int = wire("int32", "5+", default=-1)


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Message):
    """The served APIs. Response header 0 always; in v0 form when the version is unknown."""

    class ApiVersion(Struct):
        """Lowest and highest version of an API."""

        api_key: int = wire("int16", default=0)
        min_version: int = wire("int16", default=0)
        max_version: int = wire("int16", default=0)

    class SupportedFeatureKey(Struct):
        name: str = wire("string", "3+", default="")
        min_version: int = wire("int16", "3+", default=0)
        max_version: int = wire("int16", "3+", default=0)

    class FinalizedFeatureKey(Struct):
        """A feature and the level that the cluster has settled on."""

        name: str = wire("string", "3+", default="")
        max_version_level: int = wire("int16", "3+", default=0)
        min_version_level: int = wire("int16", "3+", default=0)

    error_code: int = wire("int16", default=0)
    api_keys: list[ApiVersionsResponse.ApiVersion] = wire("[]ApiVersion", default=[])
    throttle_time_ms: int = wire("int32", "1+", default=0)
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = wire(
        "[]SupportedFeatureKey", "3+", tag=0, default=[]
    )
    finalized_features_epoch: int = wire("int64", "3+", tag=1, default=-1)
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = wire(
        "[]FinalizedFeatureKey", "3+", tag=2, default=[]
    )
    zk_migration_ready: bool = wire("bool", "3+", tag=3, default=False)
