"""AlterClientQuotas: answers and nodes are those of Apache Kafka 3.9.2, which was asked the same."""

from __future__ import annotations

import asyncio
import math

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.admin.client_quota_changes import java_double
from kbroker.apis.alter_client_quotas import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import ask, services_without

Values = dict[str, float | None]  # None removes
Told = list[tuple[str, int, str]]

ANN, APP = ("user", "ann"), ("client-id", "app")
DONE = (0, "")
NO_LONG = "Configuration producer_byte_rate must be a LONG value"
MIXED = "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
NO_DOUBLE = "Configuration request_percentage must be a DOUBLE value of 0 or more"


def entry(
    *entity: tuple[str, str | None], **values: float | None
) -> AlterClientQuotasRequest.EntryData:
    return AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
        ops=[
            AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


async def alter(
    client: AdminClient,
    *entries: AlterClientQuotasRequest.EntryData,
    validate_only: bool = False,
    version: int = 1,
) -> Told:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = await client.ask(handle, request, version)
    return [
        (
            ", ".join(f"{part.entity_type} {part.entity_name or '-'}" for part in each.entity),
            each.error_code,
            each.error_message or "",
        )
        for each in response.entries
    ]


async def stored(client: AdminClient, path: str) -> str:
    data, _ = await client.broker.zk.tree.get(f"/config/{path}")
    return "" if data is None else data.decode()


@pytest.mark.parametrize(("entity", "values", "path", "content"), [
    ([ANN], {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2e15}, "users/ann",
     '"producer_byte_rate":"1000","consumer_byte_rate":"2000000000000000"'),
    ([("user", None)], {"request_percentage": 12.5}, "users/<default>",
     '"request_percentage":"12.5"'),
    ([APP], {"controller_mutation_rate": 1e7}, "clients/app",
     '"controller_mutation_rate":"1.0E7"'),
    ([("client-id", None)], {"producer_byte_rate": 0.0}, "clients/<default>",
     '"producer_byte_rate":"0"'),
    ([APP, ANN], {"producer_byte_rate": 1.0}, "users/ann/clients/app", '"producer_byte_rate":"1"'),
    ([("user", None), ("client-id", None)], {"producer_byte_rate": 1.0},
     "users/<default>/clients/<default>", '"producer_byte_rate":"1"'),
    ([("user", "b@/ö"), ("client-id", "c 1")], {"producer_byte_rate": 1.0},
     "users/b%40%2F%C3%B6/clients/c%201", '"producer_byte_rate":"1"'),
    ([("user", "<default>")], {"producer_byte_rate": 1.0}, "users/%3Cdefault%3E",
     '"producer_byte_rate":"1"'),
    ([("ip", "10.0.0.1")], {"connection_creation_rate": 5.0}, "ips/10.0.0.1",
     '"connection_creation_rate":"5"'),
    ([("ip", None)], {"connection_creation_rate": 0.0}, "ips/<default>",
     '"connection_creation_rate":"0"'),
    ([("ip", "localhost")], {"connection_creation_rate": 5.0}, "ips/localhost",
     '"connection_creation_rate":"5"'),
])  # fmt: skip
async def test_quotas_are_written_as_kafka_writes_them(
    entity: list[tuple[str, str | None]],
    values: Values,
    path: str,
    content: str,
    client: AdminClient,
) -> None:
    (told,) = await alter(client, entry(*entity, **values))
    assert told[1:] == DONE
    assert await stored(client, path) == f'{{"version":1,"config":{{{content}}}}}'
    tree = client.broker.zk.tree
    (change,) = await tree.children("/config/changes")
    data, _ = await tree.get(f"/config/changes/{change}")
    assert data == f'{{"version":2,"entity_path":"{path}"}}'.encode()


@pytest.mark.parametrize(("entity", "values", "text"), [
    ([], {}, "Invalid empty client quota entity"),
    ([("thing", "x")], {}, "Unhandled client quota entity type: thing"),
    ([("user", "")], {}, "Empty user not supported"),
    ([("user", "..")], {}, "user must not be .."),
    ([("ip", "10.0.0.1"), ANN], {}, MIXED),
    ([("ip", None), APP], {}, MIXED),
    ([("ip", "not an ip")], {}, "not%20an%20ip is not a valid IP or resolvable host."),
    ([("ip", "::1")], {}, "%3A%3A1 is not a valid IP or resolvable host."),
    ([ANN], {"nope": 1.0}, "Invalid configuration key nope"),
    ([ANN], {"connection_creation_rate": 1.0},
     "Invalid configuration key connection_creation_rate"),
    ([("ip", None)], {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
    ([("ip", None)], {"connection_creation_rate": 2.0**31},
     "Configuration connection_creation_rate must be a INT value"),
    ([ANN], {"producer_byte_rate": 1.5}, NO_LONG),
    ([ANN], {"producer_byte_rate": -1.0}, NO_LONG),
    ([ANN], {"producer_byte_rate": 1e308}, NO_LONG),
    ([ANN], {"producer_byte_rate": math.nan}, NO_LONG),
    ([ANN], {"request_percentage": -1.0}, NO_DOUBLE),
    ([ANN], {"request_percentage": math.nan}, NO_DOUBLE),
    ([ANN], {"request_percentage": -math.inf}, NO_DOUBLE),
])  # fmt: skip
async def test_what_cannot_be_is_refused_and_changes_nothing(
    entity: list[tuple[str, str | None]], values: Values, text: str, client: AdminClient
) -> None:
    before = client.broker.cluster.tree.dump()
    told = await alter(client, entry(*entity, **values))
    assert told[0][1:] == (ErrorCode.INVALID_REQUEST, text)
    assert client.broker.cluster.tree.dump() == before


async def test_what_is_refused_for_one_is_done_for_others(client: AdminClient) -> None:
    told = await alter(
        client,
        entry(ANN, producer_byte_rate=1.0),
        entry(APP, producer_byte_rate=1.5),
        entry(APP, ANN, consumer_byte_rate=3.0),
        version=0,
    )
    assert told == [
        ("user ann", *DONE),
        ("client-id app", 42, NO_LONG),
        ("client-id app, user ann", *DONE),
    ]
    assert await client.broker.zk.tree.children("/config/clients") == []


async def test_nothing_is_stored_if_it_is_only_asked_for(client: AdminClient) -> None:
    before = client.broker.cluster.tree.dump()
    entries = [entry(ANN, producer_byte_rate=1.0), entry(APP, nope=1.0)]
    told = await alter(client, *entries, validate_only=True)
    assert told == [
        ("user ann", *DONE), ("client-id app", 42, "Invalid configuration key nope")
    ]  # fmt: skip
    assert client.broker.cluster.tree.dump() == before


async def test_an_entity_that_is_named_again_is_changed_again_and_answered_once(
    client: AdminClient,
) -> None:
    told = await alter(
        client,
        entry(ANN, producer_byte_rate=1.0),
        entry(ANN, consumer_byte_rate=2.0),
        entry(ANN, nope=1.0),
    )
    assert told == [("user ann", 42, "Invalid configuration key nope")]
    config = '"producer_byte_rate":"1","consumer_byte_rate":"2"'
    assert await stored(client, "users/ann") == f'{{"version":1,"config":{{{config}}}}}'


async def test_quotas_and_credentials_of_a_user_leave_each_other_alone(client: AdminClient) -> None:
    credential = '"SCRAM-SHA-256":"salt=c2E=,stored_key=cw==,server_key=cw==,iterations=4096"'
    await client.broker.zk.create_if_absent(
        "/config/users/ann", f'{{"version":1,"config":{{{credential}}}}}'.encode()
    )
    await alter(client, entry(ANN, request_percentage=10.0))
    text = await stored(client, "users/ann")
    assert credential in text and '"request_percentage":"10.0"' in text  # noqa: PT018
    gone = {"request_percentage": None, "no_such_key": None, "SCRAM-SHA-256": None}
    assert await alter(client, entry(ANN, **gone)) == [("user ann", *DONE)]
    assert await stored(client, "users/ann") == f'{{"version":1,"config":{{{credential}}}}}'


async def test_an_entity_without_quotas_has_no_node(client: AdminClient) -> None:
    await alter(client, entry(ANN, APP, producer_byte_rate=1.0), entry(APP, producer_byte_rate=1.0))
    gone = {"producer_byte_rate": None}
    told = await alter(
        client, entry(ANN, APP, **gone), entry(APP, **gone), entry(("user", "nobody"), **gone)
    )
    assert [each[1:] for each in told] == [DONE] * 3
    tree = client.broker.zk.tree
    assert [await tree.children(f"/config/{kind}") for kind in ("users", "clients")] == [[], []]


async def test_two_who_change_one_entity_lose_nothing(client: AdminClient) -> None:
    await asyncio.gather(*(
        alter(client, entry(ANN, **{key: float(number)}))
        for number in range(1, 21)
        for key in ("producer_byte_rate", "consumer_byte_rate")
    ))  # fmt: skip
    text = await stored(client, "users/ann")
    assert "producer_byte_rate" in text and "consumer_byte_rate" in text  # noqa: PT018


async def test_others_have_their_turns_amid_many_entries(client: AdminClient) -> None:
    names = [("client-id", f"c{number}") for number in range(300)]
    entries = [entry(name, producer_byte_rate=1.0) for name in names]
    entries.append(entry(*((f"t{number}", None) for number in range(2_000))))
    entries.append(entry(ANN, **{f"k{number}": None for number in range(2_000)}))
    request = AlterClientQuotasRequest(entries=entries, validate_only=True)
    response, turns = await client.counting_turns(handle, request, 1)
    assert len(response.entries) == 302
    assert turns > 300


async def test_only_who_may_alter_settings_of_the_cluster_changes_quotas(
    client: AdminClient,
) -> None:
    services = services_without(client.services, (AclOperation.ALTER_CONFIGS, CLUSTER))
    request = AlterClientQuotasRequest(entries=[entry(ANN, producer_byte_rate=1.0)])
    (answer,) = (await ask(services, request, 1)).entries
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.error_message == "Cluster authorization failed."
    assert [part.entity_name for part in answer.entity] == ["ann"]
    assert await client.broker.zk.tree.children("/config/users") == []


@pytest.mark.parametrize(("number", "text"), [
    (0.0, "0.0"), (1.0, "1.0"), (200.0, "200.0"), (0.001, "0.001"), (9999999.0, "9999999.0"),
    (1e7, "1.0E7"), (123456789.125, "1.23456789125E8"), (1e-4, "1.0E-4"), (1e308, "1.0E308"),
    (math.inf, "Infinity"), (0.1 + 0.2, "0.30000000000000004"), (1.7976931348623157e308, "1.7976931348623157E308"),
])  # fmt: skip
def test_numbers_are_written_as_java_writes_them(number: float, text: str) -> None:
    assert java_double(number) == text
