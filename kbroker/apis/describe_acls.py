"""DescribeAcls (key 29), versions 0 to 3: refused, as by Kafka without `authorizer.class.name`.

v1: the type of pattern. v2: flexible. v3: same bytes. Kafka closes the connection if a filter has a
type, an operation or a permission it does not know; here the refusal is the same for all.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


@api(DescribeAclsRequest, ForRequest(AclOperation.DESCRIBE, the_cluster))
def handle(_ctx: RequestContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
