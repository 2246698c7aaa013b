"""What is read along a course, whatever brokers answer."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import cast
from uuid import UUID

import pytest

from kbroker.client.broker_link import Asked
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import EARLIEST, ClusterLinks, TopicView
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)

A, B, A1 = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("a", 1)
ONE_DELETED = (TopicPartition("a", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def view(name: str, partitions: int = 1, life: int = 1) -> TopicView:
    leaders = dict.fromkeys(range(partitions), 1)
    return TopicView(name=name, code=ErrorCode.NONE, topic_id=UUID(int=life), leaders=leaders)


class FakeCluster:
    """One broker, which leads all; its link is always ready to be read."""

    def __init__(self, *views: TopicView) -> None:
        self.views = {found.name: found for found in views}
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.aborted: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.open_at: dict[TopicPartition, int] = {}  # a transaction that goes on to the end
        self.codes: list[tuple[TopicPartition, ErrorCode]] = []  # answered once each
        self.refusals: list[ErrorCode] = []  # of whole requests
        self.leaderless: list[str] = []  # said once each
        self.in_flight: deque[Asked] = deque()
        self.requests: list[FetchRequest] = []
        self.name = self.bootstrap = "broker:1"
        self._read, self._write = os.pipe()
        os.write(self._write, b"ready")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        return self._read

    def link(self, node_id: int) -> FakeCluster:
        return self

    def busy(self) -> list[FakeCluster]:
        return [self] if self.in_flight else []

    def send(self, request: FetchRequest, context: object) -> None:
        self.requests.append(request)
        self.in_flight.append(Asked(type(request), 12, 0, context))

    def topic(self, name: str) -> TopicView:
        missing = TopicView(name=name, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, leaders={})
        return self.views.get(name, missing)

    def offsets(
        self,
        found: TopicView,
        partitions: Collection[int],
        moment: int,
        *,
        awaits_successor: bool,
    ) -> dict[int, int]:
        assert not awaits_successor, "other partitions would wait, too"
        if self.leaderless:
            raise ClientError(self.leaderless.pop())
        return dict.fromkeys(partitions, 2 if moment == EARLIEST else 9)

    def take(self) -> tuple[object, FetchResponse]:
        context = self.in_flight.popleft().context
        if self.refusals:
            return context, FetchResponse(error_code=int(self.refusals.pop()))
        topics = []
        for topic in self.requests[-1].topics:
            rows = [self._answer(topic.topic, wanted) for wanted in topic.partitions]
            found = FetchResponse.FetchableTopicResponse(topic=topic.topic, partitions=rows)
            topics.append(found)
        return context, FetchResponse(responses=topics)

    def _answer(
        self, topic: str, wanted: FetchRequest.FetchPartition
    ) -> FetchResponse.PartitionData:
        place = TopicPartition(topic, wanted.partition)
        for refused in self.codes:
            if refused[0] == place:
                self.codes.remove(refused)
                return FetchResponse.PartitionData(
                    partition_index=place.partition, error_code=int(refused[1])
                )
        data = b"".join(self.logs.get(place, [])[wanted.fetch_offset :])
        aborted = [
            FetchResponse.AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first in self.aborted.get(place, [])
        ]
        return FetchResponse.PartitionData(
            partition_index=place.partition,
            records=memoryview(data),
            last_stable_offset=self.open_at.get(place, -1),
            high_watermark=9,
            aborted_transactions=aborted,
        )


def one(offset: int, value: str, options: BatchOptions | None = None) -> bytes:
    """A batch of one record."""
    record = Record(offset, 0, None, value.encode())
    return build([record], base_offset=offset, options=options or BatchOptions())


def log(*values: str) -> list[bytes]:
    return [one(offset, value) for offset, value in enumerate(values)]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    found = FakeCluster(view("a"), view("b"))
    yield found
    found.close()


def fetcher(cluster: FakeCluster, course: Course, said: list[str] | None = None) -> RecordFetcher:
    tell = [].append if said is None else said.append
    views = list(cluster.views.values())
    return RecordFetcher(cast(ClusterLinks, cluster), views, course, tell)


def values(found: RecordFetcher, count: int | None = None) -> list[tuple[TopicPartition, str]]:
    """Each value with its place; `count` bounds the lists of records that are taken."""
    return [
        (place, (record.value or b"").decode())
        for place, records in islice(found.batches(), count)
        for record in records
    ]


def test_topics_are_read_together_to_their_ends(cluster: FakeCluster) -> None:
    cluster.logs = {A: log("a0", "a1", "a2"), B: log("b0", "b1")}
    course = Course(starts={A: 1, B: 0}, ends={A: 2, B: 2})

    assert values(fetcher(cluster, course)) == [(A, "a1"), (B, "b0"), (B, "b1")]


def test_nothing_wanted_is_nothing_asked(cluster: FakeCluster) -> None:
    assert values(fetcher(cluster, Course(starts={A: 5}, ends={A: 5}))) == []
    assert cluster.requests == []


def test_what_is_made_later_is_read_from_its_start(cluster: FakeCluster) -> None:
    cluster.logs = {
        A: log("a0"),
        A1: log("new partition"),
        TopicPartition("c", 0): log("new topic"),
    }
    later = [view("a", partitions=2), view("c")]
    found = fetcher(cluster, Course(starts={A: 0}, find=lambda: later))

    assert values(found, 3) == [(A, "a0"), (A1, "new partition"), (("c", 0), "new topic")]


def test_a_topic_made_again_is_read_from_its_start(cluster: FakeCluster) -> None:
    said: list[str] = []
    cluster.codes = [ONE_DELETED]
    found = fetcher(cluster, Course(starts={A: 7}), said)
    cluster.views["a"] = view("a", life=2)
    cluster.logs = {A: log("second life")}

    assert values(found, 1) == [(A, "second life")]
    assert said == ["the topic a was deleted and created again: reading from its start"]


def test_a_topic_made_again_ends_who_does_not_follow(cluster: FakeCluster) -> None:
    cluster.codes = [(A, ErrorCode.OFFSET_OUT_OF_RANGE)]
    found = fetcher(cluster, Course(starts={A: 7}, ends={A: 9}))
    cluster.views["a"] = view("a", life=2)
    cluster.logs = {A: log("another topic")}

    with pytest.raises(ClientError, match="the topic a was deleted and created again"):
        values(found, 1)


def test_a_topic_that_was_deleted_ends_who_does_not_follow(cluster: FakeCluster) -> None:
    cluster.codes = [ONE_DELETED]
    found = fetcher(cluster, Course(starts={A: 0}, ends={A: 1}))
    del cluster.views["a"]

    with pytest.raises(ClientError, match="the topic a was deleted"):
        values(found)


def test_an_offset_that_is_gone_leads_to_the_nearest_one(cluster: FakeCluster) -> None:
    cluster.codes = [(A, ErrorCode.OFFSET_OUT_OF_RANGE)]
    cluster.logs = {A: log("a0", "a1", "a2")}

    assert values(fetcher(cluster, Course(starts={A: 0}, ends={A: 3}))) == [(A, "a2")]


def test_who_follows_waits_for_a_leader_also_where_an_offset_is_gone(cluster: FakeCluster) -> None:
    cluster.codes = [(A, ErrorCode.OFFSET_OUT_OF_RANGE)] * 2
    cluster.leaderless = ["a-0 has no leader"]
    cluster.logs = {A: log("a0", "a1", "a2")}

    assert values(fetcher(cluster, Course(starts={A: 0})), 1) == [(A, "a2")]


def test_a_request_that_is_refused_as_a_whole_is_tried_again_after_a_pause(
    cluster: FakeCluster,
) -> None:
    cluster.refusals = [ErrorCode.UNKNOWN_SERVER_ERROR]
    cluster.logs = {A: log("a0")}
    begun_s = time.monotonic()

    assert values(fetcher(cluster, Course(starts={A: 0}, ends={A: 1}))) == [(A, "a0")]
    assert time.monotonic() - begun_s > 0.1


def test_a_refusal_for_good_names_the_partition(cluster: FakeCluster) -> None:
    cluster.codes = [(A, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]

    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: a-0"):
        values(fetcher(cluster, Course(starts={A: 0})))


def test_a_damaged_batch_is_told_with_its_offset_and_the_way_on(cluster: FakeCluster) -> None:
    cluster.codes = [(A, ErrorCode.CORRUPT_MESSAGE)]

    with pytest.raises(KafkaError) as refused:
        values(fetcher(cluster, Course(starts={A: 8})))

    assert str(refused.value) == (
        "CORRUPT_MESSAGE: a-0 has a damaged batch at offset 8, which its broker does not serve; "
        "the broker's log says from which offset on it can be read again"
    )


def test_who_can_be_told_goes_on_behind_a_damaged_batch(cluster: FakeCluster) -> None:
    cluster.logs[A] = log(*"abcd")
    cluster.codes = [(A, ErrorCode.CORRUPT_MESSAGE)] * 2
    told: list[str] = []

    found = values(
        fetcher(cluster, Course(starts={A: 0}, ends={A: 4}, tell_unreadable=told.append))
    )

    assert found == [(A, "c"), (A, "d")]
    assert told == ["a-0: the broker does not serve offsets 0 to 1, which are in a damaged batch"]


def test_a_damaged_batch_at_the_end_is_told_too(cluster: FakeCluster) -> None:
    cluster.codes = [(A, ErrorCode.CORRUPT_MESSAGE)] * 2
    told: list[str] = []

    assert not values(
        fetcher(cluster, Course(starts={A: 2}, ends={A: 4}, tell_unreadable=told.append))
    )
    assert told == ["a-0: the broker does not serve offsets 2 to 3, which are in a damaged batch"]


def test_bytes_that_are_no_batch_are_told_with_their_place(cluster: FakeCluster) -> None:
    cluster.logs[A] = [one(0, "a"), b"\xff" * 100]

    with pytest.raises(KafkaError, match="a-0 cannot be read at offset 1: record batch with magic"):
        values(fetcher(cluster, Course(starts={A: 0}, ends={A: 4})))


def test_what_was_aborted_is_passed_over_where_only_committed_records_count(
    cluster: FakeCluster,
) -> None:
    ours = BatchOptions(flags=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0, base_sequence=0)
    marker = build_marker(ControlRecord(False, 0), 0, base_offset=2, options=ours)
    cluster.logs = {A: [one(0, "kept"), one(1, "aborted", ours), marker]}
    cluster.aborted = {A: [(7, 1)]}
    course = Course(starts={A: 0}, ends={A: 3}, only_committed=True)

    assert values(fetcher(cluster, course)) == [(A, "kept")]
    assert cluster.requests[0].isolation_level == 1


@pytest.mark.parametrize("only_committed", [True, False])
def test_who_follows_hears_once_of_an_open_transaction_that_only_committed_records_wait_for(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, only_committed: bool
) -> None:
    monkeypatch.setattr("kbroker.client.fetch_troubles._WAITS_S", 0.0)
    cluster.logs, cluster.open_at = {A: log("a0"), B: log("b0")}, {A: 1, B: 1}
    told: list[Mapping[TopicPartition, int]] = []
    starts = {A: 0, B: 0}
    course = Course(starts=starts, only_committed=only_committed, tell_held=told.append)

    for _ in islice(fetcher(cluster, course).answers(), 5):
        pass

    assert told == ([{A: 1, B: 1}] if only_committed else [])


def test_a_partition_that_is_refused_is_asked_again_after_a_pause_and_the_others_at_once(
    cluster: FakeCluster,
) -> None:
    cluster.codes = [(A, ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1_000
    found = fetcher(cluster, Course(starts={A: 0, B: 0})).answers()
    begun_s = time.monotonic()

    for _ in found:
        if time.monotonic() - begun_s > 0.5:
            break

    asked = [
        [
            partition
            for topic in request.topics
            if topic.topic == name
            for partition in topic.partitions
        ]
        for request in cluster.requests
        for name in ("a", "b")
    ]
    assert 2 <= sum(map(len, asked[::2])) <= 5
    assert sum(map(len, asked[1::2])) > 20
