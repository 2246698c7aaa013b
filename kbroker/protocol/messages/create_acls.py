"""CreateAcls: add access rules (KIP-140, KIP-290).

v1: request gains resource_pattern_type.
v2: flexible.
v3: Same bytes as v2; the resource type USER (KIP-373).
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsRequest(Message):
    class AclCreation(Struct):
        """A rule: resource, user, host, operation, allowed or denied."""

        resource_type: int = wire("int8", default=0)
        resource_name: str = wire("string", default="")
        resource_pattern_type: int = wire("int8", "1+", default=3)
        principal: str = wire("string", default="")
        host: str = wire("string", default="")
        operation: int = wire("int8", default=0)
        permission_type: int = wire("int8", default=0)

    creations: list[CreateAclsRequest.AclCreation] = wire("[]AclCreation", default=[])


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsResponse(Message):
    """The result for each rule, in the order of the request."""

    class AclCreationResult(Struct):
        error_code: int = wire("int16", default=0)
        error_message: str | None = wire("string", nullable="0+", default="")

    throttle_time_ms: int = wire("int32", default=0)
    results: list[CreateAclsResponse.AclCreationResult] = wire("[]AclCreationResult", default=[])
