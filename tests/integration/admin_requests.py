"""Requests of administration, put together in few words, and what a question to a broker is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.schema import Message

BROKER_ID = 1


KEPT_GROUP = "kept"  # it has offsets of all partitions of `plain` and `dot.ted`, and no members


TOPIC, BROKER, LOGGER = 2, 4, 8


SET, DELETE, APPEND, SUBTRACT = range(4)


INT_MAX, INT_MIN = 2**31 - 1, -(2**31)


LONG_MAX, LONG_MIN = 2**63 - 1, -(2**63)


TIMEOUT_MS = 10_000


Requests = Callable[[str], Sequence[Message]]


@dataclass(frozen=True)
class Question:
    """Requests in their order, given the name of a topic that nobody else uses; the first one's
    class is asked in every version, others in their newest. `makes` says that the topic is there.
    Left out: versions that cannot say "only validated" of a request that does; 3.9.2 would make all.
    """

    name: str
    requests: Requests
    makes: bool = False


BAD_NAMES = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "space": "a b",
    "umlaut": "\u00e4",
    "250 long": "x" * 250,
    "NUL": "a\0b",
    "internal": "__consumer_offsets",
    "colliding": "dot_ted",
}


TIMES = {"0": 0, "-1": -1, "max": INT_MAX, "min": INT_MIN}


def one(name: str, *requests: Callable[[str], Message], makes: bool = False) -> Question:
    return Question(name, lambda t: [request(t) for request in requests], makes)


def create(*topics: CreateTopicsRequest.CreatableTopic, **values: object) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), **{"timeout_ms": TIMEOUT_MS, **values})  # type: ignore[arg-type]


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    settings: Sequence[tuple[str, str | None]] = (),
    assignments: Sequence[tuple[int, list[int]]] = (),
) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in settings
        ],
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments
        ],
    )


def delete(*names: str | None, ids: Sequence[UUID] = (), timeout_ms: int = TIMEOUT_MS) -> Message:
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    states += [DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=i) for i in ids]
    return DeleteTopicsRequest(
        topics=states, topic_names=[n for n in names if n is not None], timeout_ms=timeout_ms
    )


def grow(
    name: str, count: int, assignments: Sequence[list[int]] | None = None, **values: object
) -> CreatePartitionsRequest:
    one = growth(name, count, assignments)
    return CreatePartitionsRequest(topics=[one], **{"timeout_ms": TIMEOUT_MS, **values})  # type: ignore[arg-type]


def growth(
    name: str, count: int, assignments: Sequence[list[int]] | None = None
) -> CreatePartitionsRequest.CreatePartitionsTopic:
    given = None
    if assignments is not None:
        given = [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=a) for a in assignments
        ]
    return CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=given)


def describe(
    *resources: tuple[int, str, list[str] | None],
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def alter(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Message:
    return incremental((kind, name, changes), validate_only=validate_only)


def incremental(
    *resources: tuple[int, str, Sequence[tuple[str, int, str | None]]], validate_only: bool = False
) -> Message:
    kind = IncrementalAlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    kind.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for resource_type, name, changes in resources
        ],
        validate_only=validate_only,
    )


def legacy(
    *resources: tuple[int, str, Sequence[tuple[str, str | None]]], validate_only: bool = False
) -> Message:
    kind = AlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[kind.AlterableConfig(name=key, value=value) for key, value in changes],
            )
            for resource_type, name, changes in resources
        ],
        validate_only=validate_only,
    )


def metadata(*names: str | None, create_missing: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create_missing,
    )


def delete_records(*topics: tuple[str, Sequence[tuple[int, int]]]) -> Message:
    kind = DeleteRecordsRequest
    return kind(
        topics=[
            kind.DeleteRecordsTopic(
                name=name,
                partitions=[
                    kind.DeleteRecordsPartition(partition_index=p, offset=o) for p, o in given
                ],
            )
            for name, given in topics
        ],
        timeout_ms=TIMEOUT_MS,
    )


def commit_offsets(group: str, *topics: tuple[str, int]) -> OffsetCommitRequest:
    """Offset 0 of so many partitions of each topic."""
    kind = OffsetCommitRequest
    return kind(
        group_id=group,
        topics=[
            kind.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    kind.OffsetCommitRequestPartition(partition_index=p) for p in range(count)
                ],
            )
            for name, count in topics
        ],
    )


def elect(kind: int, *topics: tuple[str, Sequence[int]]) -> Message:
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions(topic=name, partitions=list(numbers))
            for name, numbers in topics
        ],
    )
