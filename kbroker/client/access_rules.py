"""Access rules as a running cluster has them: described, created and deleted (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from kbroker.acl.acl import Acl, AclOperation, AclPattern, AclResourceType, PatternType, Permission
from kbroker.acl.acl_filter import AclFilter
from kbroker.acl.rule_words import AclRule
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_acls import CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest

_NO_AUTHORIZER = (
    "the brokers have no authorizer: everybody may do everything, and there are no rules. "
    "authorizer.class.name gives them one, and so does `kbroker start --secure DIR`"
)


class DeletedRule(NamedTuple):
    """A rule that was found; `refusal` is why it is still there."""

    rule: AclRule
    refusal: KafkaError | None


def described_rules(links: ClusterLinks, filters: Iterable[AclFilter]) -> list[AclRule]:
    """Return the rules that any of the filters means, sorted. Raises OSError, KafkaError if that is
    refused, and ClientError if brokers have no authorizer.
    """
    found: dict[AclRule, None] = {}
    for each in filters:
        answer = links.ask_any(DescribeAclsRequest(**_filter_fields(each)))
        _check(answer.error_code, answer.error_message)
        for resource in answer.resources:
            for acl in resource.acls:
                rule = _rule_of(resource, acl)
                if rule is not None:
                    found[rule] = None
    return sorted(found)


def create_rules(links: ClusterLinks, rules: Sequence[AclRule]) -> list[KafkaError | None]:
    """Create rules; those that are there already are fine. Returns for each why it was refused, or
    None. Raises as `described_rules`.
    """
    if not rules:
        return []
    answer = links.ask_any(creation_of(rules))
    return [_refusal(result) for result in answer.results]


def delete_rules(links: ClusterLinks, rules: Sequence[AclRule]) -> list[DeletedRule]:
    """Delete these rules; returns those that were still there. Raises as `described_rules`."""
    if not rules:
        return []
    answer = links.ask_any(deletion_of(rules))
    deleted = []
    for result in answer.filter_results:
        _check(result.error_code, result.error_message)
        for each in result.matching_acls:
            rule = _rule_of(each, each)
            if rule is not None:
                deleted.append(DeletedRule(rule, _refusal(each)))
    return deleted


def creation_of(rules: Iterable[tuple[AclPattern, Acl]]) -> CreateAclsRequest:
    """Return the request that creates these rules."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=pattern.type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for pattern, acl in rules
        ]
    )


def deletion_of(rules: Iterable[tuple[AclPattern, Acl]]) -> DeleteAclsRequest:
    """Return the request that deletes exactly these rules, each by a filter of its own."""
    return DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(**_filter_fields(_of_one(pattern, acl)))
            for pattern, acl in rules
        ]
    )


def _of_one(pattern: AclPattern, acl: Acl) -> AclFilter:
    kind, name, pattern_type = pattern
    return AclFilter(
        kind, name, pattern_type, acl.principal, acl.host, acl.operation, acl.permission
    )


def _filter_fields(asked: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": asked.resource_type,
        "resource_name_filter": asked.name,
        "pattern_type_filter": asked.pattern_type,
        "principal_filter": asked.principal,
        "host_filter": asked.host,
        "operation": asked.operation,
        "permission_type": asked.permission,
    }


def _rule_of(resource: Any, acl: Any) -> AclRule | None:
    """The rule that answers describe; None for one of a kind that came with a later release."""
    try:
        return AclRule(
            AclPattern(
                AclResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
            ),
            Acl(
                acl.principal,
                acl.host,
                AclOperation(acl.operation),
                Permission(acl.permission_type),
            ),
        )
    except ValueError:
        return None


def _refusal(result: Any) -> KafkaError | None:
    code = ErrorCode(result.error_code)
    if code == ErrorCode.SECURITY_DISABLED:
        _refuse_without_authorizer()
    return KafkaError(code, result.error_message) if code else None


def _check(code: int, message: str | None) -> None:
    if code == ErrorCode.SECURITY_DISABLED:
        _refuse_without_authorizer()
    if code:
        raise KafkaError(ErrorCode(code), message)


def _refuse_without_authorizer() -> NoReturn:
    raise ClientError(_NO_AUTHORIZER)
