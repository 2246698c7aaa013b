"""PushTelemetry: a client sends its metrics (KIP-714).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, message, wire


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest(Message):
    """The metrics, in the format of OpenTelemetry."""

    client_instance_id: UUID = wire("uuid", default=ZERO_UUID)
    subscription_id: int = wire("int32", default=0)
    terminating: bool = wire("bool", default=False)
    compression_type: int = wire("int8", default=0)
    metrics: bytes = wire("bytes", default=b"")


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse(Message):
    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
