"""Requests for the controller, asked of another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation, AclResource, AclResourceType
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.errors import ErrorCode
from kbroker.peers.forwarding_manager import SHOWN_TIMEOUT_MS
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.fakes.clusters.controller_cluster import running
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster, afterwards, cut, hang
from tests.fakes.requests.denying_authorizer import services_without
from tests.fakes.requests.error_codes import codes_in
from tests.fakes.requests.recording_replier import local_connection

OTHER = 1  # not controller
ENVELOPE = (OTHER, 0, "EnvelopeRequest")
DIRECT = (OTHER, 0, "CreateTopicsRequest")
pytestmark = pytest.mark.virtual_time


@pytest.fixture
def cluster(forwarding_cluster: ForwardingCluster) -> ForwardingCluster:
    return forwarding_cluster


@pytest.fixture
async def seconds(cluster: ForwardingCluster) -> Callable[[], float]:
    """How much time has gone since the brokers were there."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    return lambda: loop.time() - start


def create(name: str = "t", partitions: int = 2, timeout_ms: int = 5_000, **fields: Any) -> Any:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms, **fields)


def delete(name: str = "t") -> Any:
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name)]
    return DeleteTopicsRequest(topics=topics, topic_names=[name], timeout_ms=5_000)


def grow(name: str, count: int) -> Any:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=5_000)


@pytest.mark.parametrize("version", range(8))
async def test_a_topic_is_created_through_any_broker_and_known_there(
    version: int, cluster: ForwardingCluster
) -> None:
    broker = cluster.broker(OTHER)

    answer = await broker.ask(create(), version)

    assert [(t.name, t.error_code) for t in answer.topics] == [("t", ErrorCode.NONE)]
    assert broker.metadata.is_led("t", 2)
    assert cluster.asked == [ENVELOPE]


@pytest.mark.parametrize("version", range(8))
async def test_a_refusal_is_the_controllers(version: int, cluster: ForwardingCluster) -> None:
    here = await cluster.broker(OTHER).ask(create("no such name!"), version)
    there = await cluster.broker(0).ask(create("no such name!"), version)

    assert here == there
    assert here.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", range(7))
async def test_a_topic_is_deleted_through_any_broker_and_gone_there(
    version: int, cluster: ForwardingCluster
) -> None:
    broker = cluster.broker(OTHER)
    await broker.ask(create(), 7)

    answer = await broker.ask(delete(), version)

    assert [result.error_code for result in answer.responses] == [ErrorCode.NONE]
    assert not broker.metadata.contains_topic("t")


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_grows_through_any_broker_and_is_seen_to(
    version: int, cluster: ForwardingCluster
) -> None:
    broker = cluster.broker(OTHER)
    await broker.ask(create(), 7)

    answer = await broker.ask(grow("t", 5), version)

    assert [result.error_code for result in answer.results] == [ErrorCode.NONE]
    assert broker.metadata.is_led("t", 5)


@pytest.mark.parametrize(
    ("request_", "operation", "version"),
    [
        (create(), AclOperation.CREATE, 5),
        (delete(), AclOperation.DELETE, 5),
        (delete(), AclOperation.DELETE, 6),
        (grow("t", 4), AclOperation.ALTER, 1),
    ],
)
async def test_what_is_refused_as_a_whole_is_not_passed_on(
    request_: Any, operation: AclOperation, version: int, cluster: ForwardingCluster
) -> None:
    broker = cluster.broker(OTHER)
    denied = [(operation, each) for each in (CLUSTER, AclResource(AclResourceType.TOPIC, "t"))]
    broker.apis = KafkaApis(broker.apis_by_key, services_without(broker.services, *denied))
    cluster.faults.append(cut)

    answer = await broker.ask(request_, version)

    (refused,) = codes_in(answer) - {0}
    assert refused == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert cluster.asked == []


async def test_the_controller_itself_asks_nobody(cluster: ForwardingCluster) -> None:
    await cluster.broker(0).ask(create(), 7)

    assert cluster.asked == []


async def test_the_answer_waits_until_the_broker_has_heard_of_the_topic(
    cluster: ForwardingCluster,
) -> None:
    broker = cluster.broker(OTHER)
    broker.is_reachable = False
    asking = asyncio.create_task(broker.ask(create(), 7))
    await asyncio.sleep(1)
    assert not asking.done()

    broker.is_reachable = True
    answer = await asking

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert broker.metadata.is_led("t", 2)


async def test_the_answer_does_not_wait_for_ever(
    cluster: ForwardingCluster, seconds: Callable[[], float]
) -> None:
    cluster.broker(OTHER).is_reachable = False
    answer = await cluster.broker(OTHER).ask(create(), 7)

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert SHOWN_TIMEOUT_MS / 1000 <= seconds() < SHOWN_TIMEOUT_MS / 1000 + 1


async def test_only_asking_whether_it_could_be_done_waits_for_nothing(
    cluster: ForwardingCluster, seconds: Callable[[], float]
) -> None:
    answer = await cluster.broker(OTHER).ask(create(validate_only=True), 7)

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert seconds() < 1


