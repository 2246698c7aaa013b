"""Commits and heartbeats that a client repeats are answered in the short way, as in the long one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.offset_commit_shortcut import OffsetCommitShortcut
from kbroker.apis.registry import registered
from kbroker.apis.served_api import Served
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.schema import Message
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker, metadata_of
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.clusters.replication import Replication
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer
from tests.fakes.requests.recording_quotas import RecordingQuotas
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import answer_to, frame_of

Partition = OffsetCommitRequest.OffsetCommitRequestPartition
Topic = OffsetCommitRequest.OffsetCommitRequestTopic


class Heard:
    """Notes the refusals that the log would have, as text: the short way uses messages again."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, header: Any, connection: Any, request: Message, answer: Message) -> None:
        self.told.append(f"{header.api_key} {request} {answer}")

    def tell_whole(self, header: Any, connection: Any, request: Message, refusal: Any) -> None:
        self.told.append(f"{header.api_key} {request} {refusal}")


class Side:
    """A broker with one client."""

    def __init__(self, mode: Replication = Replication.IMMEDIATE, **services: Any) -> None:
        self.broker = GroupBroker(mode=mode, offset_metadata_max_bytes=20)
        self.member = self.broker.stable_member().member_id if mode is Replication.IMMEDIATE else ""
        self.heard = Heard()
        given = replace(GroupCaller(self.broker).services, refusals=self.heard, **services)
        self.client = RepeatingClient(KafkaApis(registered(), given))

    async def short(self, frame: bytearray) -> bytes:
        return await self.client.answer(frame)

    async def long(self, frame: bytearray) -> bytes:
        return await answer_to(self.client.apis, frame, self.client.connection)


def commit(offset: int, *indexes: int, **values: Any) -> OffsetCommitRequest:
    partitions = [Partition(partition_index=each, committed_offset=offset) for each in indexes]
    topics = [Topic(name="t", topic_id=TOPIC_ID, partitions=partitions)]
    return OffsetCommitRequest(**{"group_id": "simple", "topics": topics, **values})


@pytest.mark.parametrize("version", range(1, 11))
async def test_a_commit_that_is_repeated_takes_the_short_way(version: int) -> None:
    side = Side()

    answers = [await side.client.ask(commit(at, at % 4), version) for at in range(9)]

    assert side.client.short_ways == 7
    found = [answer.topics[0].partitions[0] for answer in answers]
    assert [(each.partition_index, each.error_code) for each in found] == [
        (at % 4, 0) for at in range(9)
    ]
    offsets = side.broker.groups.store.find("simple").group.offsets.committed
    assert sorted(value.offset for value in offsets.values()) == [5, 6, 7, 8]


def random_commit(rng: random.Random, member_id: str, version: int) -> OffsetCommitRequest:
    is_member = rng.randrange(2)
    partitions = [
        Partition(
            partition_index=rng.choice([0, 1, 2, 3, 3, 9]),
            committed_offset=rng.randrange(-1, 1 << 40),
            committed_leader_epoch=rng.randrange(-1, 5),
            commit_timestamp=rng.choice([-1, rng.randrange(1 << 40)]),
            committed_metadata=rng.choice([None, "", "", "m", "é" * 9, "x" * 21]),
        )
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))
    ]
    return OffsetCommitRequest(
        group_id=rng.choice(["g", "g", "other", "one more"]),
        generation_id_or_member_epoch=rng.choice([1, 1, 2]) if is_member else -1,
        member_id=rng.choice([member_id, member_id, "stranger"]) if is_member else "",
        retention_time_ms=rng.choice([-1, 5_000]),
        topics=[
            Topic(
                name=rng.choice(["t", "t", "t", "missing"]),
                topic_id=TOPIC_ID,
                partitions=partitions,
            )
        ],
    )


