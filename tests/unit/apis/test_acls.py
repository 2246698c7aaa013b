"""DescribeAcls, CreateAcls and DeleteAcls where nobody keeps access rules."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_acls import CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.schema import Message
from tests.fakes.requests.denying_authorizer import ask, services_without

ANY = 1
DESCRIBE = DescribeAclsRequest(
    resource_type_filter=ANY, resource_name_filter=None, operation=ANY, permission_type=ANY
)
RULE = CreateAclsRequest.AclCreation(
    resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
)
FILTER = DeleteAclsRequest.DeleteAclsFilter(
    resource_type_filter=ANY, resource_name_filter=None, operation=ANY, permission_type=ANY
)
CREATE, DELETE = CreateAclsRequest(creations=[RULE] * 2), DeleteAclsRequest(filters=[FILTER] * 2)
VERSIONS = pytest.mark.parametrize("version", range(4))


def answer(cluster: Any, services: Any, request: Message, version: int) -> Any:
    return cluster.loop.run_until_complete(ask(services, request, version))


@VERSIONS
def test_no_rules_are_described(cluster: Any, call: Any, version: int) -> None:
    response = answer(cluster, call.services, DESCRIBE, version)

    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"
    assert response.resources == []


@VERSIONS
@pytest.mark.parametrize(("request_", "rows"), [(CREATE, "results"), (DELETE, "filter_results")])
def test_every_rule_and_every_filter_is_refused(
    cluster: Any, call: Any, request_: Message, rows: str, version: int
) -> None:
    response = answer(cluster, call.services, request_, version)

    found = [(row.error_code, row.error_message) for row in getattr(response, rows)]
    assert found == [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")] * 2


@pytest.mark.parametrize(("request_", "operation"), [
    (DESCRIBE, AclOperation.DESCRIBE), (CREATE, AclOperation.ALTER), (DELETE, AclOperation.ALTER),
])  # fmt: skip
def test_who_has_no_right_to_the_cluster_is_told_so_first(
    cluster: Any, call: Any, request_: Message, operation: AclOperation
) -> None:
    response = answer(cluster, services_without(call.services, (operation, CLUSTER)), request_, 3)

    rows = (
        getattr(response, "results", None)
        or getattr(response, "filter_results", None)
        or [response]
    )
    assert {row.error_code for row in rows} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
