"""The end of a partition is waited for while its leader does not know it yet."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import pytest

from kbroker.client.topic_figures import Ends, ends_of
from kbroker.errors import ErrorCode, Trouble
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))


class Leaders:
    """Broker 1 leads partitions that end at 10, with the codes that come before; others are gone."""

    def __init__(self, codes: dict[int, list[ErrorCode]]) -> None:
        self.codes = codes
        self.asked: list[list[int]] = []

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
    return ends_of(cluster, leaders, sleep=lambda _: None)


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
        "orders-1: its leader does not tell where it ends (TOPIC_AUTHORIZATION_FAILED)"
    )
    assert found.refusal(THIRD) == "orders-2: no leader answers"
    assert (cluster.asked, found.trouble) == ([[1]], None)
