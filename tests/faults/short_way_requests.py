"""What clients send in the hunt on the short way: requests that they repeat with other offsets and
records, as Java, librdkafka, kafka-python and franz-go were recorded to send them and made up, and
bytes of them that are spoilt.

Everything follows from the random numbers and from what the broker has answered.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from kbroker.apis.registry import registered
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader, decode_request_header, encode_request_header
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message, copied
from kbroker.record.compression import GZIP, LZ4, SNAPPY, ZSTD
from kbroker.record.record_batch import TRANSACTIONAL_BIT, BatchOptions, Record, build
from tests.golden.wire.test_recorded_frames import message_classes, recorded

TOPICS = ("t", "u", "a-longer-name")
PARTITIONS = 3
NOW_MS = 1_795_000_000_000
PRODUCE, FETCH = 0, 1
REPEATED = frozenset({0, 1, 3, 8, 12})
# Other requests that a client may send in between: they change nothing but groups and producers.
OTHERS = (2, 9, 10, 11, 13, 14, 15, 16, 18, 22, 23, 24, 26, 28, 32, 60, 61, 75)
_MEMBERS = (11, 13, 14)  # requests that make a group rebalance
_STRANGE_ACKS = (2, -2, 7)
_CODECS = (GZIP, SNAPPY, LZ4, ZSTD)

Habit = Callable[[], bytes]


class Scene:
    """The things that requests are about, as far as clients know them."""

    def __init__(self) -> None:
        self.ids: dict[str, UUID] = {}
        self.old_ids: list[UUID] = [UUID(int=99)]
        self.member_id = ""
        self.generation_id = -1
        self.sequences: dict[tuple[int, str, int], int] = {}  # the next, by producer and partition
        self.in_sessions: list[_Fetching] = []  # the fetches that once began a session


class Requests:
    """The requests of one client, with what it repeats."""

    def __init__(self, random: Random, scene: Scene) -> None:
        self.random = random
        self.scene = scene
        self.client_id = random.choice((None, "", "c", "rdkafka", "consumer-group-1", "é" * 40))
        self.spoils = random.choice((0.0, 0.0, 0.01, 0.1))  # of its frames: most end a connection
        self.changes = random.choice((0.03, 0.003))  # of its habits
        self.correlation_id = random.randrange(1 << 20)
        self.fetches: dict[int, _Fetching] = {}  # by the correlation id of their first request
        self.habits: list[Habit] = [self._habit() for _ in range(random.choice((1, 2, 4, 6)))]

    def next_frames(self, count: int) -> bytes:
        """The bytes of some requests, with their sizes."""
        random, frames = self.random, bytearray()
        for _ in range(count):
            chance = random.random()
            if chance < self.changes:
                self.habits[random.randrange(len(self.habits))] = self._habit()
            elif 0.03 < chance < 0.04:
                self.client_id = f"client {random.randrange(100_000)}"
            if chance > 0.95:
                frame = self._other()
            else:
                frame = random.choice(self.habits)()
                if random.random() < self.spoils:
                    frame = self._spoilt(frame)
            frames += struct.pack(">i", len(frame)) + frame
        return bytes(frames)

    def heard(self, answers: list[bytes]) -> None:
        """Note what the broker has answered."""
        for answer in answers:
            (correlation_id,) = struct.unpack_from(">i", answer)
            fetching = self.fetches.pop(correlation_id, None)
            if fetching is not None:
                fetching.heard(answer)

    # ---- frames

    def frame(self, message: Message, version: int) -> bytes:
        key = message.spec.key
        assert key is not None
        self.correlation_id += 1
        header = RequestHeader(key, version, self.correlation_id, self.client_id)
        return encode(message, version, encode_request_header(header))

    def _spoilt(self, frame: bytes) -> bytes:
        """The frame with something wrong in it, or just written in another way."""
        random, data = self.random, bytearray(frame)
        at = random.randrange(len(data))
        kind = random.randrange(9)
        if kind == 0:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at]
        elif kind == 4:
            data[at:at] = random.randbytes(random.choice((1, 1, 2, 30)))
        elif kind == 5:
            data += random.choice((b"\0", b"\1\0\0", b"\xff" * 9))
        elif kind == 6:  # a varint one byte longer than needed
            data[at : at + 1] = bytes((data[at] | 0x80, 0))
        elif kind == 7:  # a tagged field that nobody knows
            data[-1:] = b"\1\x63\2hi"
        else:  # the tail alone
            at = len(data) - 1 - random.randrange(min(len(data), 12))
            data[at] = random.randrange(256)
        return bytes(data)

    def _other(self) -> bytes:
        frames = recorded_of(self.random.choice(OTHERS))
        version, message = self.random.choice(frames)
        return self.frame(self._about_us(copied(message)), version)

    # ---- habits

    def _habit(self) -> Habit:
        kind = self.random.choices(
            (self._produce, self._fetch, self._commit, self._heartbeat, self._metadata, self._as_recorded),
            (9, 9, 3, 1, 3, 6),
        )[0]  # fmt: skip
        return kind()

    def _as_recorded(self) -> Habit:
        version, message = self.random.choice(
            recorded_of(self.random.choice((0, 0, 1, 1, 3, 8, 12)))
        )
        message = self._about_us(copied(message))
        if isinstance(message, ProduceRequest):
            return self._producing(message, version)
        if isinstance(message, FetchRequest):
            message.replica_id = -1
            message.max_wait_ms = min(message.max_wait_ms, 500)
            return _Fetching(self, message, version).next_frame
        return lambda: self.frame(message, version)

    def _about_us(self, message: Any) -> Any:
        """The same request about our topics."""
        for name in ("topics", "topic_data", "topic_names", "forgotten_topics_data"):
            entries = getattr(message, name, None) or []
            for at, entry in enumerate(entries):
                topic = TOPICS[at % len(TOPICS)]
                if isinstance(entry, str):
                    entries[at] = topic
                    continue
                if hasattr(entry, "topic_id"):
                    entry.topic_id = self._id_of(topic)
                for field in ("name", "topic", "topic_name"):
                    if getattr(entry, field, None) is not None:
                        setattr(entry, field, topic)
        if getattr(message, "group_id", None):
            joins = message.spec.key in _MEMBERS
            message.group_id = "others" if joins else "g"
        return message

    def _id_of(self, topic: str) -> UUID:
        return self.scene.ids.get(topic, UUID(int=98))

    def _renew(self, topics: list[Any]) -> None:
        """Some clients learn sooner than others that a topic was made anew."""
        for topic in topics:
            if topic.topic_id in self.scene.old_ids and self.random.random() < 0.2:
                name = getattr(topic, "topic", None) or getattr(topic, "name", None) or TOPICS[0]
                topic.topic_id = self._id_of(name)

    def _some_topics(self) -> list[tuple[str, UUID]]:
        random = self.random
        names = random.choices(TOPICS, k=random.choice((1, 1, 1, 1, 2, 3)))
        found = [(name, self._id_of(name)) for name in names]
        if random.random() < 0.05:
            found[-1] = ("nobody's", random.choice(self.scene.old_ids))
        return found

    def _index(self) -> int:
        return self.random.choice(
            (0, 0, 0, 1, 1, 2, 2, 2, PARTITIONS, -1)[: 8 + (self.random.random() < 0.05) * 2]
        )

    def _produce(self) -> Habit:
        random = self.random
        topics = []
        for name, topic_id in self._some_topics():
            data = [
                ProduceRequest.PartitionProduceData(index=0)
                for _ in range(random.choice((0, 1, 1, 1, 1, 1, 2, 3)))
            ]
            topics.append(
                ProduceRequest.TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
            )
        acks = random.choice((1, 1, 1, -1, -1, -1, 0, random.choice(_STRANGE_ACKS)))
        message = ProduceRequest(acks=acks, timeout_ms=random.choice((50, 3000)), topic_data=topics)
        if random.random() < 0.05:
            message.transactional_id = "x"
        return self._producing(message, random.choice((*range(14), 9, 11, 12, 13, 13, 13)))

    def _producing(self, message: ProduceRequest, version: int) -> Habit:
        kind = self.random.choice((self._plain, self._plain, self._idempotent, self._mixed))

        def next_frame() -> bytes:
            self._renew(message.topic_data)
            for topic in message.topic_data:
                indexes = self.random.sample(range(PARTITIONS), PARTITIONS)
                for data in topic.partition_data:
                    data.index = indexes.pop() if indexes else self._index()
                    if self.random.random() < 0.05:
                        data.index = self._index()
                    records = kind(topic.name, data.index)
                    data.records = None if records is None else memoryview(bytearray(records))
            return self.frame(message, version)

        return next_frame

    def _fetch(self) -> Habit:
        random = self.random
        if self.scene.in_sessions and random.random() < 0.1:
            fetching = random.choice(self.scene.in_sessions)
            return lambda: fetching.next_frame(self)  # in a session of somebody else
        version = random.choice((*range(19), 4, 11, 12, 13, 17, 17))
        topics = [
            FetchRequest.FetchTopic(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=self._index(),
                        partition_max_bytes=random.choice((1, 300, 100_000)),
                    )
                    for _ in range(random.choice((1, 1, 1, 2, 3)))
                ],
            )
            for name, topic_id in self._some_topics()
        ]
        message = FetchRequest(
            max_wait_ms=random.choice((0, 0, 5, 500)),
            min_bytes=random.choice((0, 1, 1, 500)),
            max_bytes=random.choice((100, 5_000, 1 << 20)),
            isolation_level=random.choice((0, 0, 1, 1, 2)) if version >= 4 else 0,
            topics=topics,
        )
        return _Fetching(self, message, version).next_frame

    def _commit(self) -> Habit:
        random, scene = self.random, self.scene
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        committed_metadata=random.choice((None, "", "m" * 9))
                    )
                    for _ in range(random.choice((1, 1, 2)))
                ],
            )
            for name, topic_id in self._some_topics()
        ]
        message = OffsetCommitRequest(
            group_id=random.choice(("simple", "g", "g")),
            topics=topics,
            generation_id_or_member_epoch=-1,
        )
        is_member = message.group_id == "g" and random.random() < 0.8
        version = random.choice(range(1, 11))

        def next_frame() -> bytes:
            if is_member and version >= 1:
                message.member_id = scene.member_id
                message.generation_id_or_member_epoch = scene.generation_id
            self._renew(topics)
            for topic in topics:
                for partition in topic.partitions:
                    partition.partition_index = self._index()
                    partition.committed_offset = random.randrange(1000)
                    if version >= 6:
                        partition.committed_leader_epoch = random.randrange(-1, 3)
                    if version == 1:
                        partition.commit_timestamp = random.choice((-1, NOW_MS))
            return self.frame(message, version)

        return next_frame

    def _heartbeat(self) -> Habit:
        version = self.random.randrange(5)

        def next_frame() -> bytes:
            message = HeartbeatRequest(
                group_id="g",
                member_id=self.scene.member_id,
                generation_id=self.scene.generation_id + (self.random.random() < 0.1),
            )
            return self.frame(message, version)

        return next_frame

    def _metadata(self) -> Habit:
        random = self.random
        version = random.randrange(14)
        message = MetadataRequest(
            topics=[
                MetadataRequest.MetadataRequestTopic(name=name)
                for name in random.sample(TOPICS, random.choice((1, 1, 2)))
            ],
        )
        if version >= 4:
            message.allow_auto_topic_creation = False
        if random.random() < 0.2:
            message.topics = [] if version < 1 or random.random() < 0.5 else None
        return lambda: self.frame(message, version)

    # ---- records

    def _plain(self, _topic: str, _index: int) -> bytes | None:
        return self.random.choice(plain_batches())

    def _mixed(self, topic: str, index: int) -> bytes | None:
        random = self.random
        chance = random.random()
        if chance < 0.75:
            return self._plain(topic, index)
        if chance < 0.8:
            return random.choice((None, b"", b"\0" * 23, b"short"))
        data = bytearray(random.choice(odd_batches()))
        if chance < 0.85:
            return data[: random.randrange(len(data))]
        if chance < 0.9:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return data

    def _idempotent(self, topic: str, index: int) -> bytes:
        random, sequences = self.random, self.scene.sequences
        producer_id = random.choice((7, 7, 8))
        key = producer_id, topic, index
        sequence = sequences.get(key, 0)
        chance = random.random()
        if chance < 0.1:
            sequence = max(0, sequence - 1)  # again
        elif chance > 0.95:
            sequence += 2
        sequences[key] = sequence + 1
        return build(
            [Record(0, NOW_MS, b"k", b"i" * random.choice((3, 3, 90)))],
            options=BatchOptions(producer_id=producer_id, producer_epoch=0, base_sequence=sequence),
        )


class _Fetching:
    """A fetch that goes on: with a session (of its epochs), or without."""

    def __init__(self, requests: Requests, message: FetchRequest, version: int) -> None:
        self._requests = requests
        self._message = message
        self._version = version
        self._all = message.topics
        self._ends: dict[tuple[str, UUID, int], int] = {}  # of logs, as far as it has heard
        random = requests.random
        self._has_session = version >= 7 and random.random() < 0.7
        self._has_epochs = random.random() < 0.5  # those of leaders
        self._session_id = self._epoch = 0
        self._is_asked = False  # for a session
        self._is_refused = False  # some partition
        message.session_id, message.session_epoch = 0, -1
        message.forgotten_topics_data = []

    def next_frame(self, requests: Requests | None = None) -> bytes:
        """A frame that these `requests` send, or those it is of."""
        requests = requests or self._requests
        random, message = requests.random, self._message
        message.topics = self._all
        requests._renew(self._all)
        for topic in self._all:
            for partition in topic.partitions:
                if random.random() < 0.1:
                    partition.partition = requests._index()
                end = self._ends.get((*self._named(topic), partition.partition), 0)
                partition.fetch_offset = random.choice((0, end // 2, end, end))
                if random.random() < 0.1:
                    partition.fetch_offset = random.choice((1, 3, 10, 30, 31, 32, 100_000))
                if self._version >= 9 and self._has_epochs:
                    partition.current_leader_epoch = random.choice((-1, -1, -1, 0, 1))
                if self._version >= 12 and self._has_epochs:
                    partition.last_fetched_epoch = random.choice((-1, -1, -1, 0))
        if self._has_session:
            self._go_on(random)
        frame = requests.frame(message, self._version)
        requests.fetches[requests.correlation_id] = self
        return frame

    def _go_on(self, random: Random) -> None:
        """Put the session into the message, and of its partitions those that have moved."""
        message = self._message
        message.session_id, message.session_epoch = self._session_id, self._epoch
        message.forgotten_topics_data = []
        if not self._session_id:
            if self._is_asked and random.random() < 0.7:
                message.session_epoch = -1
            self._is_asked = True
            return
        chance = random.random()
        if self._is_refused:
            self._is_refused = False
            chance = 1
        if chance < 0.8:
            message.topics = []
        if 0.4 < chance < 0.8 and self._all:
            topic = random.choice(self._all)
            moved = random.sample(topic.partitions, min(len(topic.partitions), 1))
            message.topics = [
                FetchRequest.FetchTopic(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=moved
                )
            ]
            if random.random() < 0.1:
                message.forgotten_topics_data = [
                    FetchRequest.ForgottenTopic(
                        topic=topic.topic,
                        topic_id=topic.topic_id,
                        partitions=[random.randrange(PARTITIONS)],
                    )
                ]
        self._epoch += 1
        chance = random.random()
        if chance < 0.01:
            message.session_epoch += random.choice((-1, 1, -self._epoch, 2**30))
        elif chance < 0.015:
            message.session_epoch = random.choice((0, -1))  # it is over

    def _named(self, topic: Any) -> tuple[str, UUID]:
        """How requests of this version name a topic."""
        return ("", topic.topic_id) if self._version >= 13 else (topic.topic, UUID(int=0))

    def heard(self, answer: bytes) -> None:
        """Note where the logs end, and the session."""
        head = 5 if self._version >= 12 else 4
        try:
            response, _ = decode(FetchResponse, self._version, memoryview(answer), head)
        except (ProtocolError, IndexError, struct.error):
            return  # its request was spoilt
        for topic in response.responses:
            for data in topic.partitions:
                self._ends[*self._named(topic), data.partition_index] = max(0, data.high_watermark)
                self._is_refused |= data.error_code != 0
        if not self._has_session:
            return
        session_id = response.session_id
        if response.error_code:
            self._session_id = self._epoch = 0
            self._is_asked = False
        elif not self._session_id and session_id:
            self._session_id, self._epoch = session_id, 1
            sessions = self._requests.scene.in_sessions
            if self not in sessions:
                sessions.append(self)


@cache
def recorded_of(key: int) -> list[tuple[int, Message]]:
    """The recorded requests of an API, decoded."""
    cls = message_classes()[key, "req"]
    served = registered()[key].versions
    found = []
    for frame in recorded()[key, "req"]:
        data = base64.b64decode(frame["b64"])
        if frame["version"] in served and len(data) < 2_000:
            _, body = decode_request_header(data)
            found.append((frame["version"], decode(cls, frame["version"], data, body)[0]))
    return found


@cache
def plain_batches() -> list[bytes]:
    """Batches that any log takes."""
    return [
        build(
            [
                Record(at, NOW_MS + at, key, b"v" * size, headers)
                for at in range(count)
            ]
        )
        for count in (1, 1, 2, 9)
        for size in (0, 5, 90)
        for key, headers in ((None, ()), (b"key", ((("h", b"x"),) if size else ())))
    ] + [build([Record(0, NOW_MS, None, b"L" * 1_500)])]  # fmt: skip


@cache
def odd_batches() -> list[bytes]:
    """Batches that some requests may not bring, or that are compressed."""
    rows = [Record(at, NOW_MS + at, b"k", b"value " * 5) for at in range(4)]
    found = [build(rows, options=BatchOptions(compression=codec)) for codec in _CODECS]
    found.append(
        build(
            rows,
            options=BatchOptions(
                flags=TRANSACTIONAL_BIT, producer_id=9, producer_epoch=0, base_sequence=0
            ),
        )
    )
    found.append(build(rows) + build(rows))  # two batches
    many = [Record(at, NOW_MS, None, b"%d" % at) for at in range(1_100)]
    found += [build(many, options=BatchOptions(compression=codec)) for codec in (GZIP, LZ4)]  # long
    found.append(build([]))
    return found


def pieces_of(random: Random, data: bytes) -> list[bytes]:
    """The same bytes in pieces, as a network may bring them."""
    cuts = random.choice((0, 0, 0, 1, 2, 9))
    places = sorted(random.randrange(len(data) + 1) for _ in range(cuts))
    return [data[a:b] for a, b in zip((0, *places), (*places, len(data)), strict=True)]
