"""DeleteTopics as a handler: names, ids, and the switch."""

from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.apis.create_topics import handle as handle_create
from kbroker.apis.delete_topics import handle
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.turns import ENTRIES
from tests.fakes.requests.admin_context import AdminClient


async def create(client: AdminClient, name: str) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    await client.ask(handle_create, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)


def by_id(topic_id: UUID, name: str | None = None) -> DeleteTopicsRequest:
    state = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)
    return DeleteTopicsRequest(topics=[state], timeout_ms=1000)


@pytest.mark.parametrize("version", range(6))
async def test_a_topic_is_deleted_by_name(version: int, client: AdminClient) -> None:
    await create(client, "T")
    request = DeleteTopicsRequest(topic_names=["T", "no-such"], timeout_ms=1000)
    response = await client.ask(handle, request, version)
    assert [r.error_code for r in response.responses] == [0, 3]
    assert not client.broker.metadata.contains_topic("T")


async def test_a_topic_is_deleted_by_id_and_the_answer_has_its_name(client: AdminClient) -> None:
    await create(client, "T")
    topic_id = client.broker.metadata.topic_id("T")
    (deleted,) = (await client.ask(handle, by_id(topic_id), 6)).responses
    (unknown,) = (await client.ask(handle, by_id(UUID(int=5)), 6)).responses
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, "T", topic_id)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


async def test_neither_name_nor_id_is_refused_beside_others(client: AdminClient) -> None:
    await create(client, "T")
    request = by_id(UUID(int=0))
    request.topics.append(DeleteTopicsRequest.DeleteTopicState(name="T"))
    nothing, deleted = (await client.ask(handle, request, 6)).responses
    assert (nothing.error_code, nothing.name) == (ErrorCode.INVALID_REQUEST, None)
    assert nothing.error_message == "Neither topic name nor id were specified."
    assert (deleted.error_code, deleted.name) == (0, "T")


async def test_name_and_id_together_are_refused(client: AdminClient) -> None:
    with pytest.raises(KafkaError) as refusal:
        await client.ask(handle, by_id(UUID(int=5), "T"), 6)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("named", ["TI", "IT", "TTI", "ITI"], ids="by {}".format)
async def test_a_topic_by_its_name_and_by_its_id_stays(named: str, client: AdminClient) -> None:
    await create(client, "T")
    await create(client, "other")
    topic_id = client.broker.metadata.topic_id("T")
    by = {"T": DeleteTopicsRequest.DeleteTopicState(name="T"), "I": by_id(topic_id).topics[0]}
    request = by_id(UUID(int=0), "other")
    request.topics += [by[each] for each in named]

    answers = (await client.ask(handle, request, 6)).responses

    assert [(r.name, r.error_code) for r in answers] == [
        ("other", 0),
        ("T", ErrorCode.INVALID_REQUEST),
    ]
    assert answers[1].topic_id == topic_id
    assert answers[1].error_message == "The topic is named both by name and by id."
    assert client.broker.metadata.contains_topic("T")
    assert not client.broker.metadata.contains_topic("other")


@pytest.mark.parametrize("named", ["TT", "II"])
async def test_a_topic_named_twice_in_one_way_is_deleted(named: str, client: AdminClient) -> None:
    await create(client, "T")
    topic_id = client.broker.metadata.topic_id("T")
    by = {"T": DeleteTopicsRequest.DeleteTopicState(name="T"), "I": by_id(topic_id).topics[0]}
    request = DeleteTopicsRequest(topics=[by[each] for each in named], timeout_ms=1000)

    answers = (await client.ask(handle, request, 6)).responses

    assert [(r.name, r.topic_id, r.error_code) for r in answers] == [("T", topic_id, 0)] * 2


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)],
)
@pytest.mark.parametrize(
    "config", [KafkaConfig.for_profile("dev", {"delete.topic.enable": "false"})]
)
async def test_with_deletion_switched_off_nothing_goes(
    version: int, code: ErrorCode, client: AdminClient
) -> None:
    await create(client, "T")
    request = DeleteTopicsRequest(topic_names=["T"], timeout_ms=1000)
    response = await client.ask(handle, request, version)
    assert [r.error_code for r in response.responses] == [code]
    assert client.broker.metadata.contains_topic("T")


@pytest.mark.parametrize("brokers", [2])
async def test_a_broker_that_is_not_controller_says_so(client: AdminClient) -> None:
    other = AdminClient(client.broker.cluster.brokers[1])
    request = DeleteTopicsRequest(topic_names=["T"], timeout_ms=1000)
    response = await other.ask(handle, request, 5)
    assert [r.error_code for r in response.responses] == [ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize("version", [5, 6])
async def test_others_are_answered_while_many_topics_are_looked_for(
    version: int, client: AdminClient
) -> None:
    await create(client, "T")
    names = ["T", *(f"none-{number}" for number in range(1, 8 * ENTRIES))]
    request = DeleteTopicsRequest(
        topic_names=names,
        topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in names],
        timeout_ms=1000,
    )

    response, turns = await client.counting_turns(handle, request, version)

    assert [(r.name, r.error_code) for r in response.responses] == [
        (name, 0 if name == "T" else 3) for name in names
    ]
    assert turns >= 4 * 8  # sorted, their ids, looked for, their codes
