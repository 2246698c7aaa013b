"""ListConfigResources: the resources that have configurations (KIP-714, KIP-1142).

v0: flexible. Named ListClientMetricsResources up to Kafka 4.0, and lists those alone.
v1: request gains resource_types; response gains resource_type.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    """The types of resources; none means all."""

    resource_types: list[int] = wire("[]int8", "1+", default=[])


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    class ConfigResource(Struct):
        """A resource: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""

        resource_name: str = wire("string", default="")
        resource_type: int = wire("int8", "1+", default=16)

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = wire(
        "[]ConfigResource", default=[]
    )
