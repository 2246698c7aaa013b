"""ApiVersions (18): what this broker serves, computed from the registry.

v3: names the client's software; a name or version that does not fit the pattern gets
INVALID_REQUEST and no keys (KIP-511). v5: names the cluster and node that the client expects here;
read and not used, as in ZooKeeper mode. A version that is not served is answered by KafkaApis with
`unsupported_version_response`. The list holds exactly what works, and what Kafka lists and refuses
when it is switched off, because clients stop at a refusal and not at a missing key. No version is
listed for the sake of old clients (KAFKA-18659), and no feature whose protocol is missing
(KIP-584). Requests between brokers are listed on their listeners only, as by Kafka in KRaft mode.
Below protocol 2.8 topics have no ids, so Produce ends at 12: Java's producer uses ids if 13 is
listed.
"""

from __future__ import annotations

import re
from functools import cache

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import Api, api, registered
from kbroker.config.protocol_version import gives_topic_ids
from kbroker.errors import ErrorCode
from kbroker.events.event import cut
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.schema import Versions

LAST_WITHOUT_LEVEL_0 = 3  # its readers take a lowest level of 0 for an error
_LAST_PRODUCE_BY_NAME = 12
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api(ApiVersionsRequest)
def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the served keys with their versions."""
    ctx.connection.client_id = ctx.client_id and cut(ctx.client_id)
    if ctx.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        ctx.connection.client_software_name = name
        ctx.connection.client_software_version = version
    from_brokers = ctx.services.peers.are_heard_on(ctx.connection.listener_name)
    has_ids = gives_topic_ids(ctx.services.config.server.inter_broker_protocol_version)
    response = ApiVersionsResponse(api_keys=_entries(from_brokers, has_ids))
    _name_features(ctx, response)
    return response


@cache
def _entries(from_brokers: bool, has_ids: bool) -> list[ApiVersionsResponse.ApiVersion]:
    """Return what is listed, made once: it is what each connection begins with."""
    return [
        _entry(key, versions if has_ids else _by_name(key, versions))
        for key, known, for_clients in registered().listed()
        if (versions := known if from_brokers else for_clients)
    ]


def _by_name(key: int, versions: Versions) -> Versions:
    """Return the versions whose requests know topics by their names."""
    return Versions(versions.lowest, _LAST_PRODUCE_BY_NAME) if key == ApiKey.PRODUCE else versions


def unsupported_version_response(own: Api) -> ApiVersionsResponse:
    """The answer to an ApiVersions that is not served: error 35 and the range of this key alone."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_entry(own.key, own.versions)]
    )


def _name_features(ctx: RequestContext, response: ApiVersionsResponse) -> None:
    """Fill in the features that this broker supports, and the levels that the cluster uses."""
    metadata = ctx.services.metadata
    lowest_shown = 1 if ctx.api_version <= LAST_WITHOUT_LEVEL_0 else 0
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, lowest, highest in metadata.supported_features
        if lowest >= lowest_shown
    ]
    finalized = metadata.finalized_features
    response.finalized_features_epoch = finalized.epoch
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(
            name=name, max_version_level=level, min_version_level=level
        )
        for name, level in finalized.levels.items()
    ]


def _entry(key: int, versions: Versions) -> ApiVersionsResponse.ApiVersion:
    return ApiVersionsResponse.ApiVersion(
        api_key=key, min_version=versions.lowest, max_version=versions.highest
    )
