"""SCRAM credentials that are refused, and access rules where there are none."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.wire.wire_client import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    WireClient,
    code,
)

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ANY, TOPIC, READ, ALLOW = 1, 2, 3, 3
FILTER = {
    "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
    "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
}  # fmt: skip
RULE = {
    "resource_type": TOPIC, "resource_name": "t", "resource_pattern_type": 3,
    "principal": "User:a", "host": "*", "operation": READ, "permission_type": ALLOW,
}  # fmt: skip


def credentials(wire: WireClient, *names: str) -> list[str]:
    users = [{"name": name} for name in names]
    answer = wire.call(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users)
    assert code(answer.error_code) == "0"
    return [code(each.error_code, each.error_message) for each in answer.results]


@pytest.mark.row(217)
def test_a_user_without_credentials_and_one_named_twice_are_told(wire: WireClient) -> None:
    assert credentials(wire, "nobody") == [
        "91 RESOURCE_NOT_FOUND (Attempt to describe a user credential that does not exist: nobody)"
    ]
    assert credentials(wire, "a", "a") == [
        "92 DUPLICATE_RESOURCE (Cannot describe SCRAM credentials for the same user twice "
        "in a single request: a)"
    ]


@pytest.mark.row(216)
def test_credentials_that_nobody_may_have_are_refused(wire: WireClient) -> None:
    def told(*upsertions: dict[str, Any], deleted: tuple[str, ...] = ()) -> list[str]:
        deletions = [{"name": name, "mechanism": 1} for name in deleted]
        answer = wire.call(
            ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=deletions, upsertions=list(upsertions)
        )
        return [code(each.error_code, each.error_message) for each in answer.results]

    asked = {"name": "a", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}

    assert told(asked | {"iterations": 4095}) == ["93 UNACCEPTABLE_CREDENTIAL (Too few iterations)"]
    assert told(asked | {"mechanism": 9}) == [
        "33 UNSUPPORTED_SASL_MECHANISM (Unknown SCRAM mechanism)"
    ]
    assert told(deleted=("nobody",)) == [
        "91 RESOURCE_NOT_FOUND (Attempt to delete a user credential that does not exist)"
    ]
    assert told(asked | {"name": ""}) == ["93 UNACCEPTABLE_CREDENTIAL (Username must not be empty)"]
    assert told(asked, asked) == [
        "92 DUPLICATE_RESOURCE (A user credential cannot be altered twice in the same request)"
    ]
    assert told(asked | {"iterations": 16385}) == [
        "93 UNACCEPTABLE_CREDENTIAL (Too many iterations)"
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_access_rules_are_refused_without_an_authorizer(wire: WireClient, version: int) -> None:
    def told(answer: Any) -> str:
        return code(answer.error_code, answer.error_message)

    described = wire.call(DESCRIBE_ACLS, version, **FILTER)
    (created,) = wire.call(CREATE_ACLS, version, creations=[RULE]).results
    (deleted,) = wire.call(DELETE_ACLS, version, filters=[FILTER]).filter_results

    assert told(described) == "54 SECURITY_DISABLED (No Authorizer is configured on the broker)"
    assert told(created) == told(deleted) == "54 SECURITY_DISABLED (No Authorizer is configured.)"
