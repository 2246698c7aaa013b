"""Kinds of requests for the generator: each makes what it needs at a broker, and the frames that are
sent to it again and again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import raw_client
from benchmarks.answer_places import (
    FETCH,
    HEARTBEAT,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    VERSIONS,
    answer_of,
    fetch_error_at,
    first_difference,
    place_of_error,
    produce_error_at,
    produced_answer,
)
from benchmarks.generator import Delivery, Traffic, send
from benchmarks.preparations import FetchSession, Group, new_name, new_topic, producer_id_from
from benchmarks.processes import RunningBroker
from benchmarks.raw_client import RawClient, batch_of, fetch_frame, frame_of, produce_frame
from kbroker.protocol import codec
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_OF_A_TOPIC = 1_000  # partitions: Apache Kafka makes no 10,000 by one request
_PLACES = 1_000  # of a log that are read in turn
_FILLING = 5  # requests in flight


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames for a broker, where the error code of their answers is, and topics that were made."""

    frames: list[bytes]
    error_at: int
    topics: list[str]
    batch_at: int = -1
    rising_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One batch to one partition; all partitions take turns."""

    batch_bytes: int
    record_bytes: int
    acks: int = 1
    partitions: int = 1
    idempotent: bool = False
    version: int = VERSIONS[PRODUCE]

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
            batch = batch_of(self.batch_bytes, self.record_bytes, producer_id_from(client))
        client.close()
        ids = {topic: raw_client.topic_id_of(broker.address, topic) for topic in topics}
        frames = [
            produce_frame(topic, batch, self.acks, number, self.version, ids[topic])
            for topic, number in places
        ]
        batch_at = frames[0].index(batch) if self.idempotent else -1
        return Frames(frames, produce_error_at(topics[0], self.version), topics, batch_at)

    def bare(self) -> tuple[bytes, bytes, int, int]:
        """A request, its answer, and where its batch begins and how long it is."""
        batch = batch_of(self.batch_bytes, self.record_bytes)
        frame = produce_frame("bare-loop", batch, self.acks, 0, self.version)
        answer = answer_of(produced_answer("bare-loop", 0), PRODUCE, self.version)
        return frame, answer, frame.index(batch), len(batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Older data, from places of a log of so many batches that are drawn at random."""

    batch_bytes: int
    record_bytes: int
    batches: int
    answered: int = 1  # batches in an answer
    in_session: bool = False  # as Java's consumers read

    def made(self, broker: RunningBroker, most: int) -> Frames:
        """A topic with the batches; at most a hundred times `most`."""
        batches = min(self.batches, 100 * most)
        topic, batch = new_topic(broker), batch_of(self.batch_bytes, self.record_bytes)
        records = int.from_bytes(batch[57:61], "big")
        frame = produce_frame(topic, batch, acks=1)
        client = RawClient(broker.address)
        raw_client.produce_first(client, frame)
        client.close()
        filling = Traffic(frames=[frame], in_flight=_FILLING, error_at=produce_error_at(topic))
        send(broker.address, filling, batches + self.answered)
        drawn = random.Random(1)
        offsets = [drawn.randrange(batches) * records for _ in range(_PLACES)]
        max_bytes = self.answered * len(batch)
        if self.in_session:
            session = FetchSession(broker.address, topic)
            frames = [session.frame(offset, 500, max_bytes) for offset in offsets]
            return Frames(frames, session.error_at, [topic], rising_at=session.epoch_at)
        frames = [fetch_frame(topic, offset, 500, max_bytes) for offset in offsets]
        return Frames(frames, fetch_error_at(topic), [topic])


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A record that is produced while a consumer waits for it, which is the next after the last."""

    record_bytes: int
    per_s: int = 0  # records; 0: the next one when the consumer has the last
    acks: int = -1
    in_session: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A member says that it is alive."""

    def made(self, broker: RunningBroker, most: int) -> Frames:  # noqa: ARG002
        """A group with one member."""
        group = Group(broker)
        request = HeartbeatRequest(
            group_id=group.name, generation_id=group.generation, member_id=group.member
        )
        place = place_of_error(lambda code: HeartbeatResponse(error_code=code), HEARTBEAT)
        return Frames([frame_of(request, HEARTBEAT, VERSIONS[HEARTBEAT])], place, [])


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A member commits the offset of one partition."""

    def made(self, broker: RunningBroker, most: int) -> Frames:  # noqa: ARG002
        """A group with one member, and a topic."""
        group, topic = Group(broker), new_topic(broker)
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

        frame = frame_of(request, OFFSET_COMMIT, VERSIONS[OFFSET_COMMIT])
        return Frames([frame], place_of_error(committed, OFFSET_COMMIT), [topic])


@dataclass(frozen=True, slots=True)
class Metadata:
    """So many topics with one partition each; the request names them, or asks for all that are there."""

    topics: int
    by_name: bool = True

    def made(self, broker: RunningBroker, most: int) -> Frames:
        """Make the topics; `most` of them."""
        names = [new_name() for _ in range(min(self.topics, most))]
        raw_client.create_topics(broker.address, names)
        asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked if self.by_name else None)
        frame = frame_of(request, METADATA, VERSIONS[METADATA])
        return Frames([frame], 0, names)  # that all have leaders is known


def delivery_at(
    address: tuple[str, int], topic: str, record_bytes: int, acks: int, *, in_session: bool = False
) -> Delivery:
    """Requests that go on at the end of partition 0, which is led at `address`."""
    batch = batch_of(record_bytes, record_bytes)
    produce = produce_frame(topic, batch, acks)
    client = RawClient(address)
    raw_client.produce_first(client, produce)
    client.send(fetch_frame(topic, 0, 0, max_bytes=1))
    answer: Any = codec.decode(FetchResponse, VERSIONS[FETCH], bytes(client.receive()), 5)[0]
    end = answer.responses[0].partitions[0].high_watermark
    session = FetchSession(address, topic) if in_session else None
    fetch = session.frame if session else partial(fetch_frame, topic)
    client.send(fetch(end, 0))
    empty_bytes = 4 + len(client.receive())
    client.close()
    return Delivery(
        produce=produce,
        fetch=fetch(0, 5_000),
        offset_at=first_difference(fetch(0, 5_000), fetch(-1, 5_000)),
        offset=end,
        empty_bytes=empty_bytes,
        batch_bytes=len(batch),
        error_at=produce_error_at(topic),
        fetch_error_at=session.error_at if session else fetch_error_at(topic),
        rising_at=session.epoch_at if session else 0,
        first=1 if session else 0,
    )
