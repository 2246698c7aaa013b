"""Access rules and filters as they stand in requests: in numbers, some of which mean nothing."""

from __future__ import annotations

from typing import Any

from kbroker.acl.acl import Acl, AclOperation, AclPattern, AclResourceType, PatternType, Permission
from kbroker.acl.acl_filter import AclFilter
from kbroker.apis.authorizer import ALLOW_ALL, Authorizer
from kbroker.errors import ErrorCode, KafkaError

_UNKNOWN = 0
_OF_FILTERS = (
    AclResourceType.ANY,
    PatternType.ANY,
    PatternType.MATCH,
    AclOperation.ANY,
    Permission.ANY,
)


def without_rules(authorizer: Authorizer, text: str = "No Authorizer is configured.") -> KafkaError:
    """The refusal of whatever is about rules, for a broker that has none; `text` is for one without
    an authorizer.
    """
    if authorizer is not ALLOW_ALL:
        text = "The authorizer of this broker keeps no rules that clients could see or change."
    return KafkaError(ErrorCode.SECURITY_DISABLED, text)


def filter_of(request: Any) -> AclFilter | None:
    """The filter of DescribeAcls, or one of DeleteAcls; None if it can mean no rule, as it has a
    number that came with a later release. Raises KafkaError INVALID_REQUEST for one that is none.
    """
    numbers = (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    if _UNKNOWN in numbers:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter contains UNKNOWN elements")
    try:
        return AclFilter(
            AclResourceType(request.resource_type_filter),
            request.resource_name_filter,
            PatternType(request.pattern_type_filter),
            request.principal_filter,
            request.host_filter,
            AclOperation(request.operation),
            Permission(request.permission_type),
        )
    except ValueError:
        return None


def rule_of(creation: Any) -> tuple[AclPattern, Acl]:
    """The rule that is to be created. Raises KafkaError INVALID_REQUEST."""
    try:
        words = (
            AclResourceType(creation.resource_type),
            PatternType(creation.resource_pattern_type),
            AclOperation(creation.operation),
            Permission(creation.permission_type),
        )
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL") from error
    if any(word is of_filter for word in words for of_filter in _OF_FILTERS):
        message = "Failed to create ACL: ANY and MATCH stand in filters only"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    kind, pattern_type, operation, permission = words
    return (
        AclPattern(kind, creation.resource_name, pattern_type),
        Acl(creation.principal, creation.host, operation, permission),
    )
