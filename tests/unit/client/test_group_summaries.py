"""All groups of a cluster, in a few requests to each broker."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.client.group_summaries import GroupSummary, group_summaries
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

Listed = ListGroupsResponse.ListedGroup
PLACE = TopicPartition("orders", 3)


class Brokers:
    """Brokers with groups, each of which has committed the length of its name."""

    def __init__(self, groups: dict[int, list[Listed]], *, is_old: bool = False) -> None:
        self.groups = groups
        self.is_old = is_old
        self.asked: list[str] = []
        self.refused: dict[type, ErrorCode] = {}

    def ask(self, node_id: int, request: Any) -> Any:
        if node_id not in self.groups:
            raise ConnectionRefusedError("gone")
        self.asked.append(type(request).__name__.removesuffix("Request"))
        if type(request) in self.refused:
            raise KafkaError(self.refused[type(request)])
        answers = {
            ListGroupsRequest: lambda _: ListGroupsResponse(groups=self.groups[node_id]),
            DescribeGroupsRequest: self._classic,
            ConsumerGroupDescribeRequest: self._new,
            OffsetFetchRequest: self._offsets,
        }
        return answers[type(request)](request)

    def _offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        if self.is_old:
            row = OffsetFetchResponse.OffsetFetchResponsePartition(
                partition_index=3, committed_offset=len(request.group_id)
            )
            topic = OffsetFetchResponse.OffsetFetchResponseTopic(name="orders", partitions=[row])
            return OffsetFetchResponse(topics=[topic])
        return OffsetFetchResponse(groups=[self._of_group(each) for each in request.groups])

    def _of_group(self, asked: OffsetFetchRequest.OffsetFetchRequestGroup) -> Any:
        assert asked.topics is None
        row = OffsetFetchResponse.OffsetFetchResponsePartitions(
            partition_index=3, committed_offset=len(asked.group_id)
        )
        topic = OffsetFetchResponse.OffsetFetchResponseTopics(name="orders", partitions=[row])
        return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=asked.group_id, topics=[topic])

    def _classic(self, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        member = DescribeGroupsResponse.DescribedGroupMember()
        groups = [
            DescribeGroupsResponse.DescribedGroup(
                group_id=name, group_state="Stable", members=[member]
            )
            for name in request.groups
        ]
        return DescribeGroupsResponse(groups=groups)

    def _new(self, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        groups = [
            ConsumerGroupDescribeResponse.DescribedGroup(group_id=name, group_state="Assigning")
            for name in request.group_ids
        ]
        return ConsumerGroupDescribeResponse(groups=groups)


def found(
    brokers: Brokers, *ids: int, refusals: list[Any] | None = None
) -> dict[str, GroupSummary]:
    told: list[Any] = [] if refusals is None else refusals
    links: Any = brokers
    return group_summaries(links, ids or (1,), told.append)


def test_all_groups_of_a_broker_take_a_request_of_each_kind() -> None:
    types = ("classic", "Classic", "consumer", "share")
    listed = [Listed(group_id=f"g{n}", group_type=kind) for n, kind in enumerate(types)]
    brokers = Brokers({1: listed})

    groups = found(brokers)

    assert brokers.asked == ["ListGroups", "OffsetFetch", "DescribeGroups", "ConsumerGroupDescribe"]
    assert [(each.state, each.members) for each in groups.values()] == [
        ("Stable", 1), ("Stable", 1), ("Assigning", 0), ("", None),
    ]  # fmt: skip
    assert [each.committed for each in groups.values()] == [{PLACE: 2}] * 3 + [None]


def test_an_old_broker_is_asked_for_the_offsets_of_one_group_at_a_time() -> None:
    brokers = Brokers({1: [Listed(group_id="a"), Listed(group_id="bcd")]}, is_old=True)

    groups = found(brokers)

    assert brokers.asked == ["ListGroups", "OffsetFetch", "OffsetFetch", "DescribeGroups"]
    assert {name: each.committed for name, each in groups.items()} == {
        "a": {PLACE: 1},
        "bcd": {PLACE: 3},
    }


def test_many_groups_are_asked_for_in_portions() -> None:
    brokers = Brokers({1: [Listed(group_id=f"g{n}") for n in range(450)]})

    groups = found(brokers)

    assert len(groups) == 450
    assert brokers.asked.count("OffsetFetch") == 3


def test_a_broker_that_is_gone_leaves_the_groups_of_others() -> None:
    brokers = Brokers({2: [Listed(group_id="there")]})

    groups = found(brokers, 1, 2)

    assert [(name, each.coordinator) for name, each in groups.items()] == [("there", 2)]


@pytest.mark.parametrize("refused", [OffsetFetchRequest, DescribeGroupsRequest, ListGroupsRequest])
def test_what_a_broker_refuses_is_named_and_the_rest_is_there(refused: type) -> None:
    brokers = Brokers({1: [Listed(group_id="g", group_state="Empty")]})
    brokers.refused[refused] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    refusals: list[Any] = []

    groups = found(brokers, refusals=refusals)

    assert [error.code for error in refusals] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert {each.state for each in groups.values()} <= {"Empty"}
