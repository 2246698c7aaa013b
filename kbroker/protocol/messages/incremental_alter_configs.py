"""IncrementalAlterConfigs: change single configurations of resources (KIP-339).

v1: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Message):
    class AlterableConfig(Struct):
        """A change: 0 set, 1 delete, 2 append, 3 subtract."""

        name: str = wire("string", default="")
        config_operation: int = wire("int8", default=0)
        value: str | None = wire("string", nullable="0+", default="")

    class AlterConfigsResource(Struct):
        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = wire(
            "[]AlterableConfig", default=[]
        )

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = wire(
        "[]AlterConfigsResource", default=[]
    )
    validate_only: bool = wire("bool", default=False)


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")
        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")

    throttle_time_ms: int = wire("int32", default=0)
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = wire(
        "[]AlterConfigsResourceResponse", default=[]
    )
