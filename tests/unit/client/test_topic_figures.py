"""The end of a partition is waited for while its leader does not know it yet."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import pytest

from kbroker.client.cluster_links import LATEST, TopicView
from kbroker.client.topic_figures import (
    Ends,
    all_offsets,
    ends_of,
    epoch_ends,
    found_at,
    offsets_at,
)
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.list_offsets import (
    MAX_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))


class Leaders:
    """Broker 1 leads partitions that end at 10, with the codes that come before; others are gone."""

    def __init__(self, codes: dict[int, list[ErrorCode]]) -> None:
        self.codes = codes
        self.asked: list[list[int]] = []

    def sleep(self, _seconds: float) -> None:
        """Ask again at once."""

    def ask(self, node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        if node_id != 1:
            raise ConnectionRefusedError("gone")
        (topic,) = request.topics
        numbers = [each.partition_index for each in topic.partitions]
        self.asked.append(numbers)
        rows = [
            ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=number,
                error_code=self.codes[number].pop(0) if self.codes.get(number) else 0,
                offset=10,
            )
            for number in numbers
        ]
        topics = [ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=rows)]
        return ListOffsetsResponse(topics=topics)


def ends(cluster: Any, leaders: dict[TopicPartition, int]) -> Ends:
    return ends_of(cluster, leaders)


def test_a_leader_that_does_not_know_the_end_yet_is_asked_for_it_again() -> None:
    cluster = Leaders({1: [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE]})

    found = ends(cluster, {FIRST: 1, SECOND: 1})

    assert found.offsets == {FIRST: 10, SECOND: 10}
    assert (found.codes, found.trouble) == ({}, None)
    assert cluster.asked == [[0, 1], [1], [1]]


def test_an_end_that_stays_unknown_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", partial(next, count(step=3)))
    cluster = Leaders({0: [ErrorCode.OFFSET_NOT_AVAILABLE] * 9})

    found = ends(cluster, {FIRST: 1, SECOND: 1})

    assert found.offsets == {SECOND: 10}
    assert found.refusal(FIRST) == (
        "the end of orders-0 is not known since its leader changed (OFFSET_NOT_AVAILABLE): are "
        "fewer replicas in sync than min.insync.replicas asks for?"
    )
    assert found.trouble is Trouble.NOT_ENOUGH_REPLICAS


def test_nobody_is_asked_again_who_is_gone_or_refuses() -> None:
    cluster = Leaders({1: [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 9})

    found = ends(cluster, {FIRST: 2, SECOND: 1, THIRD: NO_LEADER})

    assert found.offsets == {}
    assert found.refusal(FIRST) == "orders-0: no leader answers"
    assert found.refusal(SECOND) == (
        "orders-1: its leader does not say where it ends (TOPIC_AUTHORIZATION_FAILED)"
    )
    assert found.refusal(THIRD) == "orders-2: no leader answers"
    assert (cluster.asked, found.trouble) == ([[1]], None)


def test_a_thousand_partitions_take_one_question_and_one_that_is_refused_spoils_no_other() -> None:
    cluster: Any = Leaders({500: [ErrorCode.KAFKA_STORAGE_ERROR]})
    leaders = {TopicPartition("orders", number): 1 for number in range(1_000)}

    found = offsets_at(cluster, leaders, LATEST)

    assert len(found) == 999
    assert len(cluster.asked) == 1


def test_brokers_that_know_no_largest_timestamps_are_not_asked_for_one() -> None:
    class Old(Leaders):
        def ask(self, node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
            if request.lowest_version > 6:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            return super().ask(node_id, request)

    cluster: Any = Old({})

    assert found_at(cluster, {FIRST: 1}, MAX_TIMESTAMP) == {}
    assert offsets_at(cluster, {FIRST: 1}, LATEST) == {FIRST: 10}


def test_of_all_offsets_only_those_that_did_not_come_are_waited_for() -> None:
    class Waiting(Leaders):
        def offsets(self, view: TopicView, numbers: list[int], *_: Any, **__: Any) -> Any:
            return dict.fromkeys(numbers, 20)

    cluster: Any = Waiting({1: [ErrorCode.NOT_LEADER_OR_FOLLOWER]})
    view = TopicView(name="orders", code=ErrorCode.NONE, leaders={0: 1, 1: 1, 2: NO_LEADER})

    found = all_offsets(cluster, [view], LATEST, only_committed=True)

    assert found == {FIRST: 10, SECOND: 20, THIRD: 20}


def test_ends_of_epochs_are_left_out_where_a_leader_is_gone_or_does_not_know_them() -> None:
    class Epochs:
        def ask(self, node_id: int, request: OffsetForLeaderEpochRequest) -> Any:
            if node_id != 1:
                raise ConnectionRefusedError("gone")
            (topic,) = request.topics
            rows = [
                OffsetForLeaderEpochResponse.EpochEndOffset(
                    partition=each.partition, end_offset=7 if each.leader_epoch == 3 else -1
                )
                for each in topic.partitions
            ]
            result = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
            return OffsetForLeaderEpochResponse(topics=[result(topic="orders", partitions=rows)])

    cluster: Any = Epochs()

    found = epoch_ends(cluster, {FIRST: 1, SECOND: 1, THIRD: 2}, {FIRST: 3, SECOND: 4, THIRD: 3})

    assert found == {FIRST: 7}
