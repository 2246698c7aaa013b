from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis import list_transactions
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.describe_transactions import TOLD_AGAIN
from kbroker.apis.large_requests import LARGE_BYTES
from kbroker.model import TopicPartition
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from tests.fakes.brokers.transaction_broker import TIMEOUT_MS, TransactionBroker
from tests.fakes.clusters.replication_cluster import ReplicationCluster
from tests.fakes.requests.api_context import ApiCaller, connection
from tests.fakes.requests.denying_authorizer import ask, services_without
from tests.fakes.requests.received_answers import received
from tests.fakes.requests.transactional import Transactional

pytestmark = pytest.mark.usefixtures("small_or_large")

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
DESCRIBE = AclOperation.DESCRIBE


@pytest.fixture
def broker() -> TransactionBroker:
    return TransactionBroker()


@pytest.fixture
def services(broker: TransactionBroker, cluster: ReplicationCluster) -> Services:
    return replace(ApiCaller(cluster).services, transactional=Transactional(broker.coordinator))


async def described(services: Services, *names: str) -> list[Any]:
    answer = await ask(services, DescribeTransactionsRequest(transactional_ids=list(names)), 0)
    found: list[Any] = answer.transaction_states
    return found


def topics(state: Any) -> dict[str, list[int]]:
    return {each.topic: each.partitions for each in state.topics}


async def test_an_open_transaction_is_described_with_its_partitions(
    broker: TransactionBroker, services: Services
) -> None:
    producer = await broker.begun("x", B0, A1, A0)

    (state,) = await described(services, "x")

    assert (state.error_code, state.transactional_id) == (0, "x")
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", TIMEOUT_MS)
    assert state.transaction_start_time_ms == broker.coordinator.describe("x").start_ms
    assert (state.producer_id, state.producer_epoch) == producer
    assert topics(state) == {"a": [0, 1], "b": [0]}


async def test_an_id_without_a_transaction_has_no_start(
    broker: TransactionBroker, services: Services
) -> None:
    await broker.init("x")

    (state,) = await described(services, "x")

    assert (state.transaction_state, state.transaction_start_time_ms) == ("Empty", -1)
    assert state.topics == []


async def test_each_id_has_its_own_outcome(broker: TransactionBroker, services: Services) -> None:
    await broker.init("x")

    found = await described(services, "", "none", "x", "x")

    assert [(each.transactional_id, each.error_code) for each in found] == [
        ("", 42), ("none", 105), ("x", 0), ("x", 0),
    ]  # fmt: skip


async def test_partitions_of_an_id_that_is_named_again_and_again_are_bounded(
    broker: TransactionBroker, services: Services
) -> None:
    many = TOLD_AGAIN // 2
    await broker.begun("x", *(TopicPartition("a", index) for index in range(many)))
    await broker.begun("y", A0)

    found = await described(services, "x", "x", "x", "x", "x", "y", "none", "none")

    assert [(each.error_code, len(topics(each).get("a", ()))) for each in found] == [
        *[(0, many)] * 3, *[(42, 0)] * 2, (0, 1), *[(105, 0)] * 2,
    ]  # fmt: skip


