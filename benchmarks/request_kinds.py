"""Kinds of requests for the generator: each makes what it needs at a broker, and the frames that are
sent to it again and again.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import raw_client
from benchmarks.generator import Delivery, Traffic, send
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient, batch_of, fetch_frame, frame_of, produce_frame
from kbroker.protocol import codec
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.messages.produce import ProduceResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.protocol.schema import Message

_PRODUCE, _FETCH, _METADATA, _OFFSET_COMMIT, _FIND, _JOIN, _HEARTBEAT, _SYNC, _INIT = (
    0, 1, 3, 8, 10, 11, 12, 14, 22,
)  # fmt: skip
_VERSIONS = {
    _PRODUCE: 9, _FETCH: 12, _METADATA: 9, _OFFSET_COMMIT: 8, _FIND: 3, _JOIN: 7, _HEARTBEAT: 4,
    _SYNC: 4, _INIT: 4,
}  # fmt: skip
_OF_A_TOPIC = 1_000  # partitions: Apache Kafka makes no 10,000 by one request
_PLACES = 1_000  # of a log that are read in turn
_FILLING = 5  # requests in flight
_BUSY = frozenset({14, 15, 16})  # a coordinator that is about to be there
_MEMBER_ID_REQUIRED = 79
_SESSION_MS = 300_000  # the most that kfake takes
_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames for a broker, where the error code of their answers is, and topics that were made."""

    frames: list[bytes]
    error_at: int
    topics: list[str]
    batch_at: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One batch to one partition; all partitions take turns."""

    batch_bytes: int
    record_bytes: int
    acks: int = 1
    partitions: int = 1
    idempotent: bool = False

    def made(self, broker: RunningBroker, most: int) -> Frames:
        """Topics that take the batches; `most` partitions in all."""
        count, batch = min(self.partitions, most), batch_of(self.batch_bytes, self.record_bytes)
        topics = [
            new_topic(broker, min(_OF_A_TOPIC, count - first))
            for first in range(0, count, _OF_A_TOPIC)
        ]
        places = [(topics[each // _OF_A_TOPIC], each % _OF_A_TOPIC) for each in range(count)]
        client = RawClient(broker.address)
        for topic, partition in places:
            raw_client.produce_first(client, produce_frame(topic, batch, 1, partition))
        if self.idempotent:
            batch = batch_of(self.batch_bytes, self.record_bytes, _producer_id(client))
        client.close()
        frames = [produce_frame(topic, batch, self.acks, number) for topic, number in places]
        batch_at = frames[0].index(batch) if self.idempotent else -1
        return Frames(frames, _produce_error_at(topics[0]), topics, batch_at)

    def bare(self) -> tuple[bytes, bytes, int, int]:
        """A request, its answer, and where its batch begins and how long it is."""
        batch = batch_of(self.batch_bytes, self.record_bytes)
        frame = produce_frame("bare-loop", batch, self.acks)
        answer = _answer_of(_produced("bare-loop", 0), _PRODUCE)
        return frame, answer, frame.index(batch), len(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Older data, from places of a log of so many batches that are drawn at random."""

    batch_bytes: int
    record_bytes: int
    batches: int
    answered: int = 1  # batches in an answer

    def made(self, broker: RunningBroker, most: int) -> Frames:
        """A topic with the batches; at most a hundred times `most`."""
        batches = min(self.batches, 100 * most)
        topic, batch = new_topic(broker), batch_of(self.batch_bytes, self.record_bytes)
        records = int.from_bytes(batch[57:61], "big")
        frame = produce_frame(topic, batch, acks=1)
        client = RawClient(broker.address)
        raw_client.produce_first(client, frame)
        client.close()
        filling = Traffic(frames=[frame], in_flight=_FILLING, error_at=_produce_error_at(topic))
        send(broker.address, filling, batches + self.answered)
        drawn = random.Random(1)
        offsets = [drawn.randrange(batches) * records for _ in range(_PLACES)]
        max_bytes = self.answered * len(batch)
        frames = [fetch_frame(topic, offset, 500, max_bytes) for offset in offsets]
        return Frames(frames, _fetch_error_at(topic), [topic])


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A record that is produced while a consumer waits for it, which is the next after the last."""

    record_bytes: int
    per_s: int = 0  # records; 0: the next one when the consumer has the last
    acks: int = -1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A member says that it is alive."""

    def made(self, broker: RunningBroker, most: int) -> Frames:  # noqa: ARG002
        """A group with one member."""
        group = _Group(broker)
        request = HeartbeatRequest(
            group_id=group.name, generation_id=group.generation, member_id=group.member
        )
        place = _place_of_error(lambda code: HeartbeatResponse(error_code=code), _HEARTBEAT)
        return Frames([frame_of(request, _HEARTBEAT, _VERSIONS[_HEARTBEAT])], place, [])


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A member commits the offset of one partition."""

    def made(self, broker: RunningBroker, most: int) -> Frames:  # noqa: ARG002
        """A group with one member, and a topic."""
        group, topic = _Group(broker), new_topic(broker)
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=1_000)
        request = OffsetCommitRequest(
            group_id=group.name,
            generation_id_or_member_epoch=group.generation,
            member_id=group.member,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])
            ],
        )
        result = OffsetCommitResponse.OffsetCommitResponsePartition

        def committed(code: int) -> OffsetCommitResponse:
            of_topic = OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic, partitions=[result(error_code=code)]
            )
            return OffsetCommitResponse(topics=[of_topic])

        frame = frame_of(request, _OFFSET_COMMIT, _VERSIONS[_OFFSET_COMMIT])
        return Frames([frame], _place_of_error(committed, _OFFSET_COMMIT), [topic])


@dataclass(frozen=True, slots=True)
class Metadata:
    """So many topics with one partition each; the request names them, or asks for all that are there."""

    topics: int
    by_name: bool = True

    def made(self, broker: RunningBroker, most: int) -> Frames:
        """Make the topics; `most` of them."""
        names = [_name() for _ in range(min(self.topics, most))]
        raw_client.create_topics(broker.address, names)
        asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked if self.by_name else None)
        frame = frame_of(request, _METADATA, _VERSIONS[_METADATA])
        return Frames([frame], 0, names)  # that all have leaders is known


def delivery_at(address: tuple[str, int], topic: str, record_bytes: int, acks: int) -> Delivery:
    """Requests that go on at the end of partition 0, which is led at `address`."""
    client = RawClient(address)
    frame = produce_frame(topic, batch_of(record_bytes, record_bytes), acks)
    raw_client.produce_first(client, frame)
    client.send(fetch_frame(topic, 0, 0, max_bytes=1))
    answer: Any = codec.decode(FetchResponse, _VERSIONS[_FETCH], bytes(client.receive()), 5)[0]
    end = answer.responses[0].partitions[0].high_watermark
    client.send(fetch_frame(topic, end, 0))
    empty_bytes = 4 + len(client.receive())
    client.close()
    return Delivery(
        produce=frame,
        fetch=fetch_frame(topic, 0, 5_000),
        offset_at=_first_difference(fetch_frame(topic, 0, 5_000), fetch_frame(topic, -1, 5_000)),
        offset=end,
        empty_bytes=empty_bytes,
        batch_bytes=len(batch_of(record_bytes, record_bytes)),
        error_at=_produce_error_at(topic),
        fetch_error_at=_fetch_error_at(topic),
    )


class _Group:
    """A group whose only member has joined, and whose session is long."""

    def __init__(self, broker: RunningBroker) -> None:
        self.name, self.member = _name(), ""
        client = RawClient(broker.address)
        found = FindCoordinatorRequest(key=self.name)
        while _call(client, found, _FIND, FindCoordinatorResponse).error_code:
            continue
        joined = self._join(client)
        if joined.error_code == _MEMBER_ID_REQUIRED:
            self.member = joined.member_id
            joined = self._join(client)
        self.generation, self.member = joined.generation_id, joined.member_id
        mine = SyncGroupRequest.SyncGroupRequestAssignment(member_id=self.member)
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=self.generation,
            member_id=self.member,
            assignments=[mine],
        )
        synced = _call(client, request, _SYNC, SyncGroupResponse)
        client.close()
        if joined.error_code or synced.error_code:
            raise RuntimeError(f"no member: {joined.error_code}, {synced.error_code}")

    def _join(self, client: RawClient) -> Any:
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=self.member,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
        )
        while True:
            answer = _call(client, request, _JOIN, JoinGroupResponse)
            if answer.error_code not in _BUSY:
                return answer


def _call(client: RawClient, request: Message, key: int, answer: type[Message]) -> Any:
    return client.call(request, key, _VERSIONS[key], answer)


def _producer_id(client: RawClient) -> int:
    request = InitProducerIdRequest(transactional_id=None)
    while True:
        answer = _call(client, request, _INIT, InitProducerIdResponse)
        if not answer.error_code:
            return int(answer.producer_id)
        if answer.error_code not in _BUSY:
            raise RuntimeError(f"no producer id: {answer.error_code}")


def _name() -> str:
    return f"load-{next(_names):06}"


def new_topic(broker: RunningBroker, partitions: int = 1) -> str:
    """Create a topic with a name that no other load has."""
    name = _name()
    raw_client.create_topic(broker.address, name, partitions)
    return name


def _produced(topic: str, code: int) -> ProduceResponse:
    partition = ProduceResponse.PartitionProduceResponse(error_code=code)
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(name=topic, partition_responses=[partition])
        ]
    )


def _produce_error_at(topic: str) -> int:
    return _place_of_error(lambda code: _produced(topic, code), _PRODUCE)


def _fetch_error_at(topic: str) -> int:
    def fetched(code: int) -> FetchResponse:
        partition = FetchResponse.PartitionData(error_code=code)
        of_topic = FetchResponse.FetchableTopicResponse(topic=topic, partitions=[partition])
        return FetchResponse(responses=[of_topic])

    return _place_of_error(fetched, _FETCH)


def _place_of_error(answer: Callable[[int], Message], key: int) -> int:
    """Where answers of this kind have their error code; it lies before all that may differ."""
    return _first_difference(_answer_of(answer(0), key), _answer_of(answer(-1), key))


def _answer_of(answer: Message, key: int) -> bytes:
    """Size, header and body of an answer."""
    header = bytes(5 if raw_client.is_flexible(key, _VERSIONS[key]) else 4)
    body = codec.encode(answer, _VERSIONS[key])
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def _first_difference(a: bytes, b: bytes) -> int:
    return next(place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
