"""DescribeConfigs: configurations of topics, brokers and other resources (KIP-133, KIP-226,
KIP-569).

v1: request gains include_synonyms; response gains config_source, synonyms; response drops
    is_default. config_source in place of is_default.
v2: Same bytes as v1.
v3: request gains include_documentation; response gains config_type, documentation.
v4: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest(Message):
    """The resources, and which of their configurations; null keys mean all."""

    class DescribeConfigsResource(Struct):
        """A resource: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""

        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")
        configuration_keys: list[str] | None = wire("[]string", nullable="0+", default=[])

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = wire(
        "[]DescribeConfigsResource", default=[]
    )
    include_synonyms: bool = wire("bool", "1+", default=False)
    include_documentation: bool = wire("bool", "3+", default=False)


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse(Message):
    class DescribeConfigsSynonym(Struct):
        """Where a configuration could come from, the strongest first."""

        name: str = wire("string", "1+", default="")
        value: str | None = wire("string", "1+", nullable="0+", default="")
        source: int = wire("int8", "1+", default=0)

    class DescribeConfigsResourceResult(Struct):
        name: str = wire("string", default="")
        value: str | None = wire("string", nullable="0+", default="")
        read_only: bool = wire("bool", default=False)
        is_default: bool = wire("bool", "0", default=False)
        config_source: int = wire("int8", "1+", default=-1)
        is_sensitive: bool = wire("bool", default=False)
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = wire(
            "[]DescribeConfigsSynonym", "1+", default=[]
        )
        config_type: int = wire("int8", "3+", default=0)
        documentation: str | None = wire("string", "3+", nullable="0+", default="")

    class DescribeConfigsResult(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")
        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = wire(
            "[]DescribeConfigsResourceResult", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = wire(
        "[]DescribeConfigsResult", default=[]
    )
