"""Groups and their offsets, from what coordinators of any age answer."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import MemberOnTheWay, assigned_partitions, lag, read_group
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorResponse
from kbroker.protocol.messages.list_groups import ListGroupsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
# Version 0, one topic "t" with partition 1, no user data.
ASSIGNMENT = b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\xff\xff\xff\xff"


class Cluster:
    """Brokers of one age; answers by request class, the last one for ever."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = {name: deque(given) for name, given in answers.items()}
        self.asked: list[str] = []
        self.brokers: list[MetadataResponse.MetadataResponseBroker] = []

    def describe(self, _names: list[str]) -> MetadataResponse:
        return MetadataResponse(brokers=self.brokers)

    def ask_any(self, _request: Any) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(node_id=1)

    def sleep(self, _seconds: float) -> None:
        """Ask again at once."""

    def ask(self, _node_id: int, request: Any) -> Any:
        name = type(request).__name__
        self.asked.append(name)
        given = self.answers.get(name)
        if given is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        answer = given.popleft() if len(given) > 1 else given[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


def described(state: str, *, code: ErrorCode = ErrorCode.NONE) -> DescribeGroupsResponse:
    members = []
    if state == "Stable":
        members.append(
            DescribeGroupsResponse.DescribedGroupMember(
                member_id="m", client_id="c", client_host="/h", member_assignment=ASSIGNMENT
            )
        )
    group = DescribeGroupsResponse.DescribedGroup(
        group_id="g",
        group_state=state,
        error_code=code,
        protocol_type="consumer",
        members=members,
    )
    return DescribeGroupsResponse(groups=[group])


def old_offsets(offset: int) -> OffsetFetchResponse:
    partition = OffsetFetchResponse.OffsetFetchResponsePartition(
        partition_index=0, committed_offset=offset
    )
    topic = OffsetFetchResponse.OffsetFetchResponseTopic(name="t", partitions=[partition])
    return OffsetFetchResponse(topics=[topic])


def new_offsets(*offsets: int) -> OffsetFetchResponse:
    partitions = [
        OffsetFetchResponse.OffsetFetchResponsePartitions(partition_index=n, committed_offset=at)
        for n, at in enumerate(offsets)
    ]
    topic = OffsetFetchResponse.OffsetFetchResponseTopics(name="t", partitions=partitions)
    group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[topic])
    return OffsetFetchResponse(groups=[group])


def cluster(**answers: list[Any]) -> tuple[Cluster, ClusterLinks]:
    made = Cluster(**answers)
    return made, cast("ClusterLinks", made)


@pytest.mark.parametrize("offsets", [old_offsets(5), new_offsets(5)])
def test_members_and_committed_offsets_are_read(offsets: OffsetFetchResponse) -> None:
    _, links = cluster(DescribeGroupsRequest=[described("Stable")], OffsetFetchRequest=[offsets])

    group = read_group(links, "g")

    (member,) = group.members
    assert (member.member_id, member.client_id, member.host) == ("m", "c", "/h")
    assert member.partitions == (P1,)
    assert group.committed == {P0: 5, P1: None}
    assert (group.state, group.is_unknown) == ("Stable", False)


def test_a_group_nobody_has_heard_of_is_unknown() -> None:
    _, links = cluster(
        DescribeGroupsRequest=[described("Dead")], OffsetFetchRequest=[OffsetFetchResponse()]
    )

    assert read_group(links, "g").is_unknown


