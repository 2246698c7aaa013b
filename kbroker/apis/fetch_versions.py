"""The limits of a Fetch request, as its version has them and its fetcher can read them."""

from __future__ import annotations

from kbroker.apis.context import Services
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.replication.reads.fetch_params import FetchParams

FIRST_VERSION_WITH_FORMAT_1 = 2
FIRST_VERSION_WITH_MAX_BYTES = 3
FIRST_VERSION_WITH_FORMAT_2 = 4
FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_FROM_FOLLOWERS = 11
FIRST_VERSION_WITH_REPLICA_STATE = 15
ISOLATION = {0: FetchIsolation.HIGH_WATERMARK, 1: FetchIsolation.TXN_COMMITTED}


def params_of(
    services: Services, version: int, request: FetchRequest, replica_id: int
) -> FetchParams:
    """Return the limits of all partitions together. KafkaError: INVALID_REQUEST."""
    max_bytes = request.max_bytes
    isolation = ISOLATION.get(request.isolation_level)
    if isolation is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"No isolation level {request.isolation_level}")
    is_follower = replica_id >= 0
    if is_follower:
        isolation = FetchIsolation.LOG_END
    else:
        max_bytes = min(max_bytes, services.replicas.config.fetch_max_bytes)
    params = FetchParams(
        isolation=isolation,
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        max_wait_ms=request.max_wait_ms,
        replica_id=replica_id,
        leader_only=is_follower or version < FIRST_VERSION_FROM_FOLLOWERS,
    )
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        params.replica_epoch = request.replica_state.replica_epoch
    if version < FIRST_VERSION_WITH_ZSTD:
        _restrict(params, version)
    return params


def chooses_replica(services: Services, request: FetchRequest) -> bool:
    """Whether a consumer names its rack, and this broker may send it to a replica there."""
    return bool(request.rack_id and services.replicas.config.replica_selector_class)


def _restrict(params: FetchParams, version: int) -> None:
    """Exclude what fetchers of an old version cannot read."""
    params.knows_zstd = False
    params.is_hard_limit = version < FIRST_VERSION_WITH_MAX_BYTES
    if version < FIRST_VERSION_WITH_FORMAT_2:
        params.max_magic = 0 if version < FIRST_VERSION_WITH_FORMAT_1 else 1
