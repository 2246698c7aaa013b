"""DescribeAcls (key 29), versions 0 to 3: the authorizer's rules that a filter means (KIP-140).

v1: the type of pattern (KIP-290). v2: flexible. v3: same bytes, with users as resources. Without
`authorizer.class.name` it is refused, as by Kafka. Kafka closes the connection if a filter has the
number 0 as type, operation or permission; here it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kbroker.acl.acl import AclOperation, AclPattern
from kbroker.acl.acl_filter import AclFilter
from kbroker.admin.acl_admin import AclAdmin
from kbroker.apis.acl_words import filter_of, without_rules
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kbroker.slices import slices

Resource = DescribeAclsResponse.DescribeAclsResource
Description = DescribeAclsResponse.AclDescription

_BYTES_OF_RULE = 64
_PATTERNS_AT_ONCE = 32  # ten milliseconds, of a hundred rules each


@api(DescribeAclsRequest, ForRequest(AclOperation.DESCRIBE, the_cluster))
def handle(ctx: RequestContext, request: DescribeAclsRequest) -> NowOrLater[DescribeAclsResponse]:
    """List the rules that the filter means."""
    acls = ctx.services.acls
    if acls is None:
        text = "No Authorizer is configured on the broker"
        raise without_rules(ctx.services.authorizer, text)
    asked, response = filter_of(request), DescribeAclsResponse()
    if asked is None:
        return response
    parts = (
        _resources(acls, asked, some) for some in slices(acls.patterns(asked), _PATTERNS_AT_ONCE)
    )
    if asked.named_patterns() is None and is_large(size_bytes := _BYTES_OF_RULE * acls.rule_count):
        return written(ctx, response, "resources", parts, size_bytes)
    response.resources = list(chain.from_iterable(parts))
    return response


def _resources(
    acls: AclAdmin, asked: AclFilter, patterns: Iterable[AclPattern | None]
) -> list[Resource]:
    return list(_with_rules(acls, asked, patterns))


def _with_rules(
    acls: AclAdmin, asked: AclFilter, patterns: Iterable[AclPattern | None]
) -> Iterator[Resource]:
    for pattern in patterns:
        found = acls.acls(pattern, asked) if pattern is not None else []
        if found and pattern is not None:
            yield Resource(
                resource_type=pattern.type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[
                    Description(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in found
                ],
            )