async def test_so_they_are_in_a_request_that_is_large_enough_to_be_answered_in_parts(
    broker: TransactionBroker, services: Services
) -> None:
    await broker.begun("x", *(TopicPartition("a", index) for index in range(TOLD_AGAIN // 2)))

    found = await described(services, *["x"] * LARGE_BYTES)

    assert len(found) == LARGE_BYTES
    assert sum(each.error_code == 0 for each in found) == 3


async def test_others_are_answered_while_ids_with_many_partitions_are_described(
    broker: TransactionBroker, services: Services
) -> None:
    await broker.begun("x", *(TopicPartition("a", index) for index in range(1000)))
    answer = asyncio.ensure_future(described(services, "x"))

    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert not answer.done()
    assert len(topics((await answer)[0])["a"]) == 1000


async def test_other_coordinators_and_those_that_end_say_so(
    broker: TransactionBroker, services: Services
) -> None:
    broker.resign()
    (elsewhere,) = await described(services, "x")
    broker.coordinator.shutdown()
    (ended,) = await described(services, "x")

    assert (elsewhere.error_code, ended.error_code) == (16, 15)


async def test_ids_and_topics_are_told_to_whom_may_describe_them(
    broker: TransactionBroker, services: Services
) -> None:
    await broker.begun("x", A0, B0)
    await broker.begun("secret", A0)
    services = services_without(
        services,
        (DESCRIBE, AclResource(AclResourceType.TOPIC, "b")),
        (DESCRIBE, AclResource(AclResourceType.TRANSACTIONAL_ID, "secret")),
        (DESCRIBE, AclResource(AclResourceType.TRANSACTIONAL_ID, "none")),
    )

    found = {
        each.transactional_id: each for each in await described(services, "x", "secret", "none")
    }

    assert {name: each.error_code for name, each in found.items()} == {
        "x": 0, "secret": 53, "none": 53,
    }  # fmt: skip
    assert topics(found["x"]) == {"a": [0]}
    assert found["secret"].transaction_state == ""


# Lists of them


async def listed(services: Services, version: int = 1, **filters: Any) -> list[tuple[Any, ...]]:
    answer = await ask(services, ListTransactionsRequest(**filters), version)
    assert answer.error_code == 0
    return [
        (each.transactional_id, each.producer_id, each.transaction_state)
        for each in answer.transaction_states
    ]


@pytest.fixture
async def three(broker: TransactionBroker) -> TransactionBroker:
    """An id that was never used, an open transaction, and one that is a second older."""
    await broker.begun("old", A0)
    await broker.pass_time(1_000)
    await broker.begun("open", A0)
    await broker.init("unused")
    return broker


async def test_all_ids_are_listed(three: TransactionBroker, services: Services) -> None:
    assert await listed(services, version=0) == [
        ("old", 1000, "Ongoing"), ("open", 1001, "Ongoing"), ("unused", 1002, "Empty"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"state_filters": ["Empty"]}, ["unused"]),
        ({"state_filters": ["Empty", "Ongoing"]}, ["old", "open", "unused"]),
        ({"state_filters": ["Dead"]}, []),
        ({"producer_id_filters": [1001, 7]}, ["open"]),
        ({"state_filters": ["Empty"], "producer_id_filters": [1001]}, []),
        ({"duration_filter": 999}, ["old", "unused"]),  # Kafka: never begun is since ever
        ({"duration_filter": 1_000}, ["unused"]),
        ({"duration_filter": 2**62}, []),
        ({"duration_filter": -5}, ["old", "open", "unused"]),
    ],
)
async def test_filters_leave_some(
    filters: dict[str, Any], names: list[str], three: TransactionBroker, services: Services
) -> None:
    assert [name for name, _, _ in await listed(services, **filters)] == names


@pytest.mark.parametrize(("states", "count"), [([], 600), (["Ongoing"], 0)])
async def test_many_ids_are_listed_in_turns(
    states: list[str], count: int, broker: TransactionBroker, services: Services
) -> None:
    names = [f"id-{number}" for number in range(600)]
    for name in names:
        await broker.init(name)
    ctx = RequestContext(RequestHeader(66, 1, 1, None), connection(), services)

    request = ListTransactionsRequest(state_filters=states)
    answer = asyncio.ensure_future(list_transactions.handle(ctx, request))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert not answer.done()

    states_of = received(await answer, 1).transaction_states
    assert [each.transactional_id for each in states_of] == names[:count]


async def test_unknown_states_are_named_once(three: TransactionBroker, services: Services) -> None:
    request = ListTransactionsRequest(state_filters=["Nope", "empty", "Nope", ""])
    answer = await ask(services, request, 1)

    assert answer.unknown_state_filters == ["Nope", "empty", ""]
    assert answer.transaction_states == []


async def test_ids_that_the_client_may_not_describe_are_left_out(
    three: TransactionBroker, services: Services
) -> None:
    denied = (DESCRIBE, AclResource(AclResourceType.TRANSACTIONAL_ID, "open"))

    names = [name for name, _, _ in await listed(services_without(services, denied))]

    assert names == ["old", "unused"]


async def test_a_coordinator_that_ends_lists_nothing(
    three: TransactionBroker, services: Services
) -> None:
    three.coordinator.shutdown()

    answer = await ask(services, ListTransactionsRequest(), 1)

    assert (answer.error_code, answer.transaction_states) == (15, [])
