"""Metadata and DescribeCluster: missing, invalid and empty names, ids, and what a topic may be used
for.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest

from compat_tests.conftest import BrokerProcess
from compat_tests.wire.wire_client import DESCRIBE_CLUSTER, METADATA, WireClient, code

NOTHING_ASKED = -2147483648


@pytest.mark.row(1)
def test_a_missing_topic_is_created_when_the_client_allows_it(wire: WireClient, topic: str) -> None:
    first = wire.metadata(topic, auto_create=True)
    assert code(first.error_code) in ("0", "3 UNKNOWN_TOPIC_OR_PARTITION", "5 LEADER_NOT_AVAILABLE")

    deadline = time.monotonic() + 5
    while wire.metadata(topic, auto_create=True).error_code != 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    created = wire.metadata(topic)
    assert (code(created.error_code), len(created.partitions)) == ("0", 1)


@pytest.mark.row(2)
def test_a_missing_topic_is_not_created_when_the_client_does_not_allow_it(
    wire: WireClient, topic: str
) -> None:
    assert code(wire.metadata(topic).error_code) == "3 UNKNOWN_TOPIC_OR_PARTITION"
    assert code(wire.metadata(topic).error_code) == "3 UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.row(3)
def test_a_missing_topic_is_not_created_when_the_broker_does_not_allow_it(
    own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = own_broker("--override", "auto.create.topics.enable=false")
    wire = WireClient(broker.bootstrap)
    answers = [code(wire.metadata(topic, auto_create=True).error_code) for _ in range(2)]
    assert answers == ["3 UNKNOWN_TOPIC_OR_PARTITION"] * 2
    wire.close()


@pytest.mark.row(4)
def test_an_invalid_topic_name_is_refused(wire: WireClient) -> None:
    refused = wire.metadata("bad name!", auto_create=True)
    assert code(refused.error_code) == "17 INVALID_TOPIC_EXCEPTION"


@pytest.mark.row(5)
def test_an_empty_topic_name_is_refused(wire: WireClient) -> None:
    assert code(wire.metadata("", auto_create=True).error_code) == "17 INVALID_TOPIC_EXCEPTION"


@pytest.mark.parametrize("version", [1, 4, 9, 12])
def test_a_colliding_name_is_not_created_and_not_to_be_asked_for_again(
    wire: WireClient, topic: str, version: int, only_kbroker: None
) -> None:
    wire.create_topic(f"{topic}.x")

    for _ in range(2):  # 4.3 says 3 for ever, the ZooKeeper line 17 as here
        answer = wire.metadata(f"{topic}_x", version, auto_create=True)
        assert code(answer.error_code) == "17 INVALID_TOPIC_EXCEPTION"


@pytest.mark.row(6)
def test_an_unknown_topic_id_is_answered_without_a_name(wire: WireClient) -> None:
    topics = [{"topic_id": uuid.uuid4(), "name": None}]
    found = wire.call(METADATA, 12, topics=topics).topics[0]
    assert (code(found.error_code), found.name) == ("100 UNKNOWN_TOPIC_ID", None)


@pytest.mark.row(7)
def test_neither_topic_id_nor_name_is_an_error(wire: WireClient) -> None:
    topics = [{"topic_id": uuid.UUID(int=0), "name": None}]
    found = wire.call(METADATA, 12, topics=topics).topics
    assert [(code(t.error_code), t.name) for t in found] == [("-1 UNKNOWN_SERVER_ERROR", "")]


@pytest.mark.row(8)
def test_an_empty_list_asks_for_no_topic_from_version_1_on(wire: WireClient) -> None:
    wire.create_topic()
    assert wire.call(METADATA, 1, topics=[]).topics == ()


@pytest.mark.row(9)
def test_an_empty_list_asks_for_all_topics_in_version_0(wire: WireClient) -> None:
    topic = wire.create_topic()
    assert topic in {found.name for found in wire.call(METADATA, 0, topics=[]).topics}


@pytest.mark.row(10)
def test_a_topic_named_twice_is_answered_once(wire: WireClient) -> None:
    topic = wire.create_topic()
    found = wire.call(METADATA, 8, topics=[{"name": topic}, {"name": topic}]).topics
    assert [t.name for t in found] == [topic]


@pytest.mark.row(11)
def test_operations_that_were_not_asked_for_are_marked_as_not_asked_for(wire: WireClient) -> None:
    topic = wire.create_topic()
    answer = wire.call(METADATA, 10, topics=[{"topic_id": uuid.UUID(int=0), "name": topic}])
    assert answer.cluster_authorized_operations == NOTHING_ASKED
    assert answer.topics[0].topic_authorized_operations == NOTHING_ASKED


@pytest.mark.row(12)
def test_whoever_may_do_everything_sees_every_operation(wire: WireClient) -> None:
    topic = wire.create_topic()
    answer = wire.call(
        METADATA,
        8,
        topics=[{"name": topic}],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert answer.topics[0].topic_authorized_operations == 3576
    assert answer.cluster_authorized_operations == 8096


@pytest.mark.row(225)
def test_controllers_are_not_to_be_had_from_a_broker(wire: WireClient) -> None:
    answer = wire.call(DESCRIBE_CLUSTER, 1, endpoint_type=2)
    assert code(answer.error_code, answer.error_message) == (
        "114 MISMATCHED_ENDPOINT_TYPE (The request was sent to an endpoint of type BROKER, "
        "but we wanted an endpoint of type CONTROLLER)"
    )


def test_the_cluster_describes_the_broker_as_metadata_does(wire: WireClient) -> None:
    described = wire.call(DESCRIBE_CLUSTER, 0)
    metadata = wire.call(METADATA, 8, topics=[])
    assert described.cluster_id == metadata.cluster_id
    assert [(b.broker_id, b.host, b.port) for b in described.brokers] == [
        (b.node_id, b.host, b.port) for b in metadata.brokers
    ]
    assert described.cluster_authorized_operations == NOTHING_ASKED
