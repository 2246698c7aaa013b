"""CreateTopics as a handler: every version, and who may be asked."""

from __future__ import annotations

import pytest

from kbroker.apis.create_topics import handle
from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from tests.fakes.requests.admin_context import AdminClient


def request(*names: str) -> CreateTopicsRequest:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


@pytest.mark.parametrize("version", range(8))
async def test_a_topic_is_created_in_every_version(version: int, client: AdminClient) -> None:
    response = await client.ask(handle, request("T", "a b"), version)
    good, bad = response.topics
    assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert client.broker.metadata.partition_count("T") == 2
    assert (good.num_partitions == 2) == (version >= 5)
    assert (len(good.configs or ()) == 36) == (version >= 5)
    assert (good.topic_id != ZERO_UUID) == (version >= 7)


async def test_a_good_topic_has_no_message_and_a_bad_one_has(client: AdminClient) -> None:
    good, bad = (await client.ask(handle, request("T", "."), 5)).topics
    assert good.error_message is None
    assert bad.error_message == "Topic name is invalid: '.' is not allowed"


@pytest.mark.parametrize("brokers", [2])
async def test_a_broker_that_is_not_controller_says_so(client: AdminClient) -> None:
    other = AdminClient(client.broker.cluster.brokers[1])
    response = await other.ask(handle, request("T"), 5)
    assert [t.error_code for t in response.topics] == [ErrorCode.NOT_CONTROLLER]
