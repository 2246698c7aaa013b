"""Fetches of a session in the short way, each beside one of another session that is decoded."""

from __future__ import annotations

import pytest

from kbroker.apis import session_fetch_shortcut
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.request import Coming
from kbroker.record.legacy_record import read_any_header
from kbroker.replication.reads.fetch_session_cache import EVICTION_MS
from tests.fakes.clusters.replication_cluster import topic_id_of
from tests.fakes.requests.repeating_client import RepeatingClient
from tests.fakes.requests.request_frames import frame_of, response_of

VERSIONS = [7, 9, 11, 12, 13, 15, 17, 18]
UNCOMMITTED, COMMITTED = 0, 1


class Session:
    """A consumer with a session, over a connection that takes the short way or does not."""

    def __init__(self, apis, version=12, *, is_short=True, isolation_level=UNCOMMITTED) -> None:
        self.client = RepeatingClient(apis)
        self.version = version
        self.session_id = self.epoch = 0
        self._is_short = is_short
        self._isolation_level = isolation_level

    @property
    def short_ways(self) -> int:
        return self.client.short_ways

    def request(self, *wanted, epoch=None, forget=(), max_wait_ms=0, max_bytes=1 << 20, **values):
        """The next request, for entries (topic, partition, offset) that have moved."""
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for topic, partition, offset in wanted:
            named = FetchRequest.FetchTopic(topic=topic, topic_id=topic_id_of(topic), partitions=[])
            topics.setdefault(topic, named).partitions.append(
                FetchRequest.FetchPartition(
                    partition=partition, fetch_offset=offset, partition_max_bytes=1000, **values
                )
            )
        gone = [
            FetchRequest.ForgottenTopic(topic=t, topic_id=topic_id_of(t), partitions=[index])
            for t, index in forget
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=self._isolation_level,
            session_id=self.session_id,
            session_epoch=self.epoch if epoch is None else epoch,
            topics=list(topics.values()),
            forgotten_topics_data=gone,
        )
        self.epoch += 1
        return request

    async def ask(self, *wanted, **values):
        if not self._is_short:
            self.client.connection.short_way = None
        request = self.request(*wanted, **values)
        answer = await self.client.ask(request, self.version)
        if not self.session_id:
            self.session_id = answer.session_id
        answer.session_id = int(answer.session_id == self.session_id)  # whichever it is
        return answer

    async def learn(self, *wanted, **values):
        """Repeat a request until it is known."""
        for _ in range(3):
            await self.ask(*wanted, **values)
        self.client.short_ways = 0


class Pair:
    """The same session twice."""

    def __init__(self, apis, version, **values) -> None:
        self.short = Session(apis, version, **values)
        self.long = Session(apis, version, is_short=False, **values)

    async def ask(self, *wanted, **values):
        """The answer that both are given."""
        answer = await self.short.ask(*wanted, **values)
        assert answer == await self.long.ask(*wanted, **values)
        return answer

    async def learn(self, *wanted, **values):
        """Repeat a request until it is known."""
        await self.short.learn(*wanted, **values)
        await self.long.learn(*wanted, **values)


def offsets(answer):
    return [
        (topic.topic, data.partition_index, data.error_code, data.high_watermark)
        for topic in answer.responses
        for data in topic.partitions
    ]


@pytest.fixture
def apis(cluster, call, monkeypatch) -> KafkaApis:
    names = {topic_id_of(name): name for name in "tu"}
    monkeypatch.setattr(cluster.metadata, "topic_name", names.get)
    return KafkaApis(registered(), call.services)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("isolation_level", [UNCOMMITTED, COMMITTED])
async def test_a_consumer_that_follows_the_log_is_answered_in_the_short_way(
    cluster, apis, version, isolation_level
):
    partition = cluster.lead("t")
    pair = Pair(apis, version, isolation_level=isolation_level)
    await pair.ask(("t", 0, 0))
    await pair.learn()
    await pair.learn(("t", 0, 0))

    for end in range(1, 4):
        cluster.append(partition, b"v")
        found = await pair.ask()
        assert [entry[1:] for entry in offsets(found)] == [(0, 0, end)]
        assert found.responses[0].partitions[0].records
        assert not (await pair.ask(("t", 0, end))).responses

    assert pair.short.short_ways == 6


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize(
    "asked",
    [
        [("t", 0, 2)],
        [("t", 1, 0)],
        [("t", 7, 0)],
        [("u", 0, 0)],
        [("t", 0, 9)],
    ],
    ids=str,
)
async def test_whatever_is_asked_for_is_answered_as_by_the_handler(cluster, apis, version, asked):
    for topic, index in (("t", 0), ("t", 1), ("u", 0)):
        cluster.append(cluster.lead(topic, index), b"v", b"w")
    pair = Pair(apis, version)
    await pair.ask(("t", 0, 0), ("t", 1, 0), ("u", 0, 0))
    await pair.learn((asked[0][0], 0, 0))
    await pair.learn()

    for _ in range(2):
        await pair.ask(*asked)
        await pair.ask()

    assert pair.short.short_ways == 4


