from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.apis.metadata import handle
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.turns import ENTRIES
from tests.fakes.clusters.replication_cluster import topic_id_of, update_metadata
from tests.fakes.requests.api_context import ApiCaller, connection
from tests.fakes.requests.received_answers import received
from tests.fakes.running.loop_turns import counting_turns

pytestmark = pytest.mark.usefixtures("small_or_large")

Topic = MetadataRequest.MetadataRequestTopic


def ask(*names, create=False, **values) -> MetadataRequest:
    return MetadataRequest(
        topics=[Topic(name=name) for name in names], allow_auto_topic_creation=create, **values
    )


def topics(response):
    return [(topic.error_code, topic.name) for topic in response.topics]


def test_a_missing_topic_is_created_and_usable_at_once(call):
    response = call(handle, ask("t", create=True), 8)

    assert topics(response) == [(0, "t")]
    assert response.topics[0].partitions[0].leader_id == 0
    assert call.topics.asked == ["t"]


def test_a_topic_that_takes_longer_to_create_makes_the_client_ask_again(call):
    call.topics.create = lambda name: None

    assert topics(call(handle, ask("t", create=True), 8)) == [(ErrorCode.LEADER_NOT_AVAILABLE, "t")]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR]
)
def test_a_topic_that_cannot_be_created_is_answered_with_the_reason(call, code, version):
    call.topics.refusals["a_b"] = code

    assert topics(call(handle, ask("a_b", "t", create=True), version)) == [(code, "a_b"), (0, "t")]


def test_a_client_may_forbid_creation(call):
    assert topics(call(handle, ask("t"), 8)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")]
    assert call.topics.asked == []


def test_the_broker_may_forbid_creation(cluster):
    call = ApiCaller(cluster, auto_create=False)

    response = call(handle, ask("t", create=True), 8)

    assert topics(response) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")]
    assert call.topics.asked == []


@pytest.mark.parametrize("name", ["bad name!", "", ".", "..", "a" * 250, "a/b", "a\n"])
@pytest.mark.parametrize("create", [True, False])
def test_an_invalid_name_is_refused(call, name, create):
    response = call(handle, ask(name, create=create), 8)

    assert topics(response) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, name)]
    assert call.topics.asked == []


def test_an_unknown_topic_id_is_told_by_id(call):
    topic_id = UUID(int=77)

    response = call(handle, MetadataRequest(topics=[Topic(topic_id=topic_id, name=None)]), 12)

    assert topics(response) == [(ErrorCode.UNKNOWN_TOPIC_ID, None)]
    assert response.topics[0].topic_id == topic_id


def test_a_topic_is_found_by_id(cluster, call):
    cluster.lead("t")

    response = call(
        handle, MetadataRequest(topics=[Topic(topic_id=topic_id_of("t"), name=None)]), 12
    )

    assert topics(response) == [(0, "t")]


def test_neither_id_nor_name_gets_kafkas_answer(call):
    response = call(handle, MetadataRequest(topics=[Topic(topic_id=ZERO_UUID, name=None)]), 12)

    assert topics(response) == [(ErrorCode.UNKNOWN_SERVER_ERROR, "")]


@pytest.mark.parametrize("topic", [Topic(name=None), Topic(name="t", topic_id=UUID(int=7))])
@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_have_no_topic_ids(call, version, topic):
    with pytest.raises(KafkaError) as refused:
        call(handle, MetadataRequest(topics=[topic]), version)

    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "asked", "expected"),
    [(0, [], ["t"]), (1, [], []), (1, None, ["t"]), (12, None, ["t"])],
)
def test_all_topics_are_asked_for_in_two_ways(cluster, call, version, asked, expected):
    cluster.lead("t")

    response = call(handle, MetadataRequest(topics=asked), version)

    assert [topic.name for topic in response.topics] == expected


def test_a_topic_named_twice_is_told_once(cluster, call):
    cluster.lead("t")

    assert topics(call(handle, ask("t", "t"), 8)) == [(0, "t")]


@pytest.mark.parametrize(
    ("asked", "topic_bits", "cluster_bits"), [(False, -(2**31), -(2**31)), (True, 3576, 8096)]
)
def test_authorized_operations_are_told_when_asked_for(
    cluster, call, asked, topic_bits, cluster_bits
):
    cluster.lead("t")
    request = ask(
        "t", include_topic_authorized_operations=asked, include_cluster_authorized_operations=asked
    )

    response = call(handle, request, 8)

    assert response.topics[0].topic_authorized_operations == topic_bits
    assert response.cluster_authorized_operations == cluster_bits


def test_cluster_controller_and_brokers_are_told(cluster, call):
    cluster.metadata.update(update_metadata(controller_id=2))

    response = call(handle, ask(), 8)

    assert (response.cluster_id, response.controller_id) == ("cluster", 2)
    assert [broker.node_id for broker in response.brokers] == [0, 1, 2]


def test_an_address_that_was_not_configured_is_the_one_the_client_used(cluster):
    cluster.metadata.update(update_metadata(brokers=(0,), host=""))
    call = ApiCaller(cluster, conn=connection(local_host="10.1.2.3"))

    (broker,) = call(handle, ask(), 8).brokers

    assert (broker.host, broker.port) == ("10.1.2.3", 9092)


def test_a_configured_address_wins(cluster):
    cluster.metadata.update(update_metadata(brokers=(0,), host="kafka.example.org"))
    call = ApiCaller(cluster, conn=connection(local_host="10.1.2.3"))

    assert call(handle, ask(), 8).brokers[0].host == "kafka.example.org"


def test_brokers_without_the_listener_are_left_out(cluster):
    call = ApiCaller(cluster, conn=connection(listener_name="OTHER"))

    assert call(handle, ask(), 8).brokers == []


@pytest.mark.parametrize("version", range(14))
def test_every_version_can_be_encoded(cluster, call, version):
    cluster.lead("t")

    assert encode(call(handle, ask("t"), version), version)


def test_names_beside_ids_mean_nothing(cluster, call):
    """As in Kafka: no client mixes them, so no topic is told twice and none is created."""
    cluster.lead("t")
    both = [Topic(name="t"), Topic(name="new"), Topic(name=None, topic_id=topic_id_of("t"))]

    response = call(handle, MetadataRequest(topics=both, allow_auto_topic_creation=True), 12)

    assert topics(response) == [(0, "t")]
    assert call.topics.asked == []


@pytest.mark.parametrize("name", ["missing", "a/b"])
@pytest.mark.parametrize(("asked", "bits"), [(True, 3576), (False, -(2**31))])
def test_authorized_operations_are_told_for_what_is_missing_too(call, name, asked, bits):
    response = call(handle, ask(name, include_topic_authorized_operations=asked), 9)

    assert response.topics[0].topic_authorized_operations == bits


def test_all_topics_of_a_large_cluster_are_described_in_turns(cluster):
    names = [f"many-{number}" for number in range(8 * ENTRIES)]
    for name in names:
        cluster.hear_of(name, 0, leader=0, leader_epoch=0, isr=(0,), replicas=(0,))
    asking = ApiCaller(cluster).start(handle, MetadataRequest(topics=None), 12)

    answer, turns = cluster.loop.run_until_complete(counting_turns(asking))

    assert {topic.name for topic in received(answer, 12).topics} >= set(names)
    assert turns > len(names) // ENTRIES
