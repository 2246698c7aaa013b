"""Look-ups that make a broker open stored batches or give large answers: offsets by time, records
for consumers of old formats, committed offsets, settings.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import raw_client
from benchmarks.neighbour_batches import LARGE, RECORDS, Row, tiny_batch
from benchmarks.processes import RunningBroker
from kbroker.protocol import codec
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_TOPIC = "stored"
_BATCHES = 5
_LARGEST_TIMESTAMP = -3
_LAST_RECORD_BYTES = 4 << 20
_OLD_FETCH = 2  # the last version with message format 1
_GROUPS = 50
_COMMITS = 1_000  # of each group
_TOPICS = 1_000


def by_time(timestamp_of: Callable[[int], int]) -> Callable[[RunningBroker], Iterator[int]]:
    """ListOffsets by time in a log of five zstd batches; `timestamp_of` is given the last time."""

    def neighbour(broker: RunningBroker) -> Iterator[int]:
        batch = tiny_batch("zstd", step_ms=1)
        client = _stored(broker, batch)
        (last_ms,) = struct.unpack_from(">q", batch, 35)  # max timestamp of the header
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=_TOPIC,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsPartition(timestamp=timestamp_of(last_ms))
                    ],
                )
            ],
        )
        yield 0
        while True:
            answer: Any = client.call(request, 2, 7, ListOffsetsResponse)
            if answer.topics[0].partitions[0].offset < 0:
                raise RuntimeError("no offset was found")
            yield 1

    return neighbour


def old_fetch(broker: RunningBroker) -> Iterator[int]:
    """The stored batch for a consumer that knows format 1."""
    client = _stored(broker, tiny_batch("lz4"))
    frame = raw_client.fetch_frame(_TOPIC, 0, 0, _LAST_RECORD_BYTES, _OLD_FETCH)
    yield 0
    while True:
        client.send(frame)
        answer: Any = codec.decode(FetchResponse, _OLD_FETCH, bytes(client.receive()), 4)[0]
        found = answer.responses[0].partitions[0]
        if found.error_code or not found.records:
            raise RuntimeError(f"fetch answered error {found.error_code} or nothing")
        yield RECORDS


def committed_offsets(broker: RunningBroker) -> Iterator[int]:
    """OffsetFetch of 50 groups with 1,000 partitions each."""
    raw_client.create_topic(broker.address, _TOPIC, _COMMITS)
    client = raw_client.RawClient(broker.address)
    names = [f"group-{number}" for number in range(_GROUPS)]
    for name in names:
        _commit(client, name)
    asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=n, topics=None) for n in names]
    frame = raw_client.frame_of(OffsetFetchRequest(groups=asked), 9, 8)
    client.send(frame)
    answer: Any = codec.decode(OffsetFetchResponse, 8, bytes(client.receive()), 5)[0]
    found = sum(len(topic.partitions) for group in answer.groups for topic in group.topics)
    if found != _GROUPS * _COMMITS:
        raise RuntimeError(f"{found} offsets were found")
    yield 0
    while True:
        client.send(frame)
        client.receive()
        yield found


def settings_of_topics(broker: RunningBroker) -> Iterator[int]:
    """DescribeConfigs of 1,000 topics."""
    names = [f"topic-{number}" for number in range(_TOPICS)]
    raw_client.create_topics(broker.address, names)
    client = raw_client.RawClient(broker.address)
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=2, resource_name=name, configuration_keys=None
            )
            for name in names
        ],
        include_synonyms=True,
    )
    answer: Any = client.call(request, 32, 4, DescribeConfigsResponse)
    if any(result.error_code for result in answer.results):
        raise RuntimeError("a topic was refused")
    frame = raw_client.frame_of(request, 32, 4)
    yield 0
    while True:
        client.send(frame)
        client.receive()
        yield _TOPICS


def _stored(broker: RunningBroker, batch: bytes) -> raw_client.RawClient:
    raw_client.create_topics(broker.address, [_TOPIC], settings=LARGE)
    client = raw_client.RawClient(broker.address)
    for _ in range(_BATCHES):
        client.send(raw_client.produce_frame(_TOPIC, batch, acks=1))
        raw_client.produced(client.receive())
    return client


def _commit(client: raw_client.RawClient, group_id: str) -> None:
    """Commit an offset of every partition once the coordinator is there."""
    wanted = FindCoordinatorRequest(coordinator_keys=[group_id])
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=_TOPIC,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=number
                    )
                    for number in range(_COMMITS)
                ],
            )
        ],
    )
    while True:
        found: Any = client.call(wanted, 10, 4, FindCoordinatorResponse)
        if found.coordinators[0].error_code:
            continue
        answer: Any = client.call(request, 8, 8, OffsetCommitResponse)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if codes == {0}:
            return
        if not codes <= {14, 15, 16}:  # the coordinator has not loaded yet
            raise RuntimeError(f"commit answered errors {codes}")


ROWS = [
    Row("down-conversion for an old consumer", old_fetch, "records"),
    Row("offsets by time, zstd", by_time(lambda last_ms: last_ms), "lookups"),
    Row("offset of the largest time, zstd", by_time(lambda _: _LARGEST_TIMESTAMP), "lookups"),
    Row("50,000 committed offsets", committed_offsets, "offsets"),
    Row("settings of 1,000 topics", settings_of_topics, "topics"),
]