@pytest.mark.parametrize("version", [12, 13])
async def test_answers_are_grouped_by_topic_and_have_forms_of_their_own(
    cluster, apis, version, monkeypatch
):
    monkeypatch.setattr(session_fetch_shortcut, "FORMS_MAX", 1)
    logs = {place: cluster.lead(*place) for place in (("t", 0), ("u", 0), ("t", 1))}
    pair = Pair(apis, version)
    await pair.ask(*[(*place, 0) for place in logs])
    await pair.learn()

    for places in ([("t", 0), ("u", 0), ("t", 1)], [("t", 1)], [("u", 0)], [("t", 0), ("t", 1)]):
        for place in places:
            cluster.append(logs[place], b"v")
        await pair.ask()

    assert pair.short.short_ways == 4


async def test_a_busy_partition_is_read_last(cluster, apis):
    for index in range(3):
        cluster.append(cluster.lead("t", index), b"v")
    pair = Pair(apis, 12)
    await pair.ask(*[("t", index, 0) for index in range(3)])
    await pair.learn(max_bytes=1)

    answers = [await pair.ask(max_bytes=1) for _ in range(3)]

    assert sorted(
        data.partition_index
        for answer in answers
        for data in answer.responses[0].partitions
        if data.records
    ) == [0, 1, 2]
    assert pair.short.short_ways == 3


@pytest.mark.parametrize("epoch", [0, -1])
async def test_a_fetched_epoch_that_diverges_is_answered_as_by_the_handler(cluster, apis, epoch):
    cluster.append(cluster.lead("t", leader_epoch=3), b"v")
    pair = Pair(apis, 12)
    await pair.ask(("t", 0, 0))
    await pair.learn(("t", 0, 0))

    answer = await pair.ask(("t", 0, 1), last_fetched_epoch=epoch)
    await pair.ask()
    await pair.ask(("t", 0, 0))

    assert len(answer.responses) == (epoch == 0)
    assert pair.short.short_ways == 2


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("epoch", [1, 77, -1, 0])
async def test_a_wrong_epoch_changes_nothing_in_the_session(cluster, apis, version, epoch):
    cluster.append(cluster.lead("t"), b"v")
    pair = Pair(apis, version)
    await pair.ask(("t", 0, 0))
    await pair.learn(("t", 0, 0))

    await pair.ask(("t", 0, 1), epoch=epoch)
    for session in (pair.short, pair.long):
        session.epoch -= 1
    answer = await pair.ask(("t", 0, 0))

    assert answer.error_code == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND if epoch < 1 else 0)


async def test_a_session_of_another_kind_is_not_touched(cluster, apis):
    by_name, by_id = Session(apis, 12), Session(apis, 13)
    cluster.append(cluster.lead("t"), b"v")
    await by_name.ask(("t", 0, 0))
    by_id.session_id = by_name.session_id
    for _ in range(3):
        answer = await by_id.ask(("t", 0, 1), epoch=1)
        assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    assert (await by_name.ask()).error_code == 0


async def test_partitions_that_are_forgotten_are_left_to_the_handler(cluster, apis):
    for index in range(2):
        cluster.append(cluster.lead("t", index), b"v")
    pair = Pair(apis, 12)
    await pair.ask(("t", 0, 0), ("t", 1, 0))
    await pair.learn()

    assert offsets(await pair.ask(forget=[("t", 0)])) == [("t", 1, 0, 1)]
    assert offsets(await pair.ask()) == [("t", 1, 0, 1)]
    await pair.ask(forget=[("t", 1)])  # which ends it
    answer = await pair.ask()

    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_that_is_used_in_the_short_way_does_not_give_way(cluster, apis):
    cluster.append(cluster.lead("t"), b"v")
    session = Session(apis)
    await session.ask(("t", 0, 0))
    await session.learn()

    cluster.time.advance(EVICTION_MS)
    await session.ask()

    kept = cluster.replicas.fetch_sessions.find(session.session_id)
    assert session.short_ways == 1
    assert kept.last_used_ms == cluster.time.monotonic_ms()
    assert kept.connection is session.client.connection


async def waits_at(session, end):
    """A fetch in the short way that waits for what comes after `end` records, the only others."""
    await session.ask(("t", 0, 0))
    await session.learn(max_wait_ms=500)
    await session.ask(("t", 0, end))
    waiting = session.client.send(frame_of(session.request(max_wait_ms=500), session.version))
    assert isinstance(waiting, Coming)
    assert session.short_ways == 1
    return waiting


def ended(waiting):
    return response_of(FetchRequest(), 12, b"".join(waiting.finish().pieces))


async def test_a_fetch_that_waits_is_answered_when_there_is_news(cluster, apis):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    waiting = await waits_at(Session(apis), 1)

    cluster.append(partition, b"w")

    answer = ended(waiting)
    assert offsets(answer) == [("t", 0, 0, 2)]
    assert read_any_header(answer.responses[0].partitions[0].records).base_offset == 1


async def test_a_fetch_that_waits_in_vain_has_an_answer_without_partitions(cluster, apis):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    waiting = await waits_at(Session(apis), 1)

    cluster.time.advance(500)

    answer = ended(waiting)
    assert answer.session_id
    assert not answer.responses


async def test_an_answer_overtaken_by_the_next_request_is_refused(cluster, apis):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    session, other = Session(apis), Session(apis)
    waiting = await waits_at(session, 1)

    other.session_id, other.epoch = session.session_id, session.epoch
    await other.ask()
    cluster.append(partition, b"w")

    assert ended(waiting).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