async def test_without_a_controller_the_answer_is_not_controller_when_the_time_is_up(
    cluster: ForwardingCluster, seconds: Callable[[], float]
) -> None:
    broker = cluster.broker(OTHER)
    broker.metadata.broker = lambda _: None  # type: ignore[method-assign]

    answer = await broker.ask(create(timeout_ms=3_000), 7)

    assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert cluster.asked == []
    assert 2.8 <= seconds() <= 3.1


async def test_a_controller_that_cannot_be_reached_is_asked_again(
    cluster: ForwardingCluster, seconds: Callable[[], float]
) -> None:
    cluster.faults.extend([cut, cut, cut, cut])

    answer = await cluster.broker(OTHER).ask(create(), 7)

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert seconds() < 1


async def test_an_answer_that_never_comes_is_a_time_out(
    cluster: ForwardingCluster, seconds: Callable[[], float]
) -> None:
    cluster.faults.append(hang)

    answer = await cluster.broker(OTHER).ask(create(timeout_ms=3_000), 7)

    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert 3 <= seconds() <= 4.5


async def test_a_request_without_a_time_of_its_own_is_given_some(
    cluster: ForwardingCluster,
) -> None:
    answer = await cluster.broker(OTHER).ask(create(timeout_ms=-1), 7)

    assert answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)


async def test_a_controller_that_hangs_is_left_for_its_successor(
    cluster: ForwardingCluster, seconds: Callable[[], float]
) -> None:
    cluster.faults.append(hang)
    asking = asyncio.create_task(cluster.broker(OTHER).ask(create(timeout_ms=30_000), 7))
    await asyncio.sleep(1)

    cluster.brokers[0].kill()
    answer = await asking

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert cluster.controller.broker_id in (1, 2)
    assert seconds() < 3


async def test_a_broker_that_becomes_controller_answers_itself() -> None:
    async with running(ForwardingCluster(), brokers=2) as cluster:
        cluster.faults.append(hang)
        asking = asyncio.create_task(cluster.broker(OTHER).ask(create(), 7))
        await asyncio.sleep(1)

        cluster.brokers[0].kill()
        answer = await asking

        assert cluster.controller.broker_id == OTHER
        assert answer.topics[0].error_code == ErrorCode.NONE


async def test_a_controller_whose_tree_cannot_be_reached_is_asked_until_it_can(
    cluster: ForwardingCluster,
) -> None:
    cluster.brokers[0].session.suspend()
    asking = asyncio.create_task(cluster.broker(OTHER).ask(create(), 7))
    await asyncio.sleep(1)
    assert len(cluster.asked) > 5

    cluster.brokers[0].session.resume()

    assert (await asking).topics[0].error_code == ErrorCode.NONE


async def test_a_controller_of_apache_kafka_is_sent_the_request_itself(
    cluster: ForwardingCluster,
) -> None:
    cluster.api_versions_highest = 4

    answer = await cluster.broker(OTHER).ask(create(), 4)

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert cluster.asked == [DIRECT]


async def test_an_apache_controller_that_is_replaced_is_left_for_its_successor(
    cluster: ForwardingCluster,
) -> None:
    cluster.api_versions_highest = 4
    cluster.brokers[0].session.suspend()  # it answers NOT_CONTROLLER
    asking = asyncio.create_task(cluster.broker(OTHER).ask(create(), 4))
    await asyncio.sleep(1)

    cluster.brokers[0].kill()

    assert (await asking).topics[0].error_code == ErrorCode.NONE


async def test_what_was_done_before_the_answer_was_lost_is_left_open(
    cluster: ForwardingCluster,
) -> None:
    cluster.faults.append(afterwards(cut))

    answer = await cluster.broker(OTHER).ask(create(), 7)

    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_what_another_client_did_is_a_refusal_after_attempts_that_did_nothing(
    cluster: ForwardingCluster,
) -> None:
    await cluster.broker(0).ask(create(), 7)
    cluster.brokers[0].session.suspend()
    asking = asyncio.create_task(cluster.broker(OTHER).ask(create(), 7))
    await asyncio.sleep(1)
    cluster.brokers[0].session.resume()

    assert (await asking).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_many_requests_at_once_share_few_connections(cluster: ForwardingCluster) -> None:
    broker = cluster.broker(OTHER)

    answers = await asyncio.gather(
        *(broker.ask(create(f"t{number}", 1), 7) for number in range(50))
    )

    assert {answer.topics[0].error_code for answer in answers} == {ErrorCode.NONE}
    assert 1 <= broker.opened <= 8


async def test_the_client_is_known_to_the_controller(cluster: ForwardingCluster) -> None:
    seen = []
    controller = cluster.broker(0)
    api = controller.apis_by_key[19]

    async def spy(ctx: Any, request: Any) -> Any:
        seen.append((ctx.connection.principal, ctx.connection.peer_host, ctx.client_id))
        return await api.handler(ctx, request)

    controller.apis_by_key[19] = replace(api, handler=spy)
    client = replace(local_connection(), principal="User:al:ice", peer_host="2001:db8::7")
    await cluster.broker(OTHER).ask(create(), 7, client)

    assert seen == [("User:al:ice", "2001:db8::7", "client")]
