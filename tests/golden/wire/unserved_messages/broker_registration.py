"""BrokerRegistration: a broker makes itself known to the metadata quorum (KIP-631, KIP-858,
KIP-866).

v0: flexible.
v1: request gains is_migrating_zk_broker.
v2: request gains log_dirs.
v3: request gains previous_broker_epoch.
v4: Same bytes as v3; features whose lowest level is 0 are named (KIP-1022).
"""

from __future__ import annotations

from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest(Message):
    """The broker, its listeners, features and directories."""

    class Listener(Struct):
        """Where a listener is reached; protocol 0 plain, 1 TLS, 2 SASL, 3 SASL over TLS."""

        name: str = wire("string", default="")
        host: str = wire("string", default="")
        port: int = wire("uint16", default=0)
        security_protocol: int = wire("int16", default=0)

    class Feature(Struct):
        """A feature and the levels that the broker supports."""

        name: str = wire("string", default="")
        min_supported_version: int = wire("int16", default=0)
        max_supported_version: int = wire("int16", default=0)

    broker_id: int = wire("int32", default=0)
    cluster_id: str = wire("string", default="")
    incarnation_id: UUID = wire("uuid", default=ZERO_UUID)
    listeners: list[BrokerRegistrationRequest.Listener] = wire("[]Listener", default=[])
    features: list[BrokerRegistrationRequest.Feature] = wire("[]Feature", default=[])
    rack: str | None = wire("string", nullable="0+", default="")
    is_migrating_zk_broker: bool = wire("bool", "1+", default=False)
    log_dirs: list[UUID] = wire("[]uuid", "2+", default=[])
    previous_broker_epoch: int = wire("int64", "3+", default=-1)


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse(Message):
    """The broker's epoch."""

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    broker_epoch: int = wire("int64", default=-1)
