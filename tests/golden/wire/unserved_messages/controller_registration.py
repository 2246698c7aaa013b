"""ControllerRegistration: a controller makes itself known to the metadata quorum (KIP-919).

v0: flexible.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest(Message):
    """The controller, its listeners and features."""

    class Listener(Struct):
        """Where a listener is reached; protocol 0 plain, 1 TLS, 2 SASL, 3 SASL over TLS."""

        name: str = wire("string", default="")
        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)
        security_protocol: int = wire("int16", default=0)

    class Feature(Struct):
        """A feature and the levels that the controller supports."""

        name: str = wire("string", default="")
        min_supported_version: int = wire("int16", default=0)
        max_supported_version: int = wire("int16", default=0)

    controller_id: int = wire("int32", default=0)
    incarnation_id: UUID = wire("uuid", default=ZERO_UUID)
    zk_migration_ready: bool = wire("bool", default=False)
    listeners: list[ControllerRegistrationRequest.Listener] = wire("[]Listener", default=[])
    features: list[ControllerRegistrationRequest.Feature] = wire("[]Feature", default=[])


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse(Message):
    """Whether it is registered."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
