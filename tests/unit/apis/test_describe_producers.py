from __future__ import annotations

from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis import describe_producers
from kbroker.errors import ErrorCode
from kbroker.log.producers.producer_state import ProducerStateEntry, ProducerStateManager
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest
from kbroker.record.record_batch import TRANSACTIONAL_BIT, ControlRecord, read_header
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.denying_authorizer import ask, services_without

pytestmark = pytest.mark.usefixtures("small_or_large")

NOT_HOSTED = "This server does not host this topic-partition."


def request(**topics: list[int]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    )


def outcomes(answer: Any) -> list[tuple[str, int, int, str | None]]:
    return [
        (topic.name, each.partition_index, each.error_code, each.error_message)
        for topic in answer.topics
        for each in topic.partitions
    ]


def with_producers(cluster: ReplicationCluster, topic: str = "t", **hosting: Any) -> None:
    """Producer 5 has a transaction open at offset 7, producer 6 has ended its one."""
    partition = cluster.lead(topic, **hosting)
    producers = ProducerStateManager(TopicPartition(topic, 0))
    for producer_id, offset in ((5, 7), (6, 9)):
        view = batch(
            b"v",
            flags=TRANSACTIONAL_BIT,
            producer_id=producer_id,
            producer_epoch=2,
            base_sequence=30,
        )
        producers.update(read_header(view), offset, offset, 1_000 + offset)
    producers.end_transaction(read_header(view), ControlRecord(True, 4), 10, 2_000)
    partition.log.producer_state = producers  # type: ignore[misc]


def test_each_producer_is_told_with_what_it_has_open(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    with_producers(cluster)

    answer = call(describe_producers.handle, request(t=[0]), 0)

    (partition,) = answer.topics[0].partitions
    fields = (
        "producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch",
        "current_txn_start_offset",
    )  # fmt: skip
    assert (partition.error_code, partition.error_message) == (0, None)
    assert [
        tuple(getattr(each, name) for name in fields) for each in partition.active_producers
    ] == [
        (5, 2, 30, 1_007, -1, 7),
        (6, 2, 30, 2_000, 4, -1),
    ]


def test_a_follower_answers_too(cluster: ReplicationCluster, call: ApiCaller) -> None:
    with_producers(cluster, leader=1, isr=(0, 1), replicas=(0, 1))

    answer = call(describe_producers.handle, request(t=[0]), 0)

    assert len(answer.topics[0].partitions[0].active_producers) == 2


def test_what_is_not_here_is_refused_by_itself(
    cluster: ReplicationCluster, call: ApiCaller
) -> None:
    with_producers(cluster)
    cluster.hear_of("elsewhere", 0, leader=1, isr=(1,), replicas=(1,))

    answer = call(
        describe_producers.handle,
        request(**{"t": [9, 0, -1], "elsewhere": [0], "none": [0, 3], "a b": [0]}),
        0,
    )

    fault = "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    assert outcomes(answer) == [
        ("t", 9, 3, None),
        ("t", 0, 0, None),
        ("t", -1, 3, None),
        ("elsewhere", 0, 6, None),
        ("none", 0, 3, NOT_HOSTED),
        ("none", 3, 3, NOT_HOSTED),
        ("a b", 0, 17, f"Topic name is invalid: {fault}"),
    ]


def test_a_partition_is_answered_once(cluster: ReplicationCluster, call: ApiCaller) -> None:
    with_producers(cluster)
    twice = request(t=[0, 0])
    twice.topics += request(t=[0]).topics

    answer = call(describe_producers.handle, twice, 0)

    found = [each for topic in answer.topics for each in topic.partitions]
    assert [each.error_code for each in found] == [0, *[ErrorCode.INVALID_REQUEST] * 2]
    assert [len(each.active_producers) for each in found] == [2, 0, 0]


def test_many_producers_do_not_hold_up_others(cluster: ReplicationCluster, call: ApiCaller) -> None:
    with_producers(cluster)
    producers = cluster.replicas.hosted.get(TopicPartition("t", 0)).log.producer_state.producers
    producers.update((number, ProducerStateEntry(number)) for number in range(100, 1_100))

    answer = cluster.loop.create_task(call.start(describe_producers.handle, request(t=[0]), 0))
    cluster.run_callbacks()

    assert not answer.done()
    (partition,) = cluster.loop.run_until_complete(answer).topics[0].partitions
    assert len(partition.active_producers) == 1_002


def test_many_topics_do_not_hold_up_others(cluster: ReplicationCluster, call: ApiCaller) -> None:
    again = request(t=[0])
    again.topics *= 1_000

    answer = cluster.loop.create_task(call.start(describe_producers.handle, again, 0))
    cluster.run_callbacks()

    assert not answer.done()
    assert len(cluster.loop.run_until_complete(answer).topics) == 1_000


@pytest.mark.parametrize(
    ("topic", "code", "text"),
    [
        ("t", 29, "Topic authorization failed."),
        ("none", 29, "Topic authorization failed."),
        ("..", 17, "Topic name is invalid: '..' is not allowed"),
    ],
)
def test_who_may_not_read_a_topic_does_not_learn_whether_it_exists(
    topic: str, code: int, text: str, cluster: ReplicationCluster, call: ApiCaller
) -> None:
    with_producers(cluster)
    services = services_without(
        call.services, (AclOperation.READ, AclResource(AclResourceType.TOPIC, topic))
    )

    asked = ask(services, request(**{topic: [0]}), 0)

    answer = cluster.loop.run_until_complete(asked)
    assert outcomes(answer) == [(topic, 0, code, text)]
