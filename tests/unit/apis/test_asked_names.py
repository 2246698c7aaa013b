"""Names in requests: those of topics, groups and transactions are found, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any
from uuid import UUID

import pytest

from kbroker.apis.asked_names import LOOKED_AT_MAX, AskedNames
from kbroker.apis.registry import registered
from kbroker.model import TopicPartition
from kbroker.protocol.declaration import FieldSpec, Struct, field_specs
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import request_class
from kbroker.tracing.trace_entry import FEW, AskedFor
from kbroker.wording import unnamed_topic

SECRET = "s3cr3t"
TOPIC_ID = UUID(int=7)
NAMES = {
    "name", "topic", "topic_name", "topic_names", "subscribed_topic_names", "resource_name",
    "group_id", "groups", "groups_names", "key", "coordinator_keys",
    "transactional_id", "transactional_ids", "v3_and_below_transactional_id",
}  # fmt: skip


def names_in(*requests: Struct) -> AskedFor:
    names = AskedNames(lambda topic_id: "by-id" if topic_id == TOPIC_ID else None)
    for request in requests:
        names.add(request)
    return names.asked_for()


def produce(topics: int = 1, partitions: int = 1, **more: Any) -> ProduceRequest:
    return ProduceRequest(
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=f"t{topic}",
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=index, records=SECRET.encode())
                    for index in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
        **more,
    )


def filled(struct: type[Struct]) -> Struct:
    """A struct with one entry in each array, and a secret wherever no name stands."""
    values: dict[str, Any] = {}
    for field in field_specs(struct):
        value = filled(field.struct) if field.struct is not None else value_of(field)
        values[field.name] = [value] if field.is_array else value
    return struct(**values)


def value_of(field: FieldSpec) -> Any:
    if field.type_name == "string":
        return f"the-{field.name}" if field.name in NAMES else SECRET
    by_type = {"uuid": TOPIC_ID, "bool": False, "float64": 0.0}
    if field.type_name in ("bytes", "records"):
        return SECRET.encode()
    return by_type.get(field.type_name, 2 if field.name == "resource_type" else 0)


@pytest.mark.parametrize("key", registered())
def test_nothing_but_names_is_taken_from_any_request(key: int) -> None:
    request = request_class(key)
    assert request is not None

    assert SECRET not in json.dumps(asdict(names_in(filled(request))))


def test_topics_partitions_and_the_transaction_of_a_produce_request_are_named() -> None:
    assert names_in(produce(2, 2, transactional_id="x")) == AskedFor(
        topics=("t0", "t1"),
        topic_count=2,
        partitions=("t0-0", "t0-1", "t1-0", "t1-1"),
        partition_count=4,
        transactional_ids=("x",),
    )


def test_parts_of_a_request_count_together() -> None:
    found = names_in(produce(1, 300), produce(1, 300))

    assert (found.topic_count, found.partition_count, len(found.partitions)) == (1, 600, FEW)


def test_a_large_request_is_looked_at_within_bounds() -> None:
    found = names_in(produce(2 * LOOKED_AT_MAX))

    assert (found.topic_count, len(found.topics)) == (LOOKED_AT_MAX, FEW)


def test_topics_by_id_have_their_names_or_their_ids() -> None:
    topics = [
        FetchRequest.FetchTopic(topic_id=topic_id, partitions=[FetchRequest.FetchPartition()])
        for topic_id in (TOPIC_ID, UUID(int=8))
    ]
    names = AskedNames(lambda topic_id: "by-id" if topic_id == TOPIC_ID else None)
    names.add(FetchRequest(topics=topics))

    assert names.asked_for().topics == ("by-id", "unknown topic id AAAAAAAAAAAAAAAAAAAACA")
    assert names.by_id == {unnamed_topic(TOPIC_ID): "by-id"}


def test_the_partitions_of_a_session_stand_beside_those_that_its_request_names() -> None:
    names = AskedNames(lambda _topic_id: None)
    wanted = [FetchRequest.FetchPartition(partition=1)]
    names.add(FetchRequest(topics=[FetchRequest.FetchTopic(topic="t", partitions=wanted)]))
    names.add_partitions([TopicPartition("t", 1), TopicPartition("u", 0)], 2)

    found = names.asked_for()
    assert (found.topics, found.partitions) == (("t", "u"), ("t-1", "u-0"))
    assert found.partition_count == 2


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (HeartbeatRequest(group_id="g", member_id="m"), AskedFor(groups=("g",))),
        (
            JoinGroupRequest(
                group_id="g",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
            ),
            AskedFor(groups=("g",)),
        ),
        (FindCoordinatorRequest(key="g"), AskedFor(groups=("g",))),
        (
            FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]),
            AskedFor(transactional_ids=("x",)),
        ),
        (FindCoordinatorRequest(key_type=2, key="share"), AskedFor()),
        (MetadataRequest(topics=None), AskedFor()),
        (DeleteTopicsRequest(topic_names=["t"]), AskedFor(topics=("t",), topic_count=1)),
    ],
)
def test_other_requests_name_what_they_are_about(request_: Struct, found: AskedFor) -> None:
    assert names_in(request_) == found


def test_settings_of_topics_name_the_topic_and_those_of_brokers_nothing() -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind, resource_name=name
            )
            for kind, name in ((2, "t"), (4, "0"))
        ]
    )
    assert names_in(request) == AskedFor(topics=("t",), topic_count=1)
