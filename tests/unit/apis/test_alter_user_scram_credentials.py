"""AlterUserScramCredentials: answers and nodes are those of Apache Kafka 3.9.2, which was asked the
same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.apis.alter_user_scram_credentials import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import ask, services_without

Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Told = list[tuple[str, int, str]]

SHA_256, SHA_512 = 1, 2
# salt "salt", a salted password of 32 times "p", or 64 times "q"
OF_256 = (
    '"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=5fFUxV0AD26xWkoJJg7bXVrfsC18oO/9teoJx9PJtT0=,'
    'server_key=HEtYAvOwTubW02jJL+5MEEljbbOmsXhQuGr9eFqJSO0=,iterations=4096"'
)
TOO_FEW, TOO_MANY = (93, "Too few iterations"), (93, "Too many iterations")
TWICE = (92, "A user credential cannot be altered twice in the same request")
NOT_THERE = (91, "Attempt to delete a user credential that does not exist")
UNKNOWN = (33, "Unknown SCRAM mechanism")
NO_NAME = (93, "Username must not be empty")
DONE = (0, "")


def upsertion(
    name: str,
    mechanism: int = SHA_256,
    iterations: int = 4096,
    salted: bytes = b"p" * 32,
    salt: bytes = b"salt",
) -> Upsertion:
    return Upsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted,
    )


def deletion(name: str, mechanism: int = SHA_256) -> Deletion:
    return Deletion(name=name, mechanism=mechanism)


async def alter(client: AdminClient, *entries: Upsertion | Deletion) -> Told:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in entries if isinstance(each, Deletion)],
        upsertions=[each for each in entries if isinstance(each, Upsertion)],
    )
    response = await client.ask(handle, request, 0)
    return [(each.user, each.error_code, each.error_message or "") for each in response.results]


async def stored(client: AdminClient, name: str) -> str:
    data, _ = await client.broker.zk.tree.get(f"/config/users/{name}")
    assert data is not None
    return data.decode()


async def test_credentials_are_written_as_kafka_writes_them(client: AdminClient) -> None:
    assert await alter(client, upsertion("ann")) == [("ann", *DONE)]
    assert await stored(client, "ann") == f'{{"version":1,"config":{{{OF_256}}}}}'

    both = await alter(client, deletion("ann"), upsertion("ann", SHA_512, 8192, b"q" * 64))

    assert both == [("ann", *DONE)]
    assert (await stored(client, "ann")).startswith('{"version":1,"config":{"SCRAM-SHA-512":"salt=')
    changes = await client.broker.zk.tree.children("/config/changes")
    data, _ = await client.broker.zk.tree.get(f"/config/changes/{min(changes)}")
    assert data == b'{"version":2,"entity_path":"users/ann"}'


async def test_names_are_written_as_in_urls(client: AdminClient) -> None:
    for name in ("ä lice *~<>/%+", "<default>", "😀"):
        assert await alter(client, upsertion(name)) == [(name, *DONE)]
    assert sorted(await client.broker.zk.tree.children("/config/users")) == [
        "%3Cdefault%3E",
        "%C3%A4%20lice%20%2A%7E%3C%3E%2F%25%2B",
        "%F0%9F%98%80",
    ]


async def test_a_user_without_anything_has_no_node(client: AdminClient) -> None:
    await alter(client, upsertion("ann"), upsertion("bo"))
    tree = client.broker.zk.tree
    await tree.create("/config/users/bo/clients", None)

    assert await alter(client, deletion("ann"), deletion("bo")) == [("ann", *DONE), ("bo", *DONE)]

    assert await tree.children("/config/users") == ["bo"]
    assert await stored(client, "bo") == '{"version":1,"config":{}}'


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([upsertion("ann", iterations=4095)], [("ann", *TOO_FEW)]),
        ([upsertion("ann", SHA_512, -1)], [("ann", *TOO_FEW)]),
        ([upsertion("ann", iterations=16385)], [("ann", *TOO_MANY)]),
        ([upsertion("ann", iterations=16384)], [("ann", *DONE)]),
        ([upsertion("ann", 0)], [("ann", *UNKNOWN)]),
        ([upsertion("ann", 3, 1)], [("ann", *UNKNOWN)]),
        ([deletion("ann", -1)], [("ann", *UNKNOWN)]),
        ([upsertion("", 9)], [("", *NO_NAME)]),
        ([deletion("")], [("", *NO_NAME)]),
        ([deletion("nobody")], [("nobody", *NOT_THERE)]),
        ([deletion("there", SHA_512)], [("there", *NOT_THERE)]),
        ([upsertion("ann"), upsertion("ann")], [("ann", *TWICE)]),
        ([deletion("there"), upsertion("there")], [("there", *TWICE)]),
        ([deletion("nobody"), deletion("nobody")], [("nobody", *TWICE)]),
        ([upsertion("ann"), upsertion("ann", SHA_512, 1)], [("ann", *TOO_FEW)]),
        ([deletion("ann", 7), upsertion("ann", SHA_512, 1)], [("ann", *TOO_FEW)]),
        ([upsertion("ann", 1, 1), upsertion("ann", 2, 99_999)], [("ann", *TOO_MANY)]),
        (
            [deletion("nobody"), upsertion("carl"), upsertion("dora", iterations=1)],
            [("dora", *TOO_FEW), ("nobody", *NOT_THERE), ("carl", *DONE)],
        ),
        ([upsertion("ann", salt=b"")], [("ann", *DONE)]),
        ([], []),
    ],
)
async def test_each_user_gets_the_answer_of_kafka(
    client: AdminClient, entries: Sequence[Any], told: Told
) -> None:
    await alter(client, upsertion("there"))
    assert await alter(client, *entries) == told


async def test_what_kafka_fails_at_is_refused(client: AdminClient) -> None:
    """It answers UNKNOWN_SERVER_ERROR: to no HMAC without a key, and to a path of ZooKeeper."""
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL
    empty = await alter(client, upsertion("ann", salted=b""))
    assert empty == [("ann", code, "Salted password must not be empty")]
    for name in (".", ".."):
        assert await alter(client, upsertion(name)) == [
            (name, code, f"Username must not be {name}")
        ]


async def test_simultaneous_changes_of_a_user_are_all_kept(client: AdminClient) -> None:
    await asyncio.gather(
        alter(client, upsertion("ann")), alter(client, upsertion("ann", SHA_512, 8192, b"q" * 64))
    )
    text = await stored(client, "ann")
    assert "SCRAM-SHA-256" in text
    assert "SCRAM-SHA-512" in text


async def test_only_who_may_alter_the_cluster_changes_anything(client: AdminClient) -> None:
    services = services_without(client.services, (AclOperation.ALTER, CLUSTER))
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("ann")])
    response = await ask(services, request, 0)
    assert [(each.user, each.error_code) for each in response.results] == [
        ("ann", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    ]
