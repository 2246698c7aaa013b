"""DeleteAcls (key 31), versions 0 to 3: refused, as by Kafka without `authorizer.class.name`.

v1: the type of pattern. v2: flexible. v3: same bytes. Every filter has the same refusal.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse


@api(
    DeleteAclsRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    parts=Parts("filters", "filter_results"),
)
def handle(_ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Say for every filter that nobody keeps rules."""
    refusal = DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
