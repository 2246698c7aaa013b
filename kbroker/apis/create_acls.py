"""CreateAcls (key 30), versions 0 to 3: refused, as by Kafka without `authorizer.class.name`.

v1: the type of pattern. v2: flexible. v3: same bytes. Every rule has the same refusal.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse


@api(
    CreateAclsRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    parts=Parts("creations", "results"),
)
def handle(_ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Say for every rule that nobody keeps it."""
    refusal = CreateAclsResponse.AclCreationResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    return CreateAclsResponse(results=[refusal] * len(request.creations))
