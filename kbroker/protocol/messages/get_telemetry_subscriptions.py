"""GetTelemetrySubscriptions: which metrics of a client the broker wants (KIP-714).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, message, wire


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Message):
    """The client; the id of zeros asks for one."""

    client_instance_id: UUID = wire("uuid", default=ZERO_UUID)


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    """The metrics wanted, how often and in which form."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    client_instance_id: UUID = wire("uuid", default=ZERO_UUID)
    subscription_id: int = wire("int32", default=0)
    accepted_compression_types: list[int] = wire("[]int8", default=[])
    push_interval_ms: int = wire("int32", default=0)
    telemetry_max_bytes: int = wire("int32", default=0)
    delta_temporality: bool = wire("bool", default=False)
    requested_metrics: list[str] = wire("[]string", default=[])
