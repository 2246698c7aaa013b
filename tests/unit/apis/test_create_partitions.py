"""CreatePartitions as a handler."""

from __future__ import annotations

import pytest

from kbroker.apis.create_partitions import handle
from kbroker.apis.create_topics import handle as handle_create
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.turns import ENTRIES
from tests.fakes.requests.admin_context import AdminClient


def request(*wanted: tuple[str, int]) -> CreatePartitionsRequest:
    topics = [
        CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name, count in wanted
    ]
    return CreatePartitionsRequest(topics=topics, timeout_ms=1000)


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_grows_in_every_version(version: int, client: AdminClient) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="T", num_partitions=1, replication_factor=1)
    await client.ask(handle_create, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    good = (await client.ask(handle, request(("T", 3)), version)).results[0]
    again = (await client.ask(handle, request(("T", 3)), version)).results[0]
    assert (good.error_code, good.error_message) == (0, None)
    assert (again.error_code, again.error_message) == (37, "Topic already has 3 partitions.")
    assert client.broker.metadata.partition_count("T") == 3


async def test_a_topic_named_twice_is_refused(client: AdminClient) -> None:
    (result,) = (await client.ask(handle, request(("T", 3), ("T", 4)), 1)).results
    assert (result.error_code, result.error_message) == (42, "Duplicate topic in request.")


async def test_others_are_answered_while_many_topics_are_looked_for(client: AdminClient) -> None:
    names = [f"none-{number}" for number in range(8 * ENTRIES)]

    response, turns = await client.counting_turns(
        handle, request(*((name, 2) for name in names)), 1
    )

    assert [(r.name, r.error_code) for r in response.results] == [(name, 3) for name in names]
    assert turns >= 10 * 8  # with a look into the tree for each


@pytest.mark.parametrize("brokers", [2])
async def test_a_broker_that_is_not_controller_says_so(client: AdminClient) -> None:
    other = AdminClient(client.broker.cluster.brokers[1])
    (result,) = (await other.ask(handle, request(("T", 3)), 1)).results
    assert result.error_code == ErrorCode.NOT_CONTROLLER
