"""DescribeAcls: which access rules match a filter (KIP-140, KIP-290).

v1: request gains pattern_type_filter; response gains pattern_type.
v2: flexible.
v3: Same bytes as v2; the resource type USER (KIP-373).
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest(Message):
    """The filter; null stands for anything."""

    resource_type_filter: int = wire("int8", default=0)
    resource_name_filter: str | None = wire("string", nullable="0+", default="")
    pattern_type_filter: int = wire("int8", "1+", default=3)
    principal_filter: str | None = wire("string", nullable="0+", default="")
    host_filter: str | None = wire("string", nullable="0+", default="")
    operation: int = wire("int8", default=0)
    permission_type: int = wire("int8", default=0)


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse(Message):
    """The rules that match, by resource."""

    class AclDescription(Struct):
        """A rule: the user, the host, the operation, allowed or denied."""

        principal: str = wire("string", default="")
        host: str = wire("string", default="")
        operation: int = wire("int8", default=0)
        permission_type: int = wire("int8", default=0)

    class DescribeAclsResource(Struct):
        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")
        pattern_type: int = wire("int8", "1+", default=3)
        acls: list[DescribeAclsResponse.AclDescription] = wire("[]AclDescription", default=[])

    throttle_time_ms: int = wire("int32", default=0)
    error_code: int = wire("int16", default=0)
    error_message: str | None = wire("string", nullable="0+", default="")
    resources: list[DescribeAclsResponse.DescribeAclsResource] = wire(
        "[]DescribeAclsResource", default=[]
    )
