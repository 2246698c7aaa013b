"""DescribeUserScramCredentials over nodes of Apache Kafka, held against its answers."""

from __future__ import annotations

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.trees.client_entities import store_entities, store_entity

SHA_256, SHA_512 = 1, 2
ALICE = ("alice", [(SHA_256, 4096), (SHA_512, 8192)])
ODD = ("b@/ö", [(SHA_512, 8192)])
ONLY = ("only", [(SHA_512, 8192)])
Told = list[tuple[str, list[tuple[int, int]]]]


async def credentials(
    client: AdminClient, users: list[str] | None
) -> DescribeUserScramCredentialsResponse:
    kind = DescribeUserScramCredentialsRequest
    asked = None if users is None else [kind.UserName(name=name) for name in users]
    response: DescribeUserScramCredentialsResponse = await ask(
        client.services, kind(users=asked), 0
    )
    assert response.error_code == ErrorCode.NONE
    return response


async def told(client: AdminClient, users: list[str] | None) -> Told:
    return [
        (each.user, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in (await credentials(client, users)).results
    ]


async def test_all_users_that_have_any_are_told(client: AdminClient) -> None:
    await store_entities(client)
    assert await told(client, None) == [ALICE, ODD, ONLY]
    assert await told(client, []) == [ALICE, ODD, ONLY]


async def test_users_are_told_in_the_order_in_which_they_are_asked_for(client: AdminClient) -> None:
    await store_entities(client)
    assert await told(client, ["only", "b@/ö", "alice"]) == [ONLY, ODD, ALICE]


async def test_users_without_credentials_doubles_and_no_name_have_an_error(
    client: AdminClient,
) -> None:
    await store_entities(client)
    names = ["cut", "alice", "", "only", "alice", "<default>"]
    response = await credentials(client, names)
    assert [(each.user, each.error_code, each.error_message) for each in response.results] == [
        ("cut", 91, "Attempt to describe a user credential that does not exist: cut"),
        ("alice", 92, "Cannot describe SCRAM credentials for the same user twice in a single "
                      "request: alice"),
        ("", 91, "Username must not be empty"),
        ("only", 0, ""),
        ("<default>", 91,
         "Attempt to describe a user credential that does not exist: <default>"),
    ]  # fmt: skip


async def test_a_credential_that_cannot_be_read_is_none(client: AdminClient) -> None:
    await store_entity(client, "/config/users/a", '"SCRAM-SHA-256":"iterations=many"')
    await store_entity(client, "/config/users/b", '"SCRAM-SHA-256":"secret"')
    assert await told(client, None) == []


async def test_only_who_may_describe_the_cluster_is_told(client: AdminClient) -> None:
    services = services_without(client.services, (AclOperation.DESCRIBE, CLUSTER))
    kind = DescribeUserScramCredentialsRequest
    of_all = await ask(services, kind(users=None), 0)
    of_one = await ask(services, kind(users=[kind.UserName(name="alice")]), 0)
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert of_all.error_code == of_one.error_code == refused
    assert [(each.user, each.error_code) for each in of_one.results] == [("", refused)]
    assert of_all.results == []
