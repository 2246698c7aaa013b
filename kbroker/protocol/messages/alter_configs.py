"""AlterConfigs: give resources a whole new set of configurations (KIP-133).

v1: Same bytes as v0.
v2: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    """The configurations, resource by resource; those that are not named go back to the default."""

    class AlterableConfig(Struct):
        name: str = wire("string", default="")
        value: str | None = wire("string", nullable="0+", default="")

    class AlterConfigsResource(Struct):
        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")
        configs: list[AlterConfigsRequest.AlterableConfig] = wire("[]AlterableConfig", default=[])

    resources: list[AlterConfigsRequest.AlterConfigsResource] = wire(
        "[]AlterConfigsResource", default=[]
    )
    validate_only: bool = wire("bool", default=False)


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")
        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")

    throttle_time_ms: int = wire("int32", default=0)
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = wire(
        "[]AlterConfigsResourceResponse", default=[]
    )