def test_a_group_of_the_new_protocol_is_asked_for_by_its_own_request() -> None:
    topic = ConsumerGroupDescribeResponse.TopicPartitions(topic_name="t", partitions=[1, 0])
    target = ConsumerGroupDescribeResponse.TopicPartitions(topic_name="t", partitions=[1])
    assignment = ConsumerGroupDescribeResponse.Assignment
    member = ConsumerGroupDescribeResponse.Member(
        member_id="m",
        member_epoch=4,
        member_type=1,
        assignment=assignment(topic_partitions=[topic]),
        target_assignment=assignment(topic_partitions=[target]),
        subscribed_topic_names=["u", "t"],
        subscribed_topic_regex="v.*",
    )
    group = ConsumerGroupDescribeResponse.DescribedGroup(
        group_id="g",
        group_state="Assigning",
        group_epoch=6,
        assignment_epoch=5,
        assignor_name="uniform",
        members=[member],
    )
    _, links = cluster(
        DescribeGroupsRequest=[described("Dead", code=ErrorCode.GROUP_ID_NOT_FOUND)],
        ConsumerGroupDescribeRequest=[ConsumerGroupDescribeResponse(groups=[group])],
        OffsetFetchRequest=[new_offsets(5, 6)],
    )

    found = read_group(links, "g")

    [found_member] = found.members
    assert (found.state, found.strategy, found.epochs) == ("Assigning", "uniform", (6, 5))
    assert found_member.partitions == (P0, P1)
    assert found_member.way == MemberOnTheWay(
        protocol="consumer", epoch=4, target=(P1,), topics=("t", "u"), pattern="v.*"
    )


def test_a_group_of_the_new_protocol_that_is_refused_is_not_taken_for_a_missing_one() -> None:
    group = ConsumerGroupDescribeResponse.DescribedGroup(
        group_id="g", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    _, links = cluster(
        DescribeGroupsRequest=[described("Dead", code=ErrorCode.GROUP_ID_NOT_FOUND)],
        ConsumerGroupDescribeRequest=[ConsumerGroupDescribeResponse(groups=[group])],
    )

    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: group g"):
        read_group(links, "g")


def test_a_group_whose_protocol_is_not_served_any_more_is_not_taken_for_a_missing_one() -> None:
    code = int(ErrorCode.UNSUPPORTED_VERSION)
    refused = ConsumerGroupDescribeResponse.DescribedGroup(error_code=code, group_id="g")
    listed = ListGroupsResponse.ListedGroup(
        group_id="g", group_state="Stable", group_type="consumer"
    )
    made, links = cluster(
        DescribeGroupsRequest=[described("Dead")],
        ConsumerGroupDescribeRequest=[ConsumerGroupDescribeResponse(groups=[refused])],
        ListGroupsRequest=[ListGroupsResponse(groups=[listed])],
        OffsetFetchRequest=[new_offsets(5)],
    )
    made.brokers = [MetadataResponse.MetadataResponseBroker(node_id=1)]

    group = read_group(links, "g")

    assert (group.state, group.is_unknown, group.member_count) == ("Stable", False, None)
    assert group.is_not_served
    assert group.committed == {P0: 5}


def test_a_coordinator_that_is_just_loading_is_asked_again() -> None:
    made, links = cluster(
        DescribeGroupsRequest=[
            ConnectionRefusedError("broker 1 is not there"),
            described("", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            described("Empty"),
        ],
        OffsetFetchRequest=[new_offsets(5)],
    )

    assert read_group(links, "g").state == "Empty"
    assert made.asked.count(DescribeGroupsRequest.__name__) == 3
    assert made.asked.count(OffsetFetchRequest.__name__) == 1


def test_a_refusal_is_passed_on() -> None:
    refused = described("", code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    made, links = cluster(DescribeGroupsRequest=[refused])

    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED: group g"):
        read_group(links, "g")

    assert ConsumerGroupDescribeRequest.__name__ not in made.asked


@pytest.mark.parametrize("assignment", [b"", b"\0", b"of another protocol"])
def test_a_member_without_assignment_reads_nothing(assignment: bytes) -> None:
    assert assigned_partitions(assignment) == ()


@pytest.mark.parametrize(
    ("committed", "end", "expected"), [(3, 10, 7), (12, 10, 0), (None, 10, None), (3, None, None)]
)
def test_lag_is_the_end_less_what_is_committed(
    committed: int | None, end: int | None, expected: int | None
) -> None:
    assert lag(committed, end) == expected