def frames(rng: random.Random, member_id: str, count: int) -> Iterator[bytearray]:
    """Requests of a few shapes, each with other partitions and offsets, between heartbeats."""
    for _ in range(count // 40):
        version = rng.randrange(1, 11)
        shapes = [random_commit(rng, member_id, version) for _ in range(3)]
        for _ in range(37):
            request = rng.choice(shapes)
            for partition in request.topics[0].partitions:
                partition.partition_index = rng.choice([0, 1, 2, 3, 3, 9])
                partition.committed_offset = rng.randrange(1 << 50)
            yield frame_of(request, version)
        heartbeat = HeartbeatRequest(
            group_id=rng.choice(["g", "g", "nobody's"]),
            generation_id=rng.choice([1, 1, 4]),
            member_id=member_id,
        )
        for _ in range(3):
            yield frame_of(heartbeat, rng.randrange(5))


async def test_thousands_of_requests_have_the_answers_log_and_lines_of_the_long_way() -> None:
    one, other = Side(), Side()
    rng = random.Random(8)

    for frame in frames(rng, one.member, 4_000):
        assert await one.short(frame) == await other.long(frame)
        one.broker.time.advance(7)
        other.broker.time.advance(7)

    assert one.client.short_ways > 2_000
    assert one.broker.log().data == other.broker.log().data
    assert one.heard.told == other.heard.told != []
    groups = [side.broker.groups.store.find("g").group for side in (one, other)]
    assert groups[0].offsets.committed == groups[1].offsets.committed
    deadlines = [group.members[one.member].session_deadline_ms for group in groups]
    assert deadlines[0] == deadlines[1]


async def test_an_answer_that_waits_for_replicas_keeps_its_own_request() -> None:
    side = Side(Replication.DELAYED)
    await side.client.ask(commit(1, 0), 8)
    await side.client.ask(commit(2, 0), 8)
    side.broker.replicas.holds = True

    waiting = [side.client.send(frame_of(commit(3 + at, at), 8)) for at in range(2)]
    side.broker.replicas.release()
    answers = [await result for result in waiting]

    indexes = [b"".join(answer.pieces) for answer in answers]
    expected = [await Side().long(frame_of(commit(3 + at, at), 8)) for at in range(2)]
    assert indexes == expected


@pytest.mark.parametrize("version", [0, 8])
async def test_what_is_refused_is_logged_once_and_what_is_not_is_not(version: int) -> None:
    side = Side()
    await side.client.ask(commit(1, 0), version)
    await side.client.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=side.member), 4)
    assert side.heard.told == []

    await side.client.ask(commit(1, 0, 9), version)
    await side.client.ask(HeartbeatRequest(group_id="g", generation_id=7, member_id=side.member), 4)

    assert [line.partition(" ")[0] for line in side.heard.told] == ["8", "12"]


async def test_a_partition_that_has_gone_is_refused_in_the_short_way_too() -> None:
    side = Side()
    for _ in range(3):
        await side.client.ask(commit(1, 3), 8)

    topics = metadata_of({"t": 2})
    topics.type = 2
    side.broker.metadata.update(topics)
    answer = await side.client.ask(commit(1, 3), 8)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in answer.topics[0].partitions] == [unknown]
    assert side.client.short_ways == 2


async def test_a_topic_id_that_is_not_known_any_more_is_refused_in_the_short_way_too() -> None:
    side = Side()
    for _ in range(3):
        await side.client.ask(commit(1, 3), 10)

    topics = metadata_of({"other": 2})
    topics.type = 2
    side.broker.metadata.update(topics)
    answer = await side.client.ask(commit(1, 3), 10)

    assert [each.error_code for each in answer.topics[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("key", [8, 12])
def test_a_stage_around_the_handler_switches_the_shortcut_off_and_quotas_do_not(
    key: int,
) -> None:
    served = registered()[key]
    services = GroupCaller().services

    assert Served(served, 4, services).shortcut is not None
    assert Served(served, 4, replace(services, authorizer=DenyingAuthorizer())).shortcut is None
    assert Served(served, 4, replace(services, quotas=RecordingQuotas())).shortcut is not None


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (commit(1, 0), 0),
        (commit(1), 8),
        (OffsetCommitRequest(group_id="g"), 8),
        (OffsetCommitRequest(topics=[Topic(partitions=[Partition()])]), 10),
    ],
    ids=["kept in the tree", "no partition", "no topic", "unknown id"],
)
def test_these_have_no_shortcut(request_: OffsetCommitRequest, version: int) -> None:
    services = GroupCaller().services
    served = Served(registered()[8], version, services)

    assert OffsetCommitShortcut.of(services, served, request_, local_connection()) is None
