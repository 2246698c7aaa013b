"""DescribeClientQuotas over nodes of Apache Kafka, held against its answers."""

from __future__ import annotations

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.describe_client_quotas import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kbroker.turns import ENTRIES
from tests.fakes.requests.admin_context import AdminClient
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.trees.client_entities import store_entities, store_entity

Wanted = tuple[str, int, str | None]  # type, kind of match, name
EXACT, DEFAULT, ANY = range(3)
ANY_USER, ANY_CLIENT = ("user", ANY, None), ("client-id", ANY, None)
ALICE = ("user", EXACT, "alice")

OF_USERS = {"user alice", "user b@/ö", "user -"}
OF_CLIENTS = {"client-id c 1", "client-id -"}
OF_BOTH = {
    "user alice, client-id c 1",
    "user alice, client-id -",
    "user -, client-id c2",
    "user -, client-id -",
    "user cut, client-id x",
}
OF_ADDRESSES = {"ip 127.0.0.1", "ip -"}


async def quotas(
    client: AdminClient, *wanted: Wanted, strict: bool = False, version: int = 1
) -> DescribeClientQuotasResponse:
    components = [
        DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=how, match=name)
        for kind, how, name in wanted
    ]
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    response: DescribeClientQuotasResponse = await ask(client.services, request, version)
    return response


def named(response: DescribeClientQuotasResponse) -> dict[str, dict[str, float]]:
    """Quotas by entity; the default is a dash."""
    assert response.error_code == ErrorCode.NONE
    return {
        ", ".join(f"{part.entity_type} {part.entity_name or '-'}" for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or ()
    }


@pytest.mark.parametrize(("wanted", "strict", "expected"), [
    ([], False, OF_USERS | OF_CLIENTS | OF_BOTH | OF_ADDRESSES),
    ([], True, set()),
    ([ANY_USER], False, OF_USERS | OF_BOTH),
    ([ANY_USER], True, OF_USERS),
    ([ANY_CLIENT], False, OF_CLIENTS | OF_BOTH),
    ([ANY_CLIENT], True, OF_CLIENTS),
    ([ANY_USER, ANY_CLIENT], False, OF_BOTH),
    ([ANY_CLIENT, ANY_USER], True, OF_BOTH),
    ([ALICE], False, {"user alice", "user alice, client-id -", "user alice, client-id c 1"}),
    ([ALICE], True, {"user alice"}),
    ([ALICE, ANY_CLIENT], True, {"user alice, client-id -", "user alice, client-id c 1"}),
    ([ALICE, ("client-id", DEFAULT, None)], False, {"user alice, client-id -"}),
    ([("user", DEFAULT, None)], False, {"user -", "user -, client-id -", "user -, client-id c2"}),
    ([("user", DEFAULT, None)], True, {"user -"}),
    ([("user", EXACT, "b@/ö")], False, {"user b@/ö"}),
    ([("user", EXACT, "cut")], True, set()),
    ([("client-id", EXACT, "c 1")], False, {"client-id c 1", "user alice, client-id c 1"}),
    ([("ip", ANY, None)], True, OF_ADDRESSES),
    ([("ip", DEFAULT, None)], False, {"ip -"}),
    ([("ip", EXACT, "127.0.0.1")], False, {"ip 127.0.0.1"}),
    ([("ip", EXACT, "no address")], False, set()),
])  # fmt: skip
async def test_entities_are_told_as_apache_kafka_tells_them(
    wanted: list[Wanted],
    strict: bool,
    expected: set[str],
    client: AdminClient,
) -> None:
    await store_entities(client)
    assert named(await quotas(client, *wanted, strict=strict)).keys() == expected


@pytest.mark.parametrize("version", [0, 1])
async def test_values_are_told_without_what_is_no_quota(version: int, client: AdminClient) -> None:
    await store_entities(client)
    await store_entity(client, "/config/clients/odd", '"producer_byte_rate":"plenty"')
    found = named(await quotas(client, version=version))
    assert found["user alice"] == {
        "request_percentage": 12.5,
        "producer_byte_rate": 1000.0,
        "consumer_byte_rate": 2000.0,
    }
    assert found["ip 127.0.0.1"] == {"connection_creation_rate": 10.0}
    assert "client-id odd" not in found


async def test_many_are_written_beside_the_loop(client: AdminClient) -> None:
    header = RequestHeader(DescribeClientQuotasRequest.spec.key or 0, 1, 1, "client")
    ctx = RequestContext(header, local_connection(), client.services)
    assert not (await handle(ctx, DescribeClientQuotasRequest())).is_large
    for number in range(ENTRIES + 1):
        await store_entity(client, f"/config/clients/{number}", '"producer_byte_rate":"1"')
    assert (await handle(ctx, DescribeClientQuotasRequest())).is_large


@pytest.mark.parametrize(("wanted", "code", "text"), [
    ([ALICE, ALICE], 42, "Duplicate user filter component entity type"),
    ([ANY_CLIENT, ANY_CLIENT], 42, "Duplicate client filter component entity type"),
    ([("thing", EXACT, "x")], 35, "Custom entity type 'thing' not supported"),
    ([("", EXACT, "x")], 42, "Unexpected empty filter component entity type"),
    ([("user", 3, None)], 42, "Unknown match type 3"),
    ([("user", EXACT, None)], 42,
     "Request specified MATCH_TYPE_EXACT, but set match string to null."),
    ([ALICE, ("ip", ANY, None)], 42,
     "Invalid entity filter component combination, IP filter component should not be used "
     "with user or clientId filter component."),
])  # fmt: skip
async def test_what_cannot_be_asked_is_refused(
    wanted: list[Wanted], code: int, text: str, client: AdminClient
) -> None:
    response = await quotas(client, *wanted)
    assert (response.error_code, response.error_message) == (code, text)
    assert response.entries is None


async def test_only_who_may_describe_the_cluster_is_told(client: AdminClient) -> None:
    services = services_without(client.services, (AclOperation.DESCRIBE_CONFIGS, CLUSTER))
    response = await ask(services, DescribeClientQuotasRequest(), 1)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_reading_quotas_leaves_the_tree_as_it_is(client: AdminClient) -> None:
    await store_entities(client)
    before = client.broker.cluster.tree.dump()
    await quotas(client)
    assert client.broker.cluster.tree.dump() == before
