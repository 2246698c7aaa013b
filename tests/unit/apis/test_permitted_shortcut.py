"""The short way under rules: each request is asked for anew, and whatever is not granted gets the
answer that it would get without a short way.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType, PatternType
from kbroker.apis.audit_log import LOGGER, AuditLog
from kbroker.apis.authorization import AskedInside, ForEach, ForRequest, topic_in
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.apis.served_api import Served
from kbroker.errors import ErrorCode
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import Coming, Request
from kbroker.protocol.schema import Message
from tests.fakes.acls.ruled_authorizer import RuledAuthorizer
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.clusters.replication_cluster import ReplicationCluster, batch, topic_id_of
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import answer_to, frame_of, response_of
from tests.fakes.trees.memory_tree_files import FixedClock

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


class Side:
    """Clients of a broker that everybody may use, until its rules change."""

    def __init__(self, services: Any, *, operations: tuple[AclOperation, ...] = (READ, WRITE)):
        self.authorizer = RuledAuthorizer()
        for kind in (TOPIC, GROUP):
            self.authorizer.set(kind, "", *operations, pattern_type=PatternType.PREFIXED)
        self.services = replace(services, authorizer=self.authorizer)
        self.apis = KafkaApis(registered(), self.services)
        self.client = RepeatingClient(self.apis)

    async def ask(self, request: Message, version: int) -> Any:
        return await self.client.ask(request, version)

    async def ask_in_the_long_way(self, request: Message, version: int) -> Any:
        connection = local_connection()
        connection.principal = self.client.connection.principal
        data = await answer_to(self.apis, frame_of(request, version), connection)
        return response_of(request, version, data)


@pytest.fixture
def names(cluster: ReplicationCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {topic_id_of(name): name for name in "tu"}
    monkeypatch.setattr(cluster.metadata, "topic_name", names.get)


@pytest.fixture
def side(cluster: ReplicationCluster, call: ApiCaller, names: None) -> Side:
    for name in "tu":
        cluster.append(cluster.lead(name), b"v")
    return Side(call.services)


@pytest.fixture
def group_side() -> tuple[Side, str]:
    """A broker with a group, and the id of its member."""
    broker = GroupBroker()
    member_id = broker.stable_member().member_id
    return Side(GroupCaller(broker).services), member_id


def produce(*topics: str, acks: int = 1) -> ProduceRequest:
    entries = [
        ProduceRequest.TopicProduceData(
            name=name,
            topic_id=topic_id_of(name),
            partition_data=[
                ProduceRequest.PartitionProduceData(index=0, records=memoryview(bytearray(batch())))
            ],
        )
        for name in topics
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=entries)


def fetch(
    *topics: str, offset: int = 0, max_wait_ms: int = 0, session: int = 0, epoch: int = -1
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchRequest.FetchTopic(
                topic=name,
                topic_id=topic_id_of(name),
                partitions=[
                    FetchRequest.FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
            for name in topics
        ],
    )


def produced(answer: Any) -> dict[Any, int]:
    return {
        each.name or each.topic_id: each.partition_responses[0].error_code
        for each in answer.responses
    }


def fetched(answer: Any) -> dict[Any, int]:
    return {each.topic or each.topic_id: each.partitions[0].error_code for each in answer.responses}


def key(name: str, version: int, first_by_id: int = 13) -> Any:
    return topic_id_of(name) if version >= first_by_id else name


@pytest.mark.parametrize("version", [3, 9, 13])
async def test_a_produce_request_takes_the_short_way_until_its_right_is_gone(
    side: Side, version: int
) -> None:
    answers = [await side.ask(produce("t", "u"), version) for _ in range(5)]
    assert [set(produced(answer).values()) for answer in answers] == [{0}] * 5
    assert side.client.short_ways == 3

    side.authorizer.set(TOPIC, "u", denied=(WRITE,))
    answer = await side.ask(produce("t", "u"), version)

    assert produced(answer) == {key("t", version): 0, key("u", version): NO_TOPIC}
    side.authorizer.set(TOPIC, "u")
    assert set(produced(await side.ask(produce("t", "u"), version)).values()) == {0}


async def test_rules_that_were_all_read_again_are_asked(side: Side) -> None:
    for _ in range(3):
        await side.ask(produce("t"), 9)
    side.authorizer.set(TOPIC, "t", denied=(WRITE,))
    side.authorizer.read_all_again()

    assert produced(await side.ask(produce("t"), 9)) == {"t": NO_TOPIC}


async def test_a_producer_without_answers_is_closed_and_nothing_is_stored(
    side: Side, cluster: ReplicationCluster
) -> None:
    for _ in range(3):
        await side.ask(produce("t", acks=0), 9)
    log = cluster.lead("t", leader_epoch=1).log
    before = log.log_end_offset
    side.authorizer.set(TOPIC, "t", denied=(WRITE,))

    refused = side.client.send(frame_of(produce("t", acks=0), 9))

    assert refused.close
    assert log.log_end_offset == before


async def test_who_logs_in_again_as_somebody_else_has_the_rights_of_that_one(side: Side) -> None:
    side.authorizer.set(TOPIC, "t", denied=(READ, WRITE), who="User:eve")
    for _ in range(3):
        await side.ask(produce("t"), 9)
        await side.ask(fetch("t"), 12)

    side.client.connection.principal = "User:eve"

    assert produced(await side.ask(produce("t"), 9)) == {"t": NO_TOPIC}
    assert fetched(await side.ask(fetch("t"), 12)) == {"t": NO_TOPIC}
    side.client.connection.principal = "User:ann"
    assert produced(await side.ask(produce("t"), 9)) == {"t": 0}


async def test_a_client_that_has_just_come_does_not_use_the_right_of_another_one(
    side: Side,
) -> None:
    side.authorizer.set(TOPIC, "t", denied=(WRITE,), who="User:eve")
    for _ in range(3):
        await side.ask(produce("t"), 9)
    eve = RepeatingClient(side.apis)
    eve.connection.principal = "User:eve"

    answers = [await eve.ask(produce("t"), 9) for _ in range(4)]

    assert [produced(answer) for answer in answers] == [{"t": NO_TOPIC}] * 4


@pytest.mark.parametrize("version", [4, 12, 13])
async def test_a_fetch_takes_the_short_way_until_its_right_is_gone(
    side: Side, version: int
) -> None:
    answers = [await side.ask(fetch("t", "u"), version) for _ in range(5)]
    assert [set(fetched(answer).values()) for answer in answers] == [{0}] * 5
    assert side.client.short_ways == 3

    side.authorizer.set(TOPIC, "u", denied=(READ,))
    answer = await side.ask(fetch("t", "u"), version)

    assert fetched(answer) == {key("t", version): 0, key("u", version): NO_TOPIC}
    assert answer == await side.ask_in_the_long_way(fetch("t", "u"), version)


@pytest.mark.parametrize("version", [7, 12, 13, 17])
async def test_a_session_is_asked_for_at_each_of_its_requests(side: Side, version: int) -> None:
    first = await side.ask(fetch("t", "u", epoch=0), version)
    session = first.session_id
    for epoch in range(1, 5):
        await side.ask(fetch(session=session, epoch=epoch), version)
    assert side.client.short_ways == 3

    side.authorizer.set(TOPIC, "u", denied=(READ,))
    answer = await side.ask(fetch(session=session, epoch=5), version)

    assert fetched(answer)[key("u", version)] == NO_TOPIC
    side.authorizer.set(TOPIC, "u")
    answer = await side.ask(fetch(session=session, epoch=6), version)
    assert fetched(answer)[key("u", version)] == 0


@pytest.mark.parametrize("in_session", [False, True], ids=["without", "with a session"])
@pytest.mark.parametrize("in_short_way", [False, True], ids=["decoded", "in the short way"])
async def test_a_fetch_that_waits_is_asked_for_again_at_its_end(
    side: Side, cluster: ReplicationCluster, *, in_session: bool, in_short_way: bool
) -> None:
    partition = cluster.lead("t", leader_epoch=1)
    session, epochs = 0, [-1] * 9
    if in_session:
        session, epochs = (await side.ask(fetch("t", epoch=0), 12)).session_id, list(range(1, 9))

    def frame(offset: int) -> bytearray:
        values = {"session": session, "epoch": epochs.pop(0), "max_wait_ms": 500}
        return frame_of(fetch("t", offset=offset, **values), 12)

    for _ in range(2):
        await side.client.answer(frame(0))
    if not in_short_way:
        side.client.connection.short_way = None
    last = frame(1)
    waiting = side.client.send(last)
    if not in_short_way:
        header, at = decode_request_header(memoryview(last))
        connection = side.client.connection
        waiting = side.apis.handle(Request(header, memoryview(last), at, connection, len(last)))
    assert isinstance(waiting, Coming)

    side.authorizer.set(TOPIC, "t", denied=(READ,))
    cluster.append(partition, b"secret")

    answer = response_of(fetch(), 12, b"".join(waiting.finish().pieces))
    assert fetched(answer) == {"t": NO_TOPIC}
    assert not answer.responses[0].partitions[0].records


async def test_commits_and_heartbeats_take_the_short_way_until_their_right_is_gone(
    group_side: tuple[Side, str],
) -> None:
    side, member_id = group_side
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=3)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="t", topic_id=TOPIC_ID, partitions=[partition]
    )
    commit = OffsetCommitRequest(group_id="simple", topics=[topic])

    async def codes() -> tuple[int, int]:
        committed = await side.ask(commit, 8)
        beaten = await side.ask(beat, 4)
        return committed.topics[0].partitions[0].error_code, beaten.error_code

    assert {await codes() for _ in range(4)} == {(0, 0)}
    assert side.client.short_ways == 4
    side.authorizer.set(GROUP, "g", denied=(READ,))
    side.authorizer.set(TOPIC, "t", denied=(READ,))
    assert await codes() == (NO_TOPIC, NO_GROUP)
    side.authorizer.set(TOPIC, "t")
    side.authorizer.set(GROUP, "simple", denied=(READ,))
    assert await codes() == (NO_GROUP, NO_GROUP)


def test_an_authorizer_without_rules_leaves_no_shortcuts(call: ApiCaller) -> None:
    services = replace(call.services, authorizer=DenyingAuthorizer())

    found = [Served(api, 4, services).shortcut for api in registered().values() if api.repeats]

    assert found == [None] * 4


async def test_while_grants_are_audited_each_request_takes_the_long_way(
    side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    services = replace(side.services, audit=AuditLog(FixedClock()))
    side.apis.use(services)
    described = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    side.authorizer.set(TOPIC, "*", DESCRIBE)

    async def ask_all() -> int:
        """Ask everything, and count what the audit log has heard."""
        caplog.clear()
        await side.ask(produce("t"), 9)
        await side.ask(fetch("t"), 12)
        await side.ask(described, 9)
        return len([each for each in caplog.records if each.name == LOGGER])

    for _ in range(3):
        assert await ask_all() == 0
    for _ in range(2):
        side.apis.use(replace(services, audit=AuditLog(FixedClock())))  # no line is like another
        with caplog.at_level(logging.INFO, LOGGER):
            for _ in range(3):
                assert await ask_all() == 0
        with caplog.at_level(logging.DEBUG, LOGGER):
            assert await ask_all() == 3


def of_records(_ctx: Any, request: ProduceRequest) -> AclResource:
    return AclResource(TOPIC, "t" if len(request.topic_data[0].partition_data[0].records) else "u")


def of_index(_ctx: Any, _request: Any, entry: Any) -> AclResource:
    return AclResource(TOPIC, entry.partition_data[0].index)


def each_topic(**values: Any) -> ForEach:
    given: dict[str, Any] = {"operation": WRITE, "resource": topic_in("name"), **values}
    return ForEach(asked="topic_data", answered="responses", **given)


@pytest.mark.parametrize(
    ("need", "has_shortcut"),
    [
        (each_topic(), True),
        (each_topic(resource=of_index), False),
        (each_topic(resource=lambda *_: ErrorCode.UNKNOWN_TOPIC_ID), False),
        (each_topic(unless=WRITE), False),
        (ForRequest(WRITE, of_records), False),
        (ForRequest(WRITE, lambda *_: AclResource(TOPIC, "t"), unless=READ), False),
        (AskedInside(WRITE, TOPIC), False),
        (AskedInside(WRITE, TOPIC, is_asked_in_shortcuts=True), True),
    ],
)
def test_what_a_need_cannot_say_beforehand_leaves_an_api_without_shortcuts(
    side: Side, *, need: Any, has_shortcut: bool
) -> None:
    services = side.services
    api = replace(registered()[0], needs=(need,))
    served = Served(api, 9, services)
    assert served.shortcut is not None

    shortcut = served.shortcut(services, served, produce("t"), local_connection())

    assert (shortcut is not None) is has_shortcut
    assert shortcut is None or not shortcut.is_for_all


def test_every_api_with_shortcuts_is_asked_for_what_its_requests_name() -> None:
    """A new one is to be looked at here: whether all its needs are asked in its short way."""
    with_shortcuts = {
        api.name: [type(need).__name__ for need in api.needs]
        for api in registered().values()
        if api.repeats not in (False, True)
    }

    assert with_shortcuts == {
        "Produce": ["ForRequest", "ForEach"],
        "Fetch": ["AskedInside", "AskedInside"],
        "OffsetCommit": ["ForRequest", "ForEach"],
        "Heartbeat": ["ForRequest"],
    }
