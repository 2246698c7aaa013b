"""DeleteAcls: remove the access rules that match filters (KIP-140, KIP-290).

v1: request gains pattern_type_filter; response gains pattern_type.
v2: flexible.
v3: Same bytes as v2; the resource type USER (KIP-373).
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest(Message):
    """The filters; a rule goes when one of them matches."""

    class DeleteAclsFilter(Struct):
        """A filter; null stands for anything."""

        resource_type_filter: int = wire("int8", default=0)
        resource_name_filter: str | None = wire("string", nullable="0+", default="")
        pattern_type_filter: int = wire("int8", "1+", default=3)
        principal_filter: str | None = wire("string", nullable="0+", default="")
        host_filter: str | None = wire("string", nullable="0+", default="")
        operation: int = wire("int8", default=0)
        permission_type: int = wire("int8", default=0)

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = wire("[]DeleteAclsFilter", default=[])


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse(Message):
    """The rules that each filter removed, in the order of the request."""

    class DeleteAclsMatchingAcl(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")
        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")
        pattern_type: int = wire("int8", "1+", default=3)
        principal: str = wire("string", default="")
        host: str = wire("string", default="")
        operation: int = wire("int8", default=0)
        permission_type: int = wire("int8", default=0)

    class DeleteAclsFilterResult(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = wire(
            "[]DeleteAclsMatchingAcl", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = wire(
        "[]DeleteAclsFilterResult", default=[]
    )
